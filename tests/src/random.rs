//! Random choices that can be repeated: the seed is in every failure message
//! through `random.seed`.

use std::time::{SystemTime, UNIX_EPOCH};

/// A small generator (SplitMix64).
#[derive(Debug)]
pub struct Random {
    /// Where it started.
    pub seed: u64,
    state: u64,
}

impl Random {
    /// The seed is `PYPROC_TEST_SEED`, or the time.
    pub fn from_environment() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(1, |now| now.as_micros() as u64);
        Self::new(crate::python::setting("PYPROC_TEST_SEED", now))
    }

    pub fn new(seed: u64) -> Self {
        Self { seed, state: seed }
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not zero.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.bits() % bound as u64) as usize
    }
}
