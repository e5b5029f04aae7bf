//! A cancel interrupts running Python, whatever it is doing (machine 14).

use std::time::{Duration, Instant};

use pyproc_tests::{Home, Product, cancel, run};
use serde_json::Value;

/// Whether earlier variables must survive, or may be lost with a renewed
/// machine.
#[derive(Clone, Copy, PartialEq)]
enum State {
    Kept,
    MayBeLost,
}

const CELLS: [(&str, State, &str); 7] = [
    ("loop", State::Kept, "while True: pass"),
    ("sleep", State::MayBeLost, "import time; time.sleep(60)"),
    (
        "asyncio",
        State::MayBeLost,
        "import asyncio; asyncio.run(asyncio.sleep(60))",
    ),
    (
        "await",
        State::MayBeLost,
        "import asyncio\nawait asyncio.sleep(60)",
    ),
    (
        "printing",
        State::Kept,
        "i = 0\nwhile True:\n    i += 1\n    print(i)",
    ),
    (
        "finally",
        State::Kept,
        "done = []\ntry:\n    while True: pass\nfinally: done.append('cleaned')",
    ),
    (
        "stubborn",
        State::MayBeLost,
        "while True:\n    try:\n        while True: pass\n    except KeyboardInterrupt: pass",
    ),
];

/// The terminal of `id` and when it came; no frame of `ended` may come.
async fn terminal(product: &mut Product, id: &str, ended: &[String]) -> (Value, Instant) {
    loop {
        let frame = product.frame().await;
        let of = frame["requestId"].as_str().unwrap_or_default();
        assert!(!ended.iter().any(|id| id == of), "too late: {frame}");
        if of == id {
            return (frame, Instant::now());
        }
    }
}

#[tokio::test]
async fn a_cancel_stops_python_and_the_machine_goes_on() {
    let home = Home::default();
    let mut product = home.open().await;
    let mut ended = Vec::new();
    for (cell, state, source) in CELLS {
        let id = |part: &str| format!("{cell}:{part}");
        product.send(&run(&id("keep"), "kept = 41")).await;
        let (kept, _) = terminal(&mut product, &id("keep"), &ended).await;
        assert_eq!(kept["type"], "response", "{kept}");
        // The next command comes a moment later, as a person's would.
        tokio::time::sleep(Duration::from_millis(100)).await;
        product.send(&run(&id("cell"), source)).await;
        tokio::time::sleep(Duration::from_millis(300)).await;

        let cancelled = Instant::now();
        product.send(&cancel(&id("cell"), "enough")).await;
        product.send(&run(&id("after"), "6*7")).await;
        let (end, at) = terminal(&mut product, &id("cell"), &ended).await;
        ended.push(id("cell"));
        let took = at - cancelled;
        assert!(took < Duration::from_secs(1), "{cell}: {took:?}");
        let error = &end["error"];
        assert_eq!(
            (&error["code"], &error["outcome"], &error["retryable"]),
            (
                &"CONTROL_CANCELLED".into(),
                &"outcomeUnknown".into(),
                &false.into()
            ),
            "{cell}: {end}"
        );
        let (after, at) = terminal(&mut product, &id("after"), &ended).await;
        assert_eq!(after["output"]["value"], "42", "{cell}: {after}");
        let took = at - cancelled;
        assert!(took < Duration::from_secs(5), "{cell}: {took:?}");

        if state == State::Kept {
            let look = match cell {
                "finally" => "kept, done",
                _ => "kept",
            };
            product.send(&run(&id("look"), look)).await;
            let (look, _) = terminal(&mut product, &id("look"), &ended).await;
            let expected = match cell {
                "finally" => "(41, ['cleaned'])",
                _ => "41",
            };
            assert_eq!(look["output"]["value"], expected, "{cell}: {look}");
        }
    }
    product.end_input();
    for frame in product.rest().await {
        let of = frame["requestId"].as_str().unwrap_or_default();
        assert!(!ended.iter().any(|id| id == of), "too late: {frame}");
    }
    home.is_left_clean().await;
}
