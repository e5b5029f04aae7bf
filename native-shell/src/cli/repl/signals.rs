//! Signals of the session. At the prompt Ctrl-C is a key and no signal.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What somebody asked for.
pub(super) enum Asked {
    /// To stop what runs.
    Interrupt,
    /// To end the process, with this exit code.
    End(u8),
}

pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// The next signal. Nothing is lost when the wait is given up.
    pub(super) async fn next(&mut self) -> Asked {
        // The shell's convention: 128 and the signal's number.
        tokio::select! {
            _ = self.interrupt.recv() => Asked::Interrupt,
            _ = self.terminate.recv() => Asked::End(143),
            _ = self.hangup.recv() => Asked::End(129),
        }
    }
}
