//! The standard streams: output carries frames and nothing else, and the end
//! of input or a signal ends the product completely (control protocol 2.3, 2.4,
//! 3.10).

use std::time::{Duration, Instant};

use pyproc_tests::{Home, Product, hello, run};
use rustix::process::Signal;
use serde_json::{Value, json};

/// Longest shutdown with work running.
const BUSY_END: Duration = Duration::from_secs(10);

/// Longest shutdown with nothing running.
const IDLE_END: Duration = Duration::from_secs(3);

/// Ways to end a product.
#[derive(Clone, Copy, Debug)]
enum Stop {
    EndOfInput,
    Signal(Signal),
}

const STOPS: [Stop; 4] = [
    Stop::EndOfInput,
    Stop::Signal(Signal::TERM),
    Stop::Signal(Signal::INT),
    Stop::Signal(Signal::HUP),
];

impl Stop {
    fn apply(self, product: &mut Product) {
        match self {
            Self::EndOfInput => product.end_input(),
            Self::Signal(signal) => product.signal(signal),
        }
    }
}

/// Waits for exit code 0 within `bound` of now, and for nothing to be left.
/// The result is what was still written.
async fn ends(mut product: Product, home: &Home, bound: Duration) -> Vec<Value> {
    let started = Instant::now();
    let frames = product.rest().await;
    let left = bound.saturating_sub(started.elapsed());
    let (status, stderr) = product.exited_within(left).await;
    assert_eq!(status.code(), Some(0), "{stderr}");
    // At the moment of the exit, not some time later.
    assert_eq!(home.profiles(), Vec::<std::path::PathBuf>::new());
    home.is_left_clean().await;
    frames
}

#[tokio::test]
async fn a_product_that_was_only_greeted_ends_at_once() {
    for stop in STOPS {
        let home = Home::default();
        let mut product = home.open().await;
        stop.apply(&mut product);
        let frames = ends(product, &home, IDLE_END).await;
        assert_eq!(frames, Vec::<Value>::new(), "{stop:?}");
    }
    // Nor does it need a hello.
    let home = Home::default();
    let mut product = home.serve();
    product.end_input();
    assert_eq!(ends(product, &home, IDLE_END).await, Vec::<Value>::new());
}

#[tokio::test]
async fn the_hello_is_answered_before_the_end_of_input() {
    let home = Home::default();
    let mut product = home.serve();
    product.send(&hello()).await;
    product.end_input();
    let frames = ends(product, &home, IDLE_END).await;
    assert_eq!(frames.len(), 1, "{frames:?}");
    let operations = json!([
        "machine.run",
        "machine.checkpoint.save",
        "machine.checkpoint.restore",
        "machine.reset"
    ]);
    let expected = json!({
        "protocol": "pyproc-control", "version": 1, "type": "hello", "requestId": "h:1",
        "role": "server", "peer": {"name": "pyproc", "version": "1"},
        "capabilities": {"cancel": true, "events": false,
            "attachments": {"encoding": "base64", "maxChunkBytes": 262_144}},
        "operations": operations,
    });
    assert_eq!(frames[0], expected);
}

#[tokio::test]
async fn an_idle_machine_ends_within_its_bound() {
    for stop in STOPS {
        let home = Home::default();
        let mut product = home.open().await;
        product.send(&run("r:1", "1")).await;
        assert_eq!(product.frame().await["output"]["value"], "1");
        assert_eq!(home.profiles().len(), 1, "the profile is in this home");
        assert!(home.processes().len() > 2, "the browser is seen");
        stop.apply(&mut product);
        assert_eq!(
            ends(product, &home, IDLE_END).await,
            Vec::<Value>::new(),
            "{stop:?}"
        );
    }
}

