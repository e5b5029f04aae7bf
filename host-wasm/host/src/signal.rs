//! A one-way announcement that any number of waiters can see: cancelled with
//! a reason, page ready, interrupt requested.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// Announces a value once; later values are ignored. Clones share it.
pub struct Signal<T> {
    inner: Rc<RefCell<Inner<T>>>,
}

struct Inner<T> {
    value: Option<T>,
    waiters: Vec<Waker>,
}

impl<T> Clone for Signal<T> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
        }
    }
}

impl<T> Default for Signal<T> {
    fn default() -> Self {
        Self {
            inner: Rc::new(RefCell::new(Inner {
                value: None,
                waiters: Vec::new(),
            })),
        }
    }
}

impl<T: Clone> Signal<T> {
    /// Announces `value` unless something was announced before.
    pub fn announce(&self, value: T) {
        let mut inner = self.inner.borrow_mut();
        if inner.value.is_some() {
            return;
        }
        inner.value = Some(value);
        for waiter in inner.waiters.drain(..) {
            waiter.wake();
        }
    }

    /// Resolves with the announced value.
    pub async fn wait(&self) -> T {
        poll_fn(|cx| {
            let mut inner = self.inner.borrow_mut();
            if let Some(value) = &inner.value {
                return Poll::Ready(value.clone());
            }
            if !inner.waiters.iter().any(|w| w.will_wake(cx.waker())) {
                inner.waiters.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn first_announcement_wins_and_every_waiter_sees_it() {
        let signal = Signal::default();
        assert!(signal.wait().now_or_never().is_none());
        signal.announce("first");
        signal.announce("second");
        assert_eq!(signal.wait().now_or_never(), Some("first"));
        assert_eq!(signal.clone().wait().now_or_never(), Some("first"));
    }
}
