//! The host and the machine page wired together in memory, with an agent and
//! workers that answer, delay, fail, die and lie at random. Every run is a
//! function of its seed: a failure names the seed that repeats it.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod agent;
mod oracle;
mod page;
mod rng;
mod worker;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use world::{Honesty, World};

/// Seeds of each kind; `PYPROC_SIM_SEEDS` sets another number.
const SEEDS: u64 = 1000;

fn run_all(first: u64, honesty: Honesty) {
    let given = std::env::var("PYPROC_SIM_SEEDS").ok();
    let seeds = given.map_or(SEEDS, |text| text.parse().unwrap());
    let mut terminals = 0;
    for seed in first..first + seeds {
        let run = catch_unwind(AssertUnwindSafe(|| World::new(seed, honesty).run()));
        match run {
            Ok(ended) => terminals += ended,
            Err(panic) => {
                eprintln!("seed {seed} ({honesty:?}) failed; `PYPROC_SIM_SEED={seed}` repeats it");
                resume_unwind(panic);
            }
        }
    }
    assert!(terminals > seeds, "the simulation must have done something");
}

#[test]
fn what_the_client_is_told_is_what_happened() {
    run_all(1, Honesty::Truthful);
}

#[test]
fn lying_workers_break_nothing_but_themselves() {
    run_all(1_000_000, Honesty::Lying);
}

#[test]
fn one_seed_is_repeated() {
    if let Ok(seed) = std::env::var("PYPROC_SIM_SEED") {
        let seed: u64 = seed.parse().unwrap();
        let honesty = match seed < 1_000_000 {
            true => Honesty::Truthful,
            false => Honesty::Lying,
        };
        World::new(seed, honesty).verbose().run();
    }
}
