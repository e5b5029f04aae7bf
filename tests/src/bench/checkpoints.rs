//! Save, restore and reset, client to client, against a plain copy of as many
//! bytes.

use std::hint::black_box;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Effort;
use super::report::{Budget, Measure, Report};
use super::samples::Samples;
use crate::{Home, Machine};

const MEGABYTE: u64 = 1_000_000;

/// Rounds of growing until the heap has its size.
const GROWING: usize = 16;

/// Copies of the floor.
const COPIES: usize = 21;

/// Blocks of 1 MiB with 55 % random pages; the others are zero.
const GROW: &str = "
import os
blocks = []
def grow(count):
    for _ in range(count):
        block = bytearray(1 << 20)
        for page in range(256):
            if page * 55 // 100 != (page + 1) * 55 // 100:
                block[page << 12:page + 1 << 12] = os.urandom(4096)
        blocks.append(block)
";

/// A size of the heap and its budgets for save and restore, milliseconds.
struct Size {
    megabytes: u64,
    save: Option<f64>,
    restore: Option<f64>,
}

const SIZES: [Size; 3] = [
    Size {
        megabytes: 31,
        save: Some(8.0),
        restore: Some(7.0),
    },
    Size {
        megabytes: 64,
        save: None,
        restore: None,
    },
    Size {
        megabytes: 256,
        save: Some(60.0),
        restore: Some(55.0),
    },
];

pub(super) async fn measure(effort: Effort, report: &mut Report) {
    for size in SIZES {
        measure_size(effort, report, &size).await;
    }
}

async fn measure_size(effort: Effort, report: &mut Report, size: &Size) {
    let home = Home::default();
    let machine = home.connect().await;
    let heap = grow(&machine, size.megabytes).await;

    let mut saves = Samples::default();
    for round in 0..effort.checkpoints {
        machine.exec(&format!("state = {round}")).await;
        let (time, output) = timed(&machine, "machine.checkpoint.save", json!({})).await;
        assert_eq!(output["kind"], "delta", "{output}");
        saves.push(time);
    }
    let index = machine.save().await["index"].clone();
    let mut restores = Samples::default();
    for round in 0..effort.checkpoints {
        machine.exec(&format!("state = -{round}")).await;
        let input = json!({"index": index});
        let (time, output) = timed(&machine, "machine.checkpoint.restore", input).await;
        assert_eq!(output["recycled"], false, "{output}");
        restores.push(time);
    }
    assert_eq!(
        machine.value("state").await,
        (effort.checkpoints - 1).to_string()
    );
    let mut resets = Samples::default();
    for round in 0..effort.interrupts {
        if round > 0 {
            grow(&machine, size.megabytes).await;
        }
        let (time, _) = timed(&machine, "machine.reset", json!({})).await;
        resets.push(time);
    }
    machine.close().await;

    let copy = copying(heap);
    let actual = heap as f64 / MEGABYTE as f64;
    let name = |operation: &str| format!("{operation}, {} MB heap ({actual:.0})", size.megabytes);
    let measure = |operation, samples: &Samples, budget: Option<f64>| {
        let measure = Measure::median(name(operation), samples).floor("memcpy", copy.median());
        match budget {
            Some(limit) => measure.budget(Budget::AtMost(limit)),
            None => measure,
        }
    };
    report.add(measure("checkpoint save", &saves, size.save));
    report.add(measure("checkpoint restore", &restores, size.restore));
    report.add(measure("reset from the grown heap", &resets, None));
}

async fn timed(machine: &Machine, operation: &str, input: Value) -> (Duration, Value) {
    let begun = Instant::now();
    let output = machine.output(operation, input).await;
    (begun.elapsed(), output)
}

/// Grows the heap to at least this size; the result is its size in bytes.
async fn grow(machine: &Machine, megabytes: u64) -> u64 {
    machine.exec(GROW).await;
    let target = megabytes * MEGABYTE;
    for _ in 0..GROWING {
        let output = machine.save().await;
        let heap = output["heapBytes"].as_u64().expect("a number");
        if heap >= target {
            return heap;
        }
        let missing = (target - heap).div_ceil(1 << 20);
        machine.exec(&format!("grow({missing})")).await;
    }
    panic!("the heap does not grow to {megabytes} MB");
}

/// Copies of `bytes` bytes into a buffer that is there already.
fn copying(bytes: u64) -> Samples {
    let bytes = usize::try_from(bytes).expect("a heap fits memory");
    let source = vec![1_u8; bytes];
    let mut target = vec![2_u8; bytes];
    let copy = |_| {
        let begun = Instant::now();
        target.copy_from_slice(black_box(&source));
        black_box(&mut target);
        begun.elapsed()
    };
    (0..COPIES).map(copy).collect()
}
