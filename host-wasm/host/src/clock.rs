//! Time as an argument: the clock knows what the last input said and wakes
//! whoever asked for a later moment.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Monotonic milliseconds since an arbitrary origin chosen by the shell.
pub type Millis = u64;

/// A clock that moves only when [`Clock::advance`] is called.
///
/// Clones share the same time and the same timers.
#[derive(Clone, Default)]
pub struct Clock {
    inner: Rc<Inner>,
}

#[derive(Default)]
struct Inner {
    now: Cell<Millis>,
    next_id: Cell<u64>,
    timers: RefCell<BTreeMap<(Millis, u64), Waker>>,
}

impl Clock {
    /// The moment of the input that is being handled.
    pub fn now(&self) -> Millis {
        self.inner.now.get()
    }

    /// Moves time forward (never back) and wakes every timer that is due.
    pub fn advance(&self, now: Millis) {
        self.inner.now.set(now.max(self.inner.now.get()));
        let mut timers = self.inner.timers.borrow_mut();
        while let Some(entry) = timers.first_entry() {
            if entry.key().0 > self.inner.now.get() {
                break;
            }
            entry.remove().wake();
        }
    }

    /// The earliest moment somebody waits for.
    pub fn next_deadline(&self) -> Option<Millis> {
        let timers = self.inner.timers.borrow();
        timers.first_key_value().map(|((at, _), _)| *at)
    }

    /// Resolves when the clock has reached `at`; at once if it already has.
    pub fn sleep_until(&self, at: Millis) -> Sleep {
        Sleep {
            clock: self.clone(),
            at,
            id: None,
        }
    }

    /// Resolves `duration` milliseconds from now.
    pub fn sleep(&self, duration: Millis) -> Sleep {
        self.sleep_until(self.now().saturating_add(duration))
    }
}

/// A wait for a moment; dropping it removes its timer.
pub struct Sleep {
    clock: Clock,
    at: Millis,
    id: Option<u64>,
}

impl Sleep {
    fn forget(&mut self) {
        if let Some(id) = self.id.take() {
            self.clock.inner.timers.borrow_mut().remove(&(self.at, id));
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.clock.now() >= self.at {
            self.forget();
            return Poll::Ready(());
        }
        let id = match self.id {
            Some(id) => id,
            None => {
                let id = self.clock.inner.next_id.get();
                self.clock.inner.next_id.set(id + 1);
                self.id = Some(id);
                id
            }
        };
        let key = (self.at, id);
        let mut timers = self.clock.inner.timers.borrow_mut();
        timers.insert(key, cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.forget();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn sleep_resolves_at_its_moment_and_not_before() {
        let clock = Clock::default();
        clock.advance(100);
        let mut sleep = clock.sleep(50);
        assert!((&mut sleep).now_or_never().is_none());
        assert_eq!(clock.next_deadline(), Some(150));
        clock.advance(149);
        assert!((&mut sleep).now_or_never().is_none());
        clock.advance(150);
        assert!((&mut sleep).now_or_never().is_some());
        assert_eq!(clock.next_deadline(), None);
    }

    #[test]
    fn dropped_sleep_leaves_no_timer() {
        let clock = Clock::default();
        let mut sleep = clock.sleep(5);
        assert!((&mut sleep).now_or_never().is_none());
        drop(sleep);
        assert_eq!(clock.next_deadline(), None);
    }

    #[test]
    fn time_never_moves_back() {
        let clock = Clock::default();
        clock.advance(10);
        clock.advance(3);
        assert_eq!(clock.now(), 10);
    }
}
