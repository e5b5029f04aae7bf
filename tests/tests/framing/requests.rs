//! The life of a request: one terminal each, cancels, deadlines
//! (control protocol 3.9, 6.4, 6.5).

use std::time::{Duration, Instant};

use pyproc_tests::{Home, cancel, fatal_after_hello, frame, hello, line, request, run};
use serde_json::{Value, json};

/// A home whose browser starts after a pause, so that there is a long time
/// before the engine has booted.
fn slow_home(seconds: u64) -> Home {
    let browser = pyproc_tests::browser();
    let browser = browser.display();
    Home::with_browser(&format!("sleep {seconds}\nexec {browser} \"$@\""))
}

#[tokio::test]
async fn output_that_does_not_fit_a_reply_ends_an_applied_run() {
    let home = Home::default();
    let mut product = home.open().await;
    let code = "kept = 1\nprint('first' + 'x' * 2_000_000 + 'last')";
    product.send(&run("big:1", code)).await;
    product.send(&run("next:1", "kept")).await;
    let raw = product.line().await.expect("a terminal");
    assert!(raw.len() <= 1_048_575, "{}", raw.len());
    let answer: Value = serde_json::from_str(&raw).expect("a frame");
    assert_eq!(answer["requestId"], "big:1");
    let error = &answer["error"];
    assert_eq!(error["code"], "CONTROL_FRAME_TOO_LARGE");
    assert_eq!(error["outcome"], "applied");
    assert_eq!(error["retryable"], false);
    let stdout = error["details"]["stdout"].as_str().expect("what fits");
    assert!(stdout.starts_with("firstxxx"), "{}", &stdout[..20]);
    assert!(
        stdout.ends_with("xxxlast\n"),
        "{}",
        &stdout[stdout.len() - 20..]
    );
    assert_eq!(product.frame().await["output"]["value"], "1");
}

#[tokio::test]
async fn an_unknown_operation_consumes_its_id() {
    let refused = request("d:1", "nope.op", json!({}));
    let again = run("d:1", "open('/tmp/ran', 'w')");
    let (code, before) = fatal_after_hello(&[line(&refused), line(&again)].concat()).await;
    assert_eq!(code, "CONTROL_REQUEST_DUPLICATE");
    assert_eq!(before.len(), 1, "{before:?}");
    assert_eq!(before[0]["error"]["code"], "CONTROL_OPERATION_UNKNOWN");
    assert_eq!(before[0]["error"]["outcome"], "notSent");
    assert_eq!(before[0]["error"]["retryable"], false);
}

#[tokio::test]
async fn the_id_of_an_active_and_of_a_finished_request_is_taken() {
    let (code, before) =
        fatal_after_hello(&[line(&run("d:1", "1")), line(&run("d:1", "1"))].concat()).await;
    assert_eq!(
        (code.as_str(), before.len()),
        ("CONTROL_REQUEST_DUPLICATE", 0)
    );
    let home = Home::default();
    let mut product = home.open().await;
    product.send(&run("d:1", "1")).await;
    assert_eq!(product.frame().await["output"]["value"], "1");
    product
        .send(&request("d:1", "machine.reset", json!({})))
        .await;
    assert_eq!(product.fatal().await.0, "CONTROL_REQUEST_DUPLICATE");
    home.is_left_clean().await;
}

#[tokio::test]
async fn a_cancel_before_the_boot_answers_at_once_and_nothing_runs() {
    let home = slow_home(2);
    let mut product = home.serve();
    let started = Instant::now();
    let frames = [
        hello(),
        run("early:1", "ran = True"),
        cancel("early:1", "changed my mind"),
        run("later:1", "'ran' in globals()"),
    ];
    for frame in frames {
        product.send(&frame).await;
    }
    assert_eq!(product.frame().await["type"], "hello");
    let answer = product.frame().await;
    assert!(
        started.elapsed() < Duration::from_secs(2),
        "{:?}",
        started.elapsed()
    );
    assert_eq!(answer["requestId"], "early:1");
    assert_eq!(answer["error"]["code"], "CONTROL_CANCELLED");
    assert_eq!(answer["error"]["outcome"], "notSent");
    assert_eq!(answer["error"]["message"], "changed my mind");
    let answer = product.frame().await;
    assert!(started.elapsed() >= Duration::from_secs(2));
    assert_eq!(answer["requestId"], "later:1");
    assert_eq!(answer["output"]["value"], "False");
}

