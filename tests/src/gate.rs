//! How many tests of one binary have a product at a time: browsers need more
//! than a test thread's share of a small machine.

use std::cell::RefCell;
use std::sync::{Condvar, Mutex, PoisonError};

/// Tests that may have a home at one time.
const PLACES: usize = 2;

static TAKEN: Mutex<usize> = Mutex::new(0);
static FREED: Condvar = Condvar::new();

struct Place;

impl Place {
    fn take() -> Self {
        let taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = FREED.wait_while(taken, |taken| *taken >= PLACES);
        *waited.unwrap_or_else(PoisonError::into_inner) += 1;
        Self
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        *TAKEN.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        FREED.notify_one();
    }
}

thread_local! {
    static PLACE: RefCell<Option<Place>> = const { RefCell::new(None) };
}

/// Waits for this test's place. It is kept until the thread of the test ends,
/// so that a test with several homes never waits for itself.
pub(crate) fn enter() {
    PLACE.with_borrow_mut(|place| {
        place.get_or_insert_with(Place::take);
    });
}
