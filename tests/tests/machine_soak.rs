//! Many small runs: replies stay right and memory stays bounded.

use pyproc_tests::Home;
use pyproc_tests::python::{detail, resident_bytes, setting};
use serde_json::json;

/// What the shell may grow by after the first runs.
const GROWTH: u64 = 24 << 20;

#[tokio::test]
async fn many_runs_stay_right_and_bounded() {
    let runs = setting("PYPROC_TEST_RUNS", 500);
    let home = Home::default();
    let machine = home.connect().await;
    let shell = machine.product.child.id().expect("it runs");
    machine.exec("total = 0").await;
    let mut settled = None;
    let mut heap = None;
    for n in 0..runs {
        match n % 5 {
            0 => {
                let code = format!("total += {n}\ntotal");
                let expected = (0..=n).step_by(5).sum::<u64>();
                assert_eq!(machine.value(&code).await, expected.to_string());
            }
            1 => {
                let text = format!("{n}:").repeat(5000);
                let printed = machine
                    .printed(&format!("print('{n}:' * 5000, end='')"))
                    .await;
                assert_eq!(printed, text);
            }
            2 => {
                let error = machine
                    .error(&format!("raise ValueError('number {n}')"))
                    .await;
                assert_eq!(detail(&error, "message"), format!("number {n}"));
                assert_eq!(detail(&error, "runSeq"), n + 2);
            }
            3 => {
                let value = machine.value(&format!("'{n}-' * 20_000")).await;
                assert_eq!(value.len(), 20_000 * (n.to_string().len() + 1) + 2);
            }
            _ => {
                let error = machine.error("def f(").await;
                assert_eq!(detail(&error, "type"), "SyntaxError");
            }
        }
        if n == runs / 5 {
            settled = Some(resident_bytes(shell));
            heap = machine.save().await["heapBytes"].as_u64();
        }
    }
    let (before, after) = (settled.expect("a measure"), resident_bytes(shell));
    assert!(after < before + GROWTH, "{before} bytes grew to {after}");
    let saved = machine.save().await;
    let heap_after = saved["heapBytes"].as_u64();
    assert!(
        heap_after <= heap.map(|heap| heap + (8 << 20)),
        "{heap:?}: {saved}"
    );
    machine.restore(json!(1)).await;
    assert_eq!(machine.value("total > 0").await, "True");
    machine.close().await;
    home.is_left_clean().await;
}