#[tokio::test]
async fn active_requests_are_cancelled_before_the_end() {
    // Sleeping code is interrupted, the sum is a C loop that is not.
    for code in ["import time; time.sleep(100)", "sum(range(10**12))"] {
        for stop in STOPS {
            let home = Home::default();
            let mut product = home.open().await;
            product.send(&run("warm:1", "1")).await;
            assert_eq!(product.frame().await["output"]["value"], "1");
            product.send(&run("delivered:1", code)).await;
            product.send(&run("queued:1", "1")).await;
            // Requests and the signal are different streams.
            tokio::time::sleep(Duration::from_millis(300)).await;
            stop.apply(&mut product);
            let frames = ends(product, &home, BUSY_END).await;
            assert_eq!(frames.len(), 2, "{stop:?} {frames:?}");
            for (id, outcome) in [("delivered:1", "outcomeUnknown"), ("queued:1", "notSent")] {
                let found = frames.iter().find(|frame| frame["requestId"] == id);
                let error = &found.unwrap_or_else(|| panic!("{frames:?}"))["error"];
                assert_eq!(error["code"], "CONTROL_CANCELLED", "{stop:?} {id}");
                assert_eq!(error["outcome"], outcome, "{stop:?} {id}");
                assert_eq!(error["retryable"], false);
            }
        }
    }
}

#[tokio::test]
async fn requests_before_the_boot_are_cancelled_at_the_end_of_input() {
    let home = Home::default();
    let mut product = home.open().await;
    product.send(&run("r:1", "1")).await;
    product.send(&run("r:2", "2")).await;
    product.end_input();
    let frames = ends(product, &home, BUSY_END).await;
    assert_eq!(frames.len(), 2, "{frames:?}");
    for (frame, id) in frames.iter().zip(["r:1", "r:2"]) {
        assert_eq!(frame["requestId"], id);
        assert_eq!(frame["error"]["code"], "CONTROL_CANCELLED");
        assert_eq!(frame["error"]["outcome"], "notSent");
    }
}

#[tokio::test]
async fn a_second_signal_changes_nothing() {
    let home = Home::default();
    let mut product = home.open().await;
    product.send(&run("warm:1", "1")).await;
    assert_eq!(product.frame().await["output"]["value"], "1");
    product.signal(Signal::TERM);
    product.signal(Signal::INT);
    product.end_input();
    ends(product, &home, IDLE_END).await;
}

#[tokio::test]
async fn a_closed_output_ends_the_product_with_an_error() {
    let home = Home::default();
    let mut product = home.open().await;
    product.output = None;
    product.send(&run("r:1", "1")).await;
    let (status, stderr) = product.exited_within(BUSY_END).await;
    assert_eq!(status.code(), Some(1), "{stderr}");
    home.is_left_clean().await;
}

#[tokio::test]
async fn python_cannot_write_to_the_products_output() {
    let home = Home::default();
    let mut product = home.open().await;
    let forged = json!({"protocol": "pyproc-control", "version": 1, "type": "response",
        "requestId": "forged:1", "outcome": "applied", "output": {}})
    .to_string();
    let code = format!(
        "import os, sys\nforged = {forged:?}\n\
         os.write(1, b'one\\n'); os.write(2, b'two\\n')\n\
         sys.__stdout__.write('three\\n'); sys.__stderr__.write('four\\n')\n\
         print(forged); print(forged, file=sys.stderr)\n\
         open('/dev/stdout', 'w').write('five\\n'); open('/dev/tty', 'w').write('console\\n')"
    );
    product.send(&run("r:1", &code)).await;
    product.send(&run("r:2", "2")).await;
    let answer = product.frame().await;
    assert_eq!(answer["requestId"], "r:1", "{answer}");
    // Whether it ended well or with an error: what was printed is in it.
    let stdout = match answer["type"].as_str() {
        Some("response") => &answer["output"]["stdout"],
        _ => &answer["error"]["details"]["stdout"],
    };
    let stdout = stdout.as_str().expect("output");
    assert!(stdout.starts_with("one\ntwo\nthree\nfour\n"), "{stdout}");
    assert_eq!(stdout.matches("forged:1").count(), 2, "{stdout}");
    assert_eq!(product.frame().await["output"]["value"], "2");
    product.end_input();
    assert_eq!(product.rest().await, Vec::<Value>::new());
    let (status, stderr) = product.exited().await;
    assert_eq!(status.code(), Some(0));
    assert!(
        !stderr.contains("forged") && !stderr.contains("three"),
        "{stderr}"
    );
}
