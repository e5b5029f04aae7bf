//! Random work between random saves and restores: Python describes all of its
//! state, and after every restore the description is the one of the save
//! (machine 7, 9; conformance 40).
//!
//! `PYPROC_TEST_ROUNDS` widens it, `PYPROC_TEST_SEED` repeats it.

use std::collections::HashSet;
use std::path::PathBuf;

use pyproc_tests::python::{detail, setting};
use pyproc_tests::random::Random;
use pyproc_tests::{Home, Machine};
use serde_json::{Value, json};

/// Generators, files, open handles, databases, instances, tasks and more.
const WORK: &str = include_str!("../../../page/test/checkpoint-program.py");
const NATIVE: &str = include_str!("native.py");

/// `turn` does one operation of each kind of work. `whole` describes all state; a `timeless`
/// description leaves out the times of files, which differ when the same work is done twice.
const HELPERS: &str = "\
import hashlib, secrets
def turn(n):
    step(n)
    ledger.work(n)
    return whole(timeless=True)
def whole(timeless=False):
    lines = [*machine.describe(), *ledger.describe()]
    if timeless:
        lines = [l.rsplit(', ', 2)[0] if l.startswith(\"('/home/user\") else l for l in lines]
    return hashlib.sha256('\\n'.join(lines).encode()).hexdigest()
";

/// Most bytes that the heap may have at the end; the work itself keeps less.
const HEAP_BYTES: u64 = 384 << 20;

fn wheels() -> PathBuf {
    let folder = std::env::var_os("PYPROC_TEST_WHEELS").expect(
        "PYPROC_TEST_WHEELS names the directory of the wheels: run the tests with `cargo xtask test`",
    );
    PathBuf::from(folder)
}

/// A save: its index, the description at that moment, and the next turn's.
struct Saved {
    index: Value,
    description: String,
    turn: u64,
    /// What the first turn after the save led to, once it was made.
    next: Option<String>,
}

struct Rounds {
    machine: Machine,
    random: Random,
    saves: Vec<Saved>,
    secrets: HashSet<String>,
    heap: u64,
}

impl Rounds {
    async fn work(&mut self) {
        for _ in 0..=self.random.below(4) {
            let n = self.random.below(100_000);
            self.machine.value(&format!("turn({n})")).await;
        }
    }

    async fn save(&mut self) {
        let saved = self.machine.save().await;
        self.heap = saved["heapBytes"].as_u64().expect("a size");
        let description = self.machine.value("whole()").await;
        let turn = self.random.below(100_000) as u64;
        self.saves.push(Saved {
            index: saved["index"].clone(),
            description,
            turn,
            next: None,
        });
        let last = self.saves.len() - 1;
        self.first_turn(last).await;
    }

    /// The first turn after a save, which leads to the same state every time.
    async fn first_turn(&mut self, number: usize) {
        let Self { machine, saves, .. } = self;
        let saved = &mut saves[number];
        let after = machine.value(&format!("turn({})", saved.turn)).await;
        match &saved.next {
            None => saved.next = Some(after),
            Some(next) => assert_eq!(&after, next, "after save {}", saved.index),
        }
    }

    async fn restore(&mut self) {
        let number = self.random.below(self.saves.len());
        let saved = &self.saves[number];
        let restored = self.machine.restore(saved.index.clone()).await;
        let (index, seed) = (&saved.index, self.random.seed);
        assert_eq!(&restored["index"], index);
        let description = self.machine.value("whole()").await;
        assert_eq!(description, saved.description, "save {index}, seed {seed}");
        let secret = self.machine.value("secrets.token_hex(16)").await;
        assert!(self.secrets.insert(secret), "a secret came twice: {index}");
        if self.random.below(2) == 0 {
            // The look changed nothing that the next turn could notice.
            self.first_turn(number).await;
        }
    }

    /// The engine fails; what was saved is still there.
    async fn crash(&mut self) {
        let error = self.machine.error("import os\nos.abort()").await;
        let restored = detail(&error, "restored");
        assert!(restored.is_object(), "{error}: {restored}");
        self.restore().await;
    }
}

#[tokio::test]
async fn random_rounds_keep_the_model_and_the_machine_equal() {
    let rounds = setting("PYPROC_TEST_ROUNDS", 80);
    let home = Home::with_machine(json!({
        "wheels": wheels(),
        "maxCheckpoints": 4096,
        "storeLimitBytes": 3u64 << 30,
    }));
    let machine = home.connect().await;
    for code in [WORK, NATIVE, HELPERS] {
        machine.exec(code).await;
    }
    let mut rounds_of = Rounds {
        machine,
        random: Random::from_environment(),
        saves: Vec::new(),
        secrets: HashSet::new(),
        heap: 0,
    };
    let mut restores = 0;
    rounds_of.save().await;
    for round in 0..rounds {
        match rounds_of.random.below(20) {
            0..10 => rounds_of.work().await,
            10..14 => rounds_of.save().await,
            14..19 => {
                rounds_of.restore().await;
                restores += 1;
            }
            _ if round % 5 == 0 => rounds_of.crash().await,
            _ => rounds_of.work().await,
        }
    }
    assert!(restores > 0 && rounds_of.saves.len() > 1);
    assert!(rounds_of.heap < HEAP_BYTES, "{} bytes", rounds_of.heap);
    let seed = rounds_of.random.seed;
    println!(
        "{rounds} rounds, {restores} restores, {} saves, heap {} bytes, seed {seed}",
        rounds_of.saves.len(),
        rounds_of.heap
    );
    rounds_of.machine.close().await;
    home.is_left_clean().await;
}
