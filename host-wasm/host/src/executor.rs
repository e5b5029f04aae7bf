//! The small executor: conversations are plain futures, polled on one thread
//! until none can move without another input.

use futures_executor::{LocalPool, LocalSpawner};
use futures_util::task::LocalSpawnExt;
use std::future::Future;

use crate::clock::{Clock, Millis};

/// Runs the conversations of one core.
pub struct Executor {
    pool: LocalPool,
    spawner: Spawner,
    clock: Clock,
}

/// Starts conversations; clones belong to the same executor.
#[derive(Clone)]
pub struct Spawner(LocalSpawner);

impl Spawner {
    /// Starts `conversation`. After the executor is gone this does nothing.
    pub fn spawn(&self, conversation: impl Future<Output = ()> + 'static) {
        // The only possible error is "the pool is shut down": then there is
        // nobody left to whom the conversation could matter.
        let _ = self.0.spawn_local(conversation);
    }
}

impl Executor {
    /// An executor without conversations, at moment 0.
    pub fn new() -> Self {
        let pool = LocalPool::new();
        let spawner = Spawner(pool.spawner());
        Self {
            pool,
            spawner,
            clock: Clock::default(),
        }
    }

    /// The handle that starts conversations.
    pub fn spawner(&self) -> &Spawner {
        &self.spawner
    }

    /// The clock that the conversations see.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Moves time to `now` and polls until no conversation can move.
    pub fn run(&mut self, now: Millis) {
        self.clock.advance(now);
        self.pool.run_until_stalled();
    }
}

impl Default for Executor {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::rc::Rc;

    #[test]
    fn a_conversation_continues_when_its_time_comes() {
        let mut executor = Executor::new();
        let done = Rc::new(Cell::new(0));
        let (clock, seen) = (executor.clock().clone(), done.clone());
        executor.spawner().spawn(async move {
            clock.sleep_until(10).await;
            seen.set(1);
            clock.sleep_until(20).await;
            seen.set(2);
        });
        executor.run(0);
        assert_eq!(done.get(), 0);
        executor.run(10);
        assert_eq!(done.get(), 1);
        executor.run(25);
        assert_eq!(done.get(), 2);
    }
}