#[tokio::test]
async fn a_queued_request_is_cancelled_before_the_running_one_ends() {
    let home = Home::default();
    let mut product = home.open().await;
    product
        .send(&run("a:1", "import time; time.sleep(1); a = 1"))
        .await;
    product.send(&run("b:1", "b = 1")).await;
    product
        .send(&run("c:1", "sorted({'a', 'b'} & set(globals()))"))
        .await;
    product.send(&cancel("b:1", "not needed")).await;
    let answer = product.frame().await;
    assert_eq!(answer["requestId"], "b:1");
    assert_eq!(answer["error"]["code"], "CONTROL_CANCELLED");
    assert_eq!(answer["error"]["outcome"], "notSent");
    assert_eq!(answer["error"]["message"], "not needed");
    let answer = product.frame().await;
    assert_eq!(
        (&answer["requestId"], &answer["type"]),
        (&json!("a:1"), &json!("response"))
    );
    let answer = product.frame().await;
    assert_eq!(answer["requestId"], "c:1");
    assert_eq!(answer["output"]["value"], "['a']");
}

#[tokio::test]
async fn a_running_request_is_cancelled_at_once_with_the_first_reason() {
    let home = Home::default();
    let mut product = home.open().await;
    product.send(&run("warm:1", "import time")).await;
    assert_eq!(product.frame().await["type"], "response");
    let code = "begun = 1\ntry:\n    time.sleep(30)\nfinally:\n    time.sleep(0.3); ended = 1";
    product.send(&run("a:1", code)).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let started = Instant::now();
    product.send(&cancel("a:1", "first")).await;
    product.send(&cancel("a:1", "second")).await;
    product.send(&run("b:1", "begun, ended")).await;
    let answer = product.frame().await;
    assert!(
        started.elapsed() < Duration::from_secs(1),
        "{:?}",
        started.elapsed()
    );
    assert_eq!(answer["requestId"], "a:1");
    assert_eq!(answer["error"]["code"], "CONTROL_CANCELLED");
    assert_eq!(answer["error"]["outcome"], "outcomeUnknown");
    assert_eq!(answer["error"]["retryable"], false);
    assert_eq!(answer["error"]["message"], "first");
    // The next run starts only after the cancelled one has ended.
    let answer = product.frame().await;
    assert_eq!(answer["requestId"], "b:1");
    assert_eq!(answer["output"]["value"], "(1, 1)", "{answer}");
    product.end_input();
    assert_eq!(product.rest().await, Vec::<Value>::new());
}

#[tokio::test]
async fn a_cancel_without_a_reason_says_something() {
    for cancel in [
        json!({"requestId": "a:1"}),
        json!({"requestId": "a:1", "reason": ""}),
    ] {
        let home = Home::default();
        let mut product = home.open().await;
        product.send(&run("a:1", "1")).await;
        product.send(&frame("cancel", cancel)).await;
        let answer = product.frame().await;
        assert_eq!(answer["error"]["code"], "CONTROL_CANCELLED");
        assert_ne!(answer["error"]["message"], "");
    }
}

#[tokio::test]
async fn deadlines_end_the_running_and_the_queued_request_and_do_not_count_the_boot() {
    let home = slow_home(3).with(json!({"timeoutMs": 1000}));
    let mut product = home.serve();
    product.send(&hello()).await;
    product.send(&run("boot:1", "'booted'")).await;
    assert_eq!(product.frame().await["type"], "hello");
    assert_eq!(product.frame().await["output"]["value"], "'booted'");
    product
        .send(&run("long:1", "import time; time.sleep(3)"))
        .await;
    product.send(&run("queued:1", "queued = 1")).await;
    let answers = [product.frame().await, product.frame().await];
    let of = |id: &str| {
        let found = answers.iter().find(|answer| answer["requestId"] == id);
        found.unwrap_or_else(|| panic!("{answers:?}"))["error"].clone()
    };
    let (long, queued) = (of("long:1"), of("queued:1"));
    assert_eq!(long["code"], "CONTROL_TIMEOUT");
    assert_eq!(long["outcome"], "outcomeUnknown");
    assert_eq!(long["retryable"], false);
    assert_eq!(queued["code"], "CONTROL_TIMEOUT");
    assert_eq!(queued["outcome"], "notSent");
    assert_eq!(queued["retryable"], true);
    product.send(&run("after:1", "'queued' in globals()")).await;
    assert_eq!(product.frame().await["output"]["value"], "False");
}
