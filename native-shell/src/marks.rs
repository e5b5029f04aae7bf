//! Moments of a start, for whoever measures it. Nothing is kept unless a
//! measurement asks for it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Every core file of the engine has its digest.
pub const ENGINE_VERIFIED: &str = "engine verified";
/// The boot image was read and has its digest.
pub const IMAGE_READ: &str = "boot image read";
/// The browser's process exists.
pub const BROWSER_STARTED: &str = "browser started";
/// The browser asked for the page.
pub const PAGE_REQUESTED: &str = "page requested";
/// The page asked for the engine's code.
pub const WASM_REQUESTED: &str = "wasm requested";
/// The page asked for the worker's entry module.
pub const WORKER_REQUESTED: &str = "worker script requested";
/// The page asked for the boot image.
pub const IMAGE_REQUESTED: &str = "image requested";
/// The page opened its bridge.
pub const BRIDGE_OPENED: &str = "bridge opened";
/// The page sent its handshake: the machine is booted.
pub const READY: &str = "ready";

/// A name and the moment it was first reached.
pub type Mark = (&'static str, Instant);

/// Records when the parts of a start were reached; clones share one record.
/// The default records nothing.
#[derive(Clone, Debug, Default)]
pub struct Marks(Option<Arc<Mutex<Vec<Mark>>>>);

impl Marks {
    /// A recorder without marks yet.
    #[must_use]
    pub fn recording() -> Self {
        Self(Some(Arc::default()))
    }

    /// Notes that `name` is reached now. Only the first time counts, so the
    /// record is bounded by the names of the program.
    pub fn note(&self, name: &'static str) {
        let now = Instant::now();
        if let Some(marks) = &self.0 {
            let mut marks = lock(marks);
            if marks.iter().all(|(noted, _)| *noted != name) {
                marks.push((name, now));
            }
        }
    }

    /// What was noted until now, in order.
    #[must_use]
    pub fn noted(&self) -> Vec<Mark> {
        self.0
            .as_ref()
            .map_or_else(Vec::new, |marks| lock(marks).clone())
    }
}

fn lock(marks: &Mutex<Vec<Mark>>) -> MutexGuard<'_, Vec<Mark>> {
    marks.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_one_record_and_the_first_time_counts() {
        let marks = Marks::recording();
        marks.clone().note(PAGE_REQUESTED);
        let first = marks.noted();
        marks.note(PAGE_REQUESTED);
        marks.note(READY);
        let names: Vec<_> = marks.noted().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, [PAGE_REQUESTED, READY]);
        assert_eq!(marks.noted()[0], first[0]);
    }

    #[test]
    fn the_default_records_nothing() {
        let marks = Marks::default();
        marks.note(READY);
        assert_eq!(marks.noted(), []);
    }
}
