//! A client that asks for more than it takes costs a bounded amount of memory
//! and time, and gets an answer to everything it asked.

use std::collections::BTreeSet;
use std::time::Duration;

use pyproc_tests::{Home, Product, cancel, line, request, run};
use serde_json::json;
use tokio::time::timeout;

/// Most memory that the shell may use under a flood, bytes. Its core is
/// allowed 512 MiB; a flood must stay far below.
const MEMORY: u64 = 320 << 20;

/// No progress for this long is a standstill.
const STANDSTILL: Duration = Duration::from_secs(3);

/// Resident memory of the shell.
fn memory(product: &Product) -> u64 {
    let pid = product.child.id().expect("it runs");
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("procfs");
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1));
    kilobytes
        .and_then(|text| text.parse::<u64>().ok())
        .expect("a size")
        << 10
}

#[tokio::test]
async fn a_client_that_never_reads_is_made_to_wait_and_loses_nothing() {
    let home = Home::default();
    let mut product = home.open().await;
    let mut sent = 0_u32;
    // Each answer is longer than its request, so that answers pile up first.
    let input = "q".repeat(16);
    loop {
        let mut batch = Vec::new();
        for _ in 0..500 {
            sent += 1;
            batch.extend(line(&request(
                &format!("f:{sent}"),
                "nope.op",
                json!({"q": input}),
            )));
        }
        match timeout(STANDSTILL, product.try_write(&batch)).await {
            Ok(written) => written.expect("the product reads"),
            Err(_) => break,
        }
        assert!(sent < 1_000_000, "the product never makes its client wait");
    }
    assert!(sent > 10_000, "{sent} requests were enough");
    let used = memory(&product);
    assert!(used < MEMORY, "{used} bytes after {sent} requests");
    // The write that stood still was given up in the middle of a line: only
    // whole lines were read, so every answer until here is to a request.
    let mut expected = 0;
    while let Ok(Some(text)) = timeout(STANDSTILL, product.line()).await {
        expected += 1;
        let answer: serde_json::Value = serde_json::from_str(&text).expect("a frame");
        assert_eq!(answer["requestId"], format!("f:{expected}"));
        assert_eq!(answer["error"]["code"], "CONTROL_OPERATION_UNKNOWN");
    }
    assert!(
        expected > sent - 500 && expected <= sent,
        "{expected} of {sent}"
    );
}

#[tokio::test]
async fn more_than_4096_waiting_requests_are_refused_and_the_rest_settles() {
    let home = Home::pageless();
    let mut product = home.open().await;
    for number in 1..=4096 {
        product
            .write(&line(&run(&format!("w:{number}"), "1")))
            .await;
    }
    product.send(&run("over:1", "1")).await;
    let answer = product.frame().await;
    assert_eq!(answer["requestId"], "over:1");
    assert_eq!(answer["error"]["code"], "PYPROC_INTERNAL");
    assert_eq!(answer["error"]["outcome"], "notSent");
    assert_eq!(answer["error"]["retryable"], true);
    // One that ends makes room for one more.
    product.send(&cancel("w:7", "room")).await;
    assert_eq!(product.frame().await["requestId"], "w:7");
    product.send(&run("more:1", "1")).await;
    product.send(&run("over:2", "1")).await;
    assert_eq!(product.frame().await["requestId"], "over:2");
    product.end_input();
    let frames = product.rest().await;
    let ids: BTreeSet<_> = frames
        .iter()
        .map(|frame| frame["requestId"].to_string())
        .collect();
    assert_eq!((frames.len(), ids.len()), (4096, 4096), "one terminal each");
    for frame in &frames {
        assert_eq!(frame["error"]["code"], "CONTROL_CANCELLED");
        assert_eq!(frame["error"]["outcome"], "notSent");
    }
    let (status, stderr) = product.exited_within(Duration::from_secs(10)).await;
    assert_eq!(status.code(), Some(0), "{stderr}");
    home.is_left_clean().await;
}

#[tokio::test]
async fn waiting_input_is_bounded_in_bytes() {
    let home = Home::pageless();
    let mut product = home.open().await;
    let code = format!("#{}", "x".repeat(500_000));
    let fitting = (64 << 20) / line(&run("b:100", &code)).len();
    for number in 0..=fitting {
        product
            .send(&run(&format!("b:{:03}", 100 + number), &code))
            .await;
    }
    let answer = product.frame().await;
    assert_eq!(answer["requestId"], format!("b:{}", 100 + fitting));
    assert_eq!(answer["error"]["code"], "PYPROC_INTERNAL");
    assert_eq!(answer["error"]["retryable"], true);
    assert!(memory(&product) < MEMORY, "{}", memory(&product));
    product.end_input();
    assert_eq!(product.rest().await.len(), fitting);
    assert_eq!(
        product
            .exited_within(Duration::from_secs(10))
            .await
            .0
            .code(),
        Some(0)
    );
    home.is_left_clean().await;
}
