//! Moves the engine's epoch, so that a core that does not come back is stopped.

use std::thread;
use std::time::Duration;

use wasmtime::Engine;

const PERIOD: Duration = Duration::from_millis(250);

/// Proof that the epoch of an engine is being moved.
pub(super) struct Watchdog(());

impl Watchdog {
    /// Starts the thread; it ends when the engine is gone.
    pub(super) fn start(engine: &Engine) -> std::io::Result<Self> {
        let engine = engine.weak();
        thread::Builder::new()
            .name("core-watchdog".to_owned())
            .spawn(move || {
                loop {
                    thread::sleep(PERIOD);
                    match engine.upgrade() {
                        Some(engine) => engine.increment_epoch(),
                        None => return,
                    }
                }
            })?;
        Ok(Self(()))
    }
}
