//! Progress of long work on standard error: a changing line on a terminal,
//! one plain line elsewhere.

use std::io::{IsTerminal, Write, stderr};

use crate::diagnostics;

/// One piece of long work.
pub struct Progress {
    title: &'static str,
    announced: bool,
    terminal: bool,
}

impl Progress {
    /// Work that has not said anything yet.
    pub fn start(title: &'static str) -> Self {
        Self {
            title,
            announced: false,
            terminal: stderr().is_terminal(),
        }
    }

    /// The work has come to a new phase.
    pub fn phase(&mut self, text: &str) {
        if self.terminal {
            // Progress is a courtesy: a closed terminal does not matter.
            let _ = write!(stderr(), "\r\x1b[K{}: {text}", self.title);
            let _ = stderr().flush();
        } else if !self.announced {
            diagnostics::line(self.title);
        }
        self.announced = true;
    }

    /// The work is done.
    pub fn finish(self) {
        if self.terminal && self.announced {
            // As above.
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}
