//! Which operations there are and where they go (control protocol 3.9, 5.1).

use pyproc_tests::{Home, hello, manifest_with, request, run};
use serde_json::{Value, json};

/// A manifest with native automation that may take snapshots.
fn native() -> Value {
    manifest_with(json!({"browser": {
        "enabled": true,
        "allowedOrigins": ["http://a.test"],
        "actions": ["snapshot"],
    }}))
}

#[tokio::test]
async fn a_space_that_is_not_the_operations_is_refused_and_nothing_runs() {
    let home = Home::default();
    let mut product = home.open().await;
    let mut served = run("s:1", "40 + 2");
    served["spaceId"] = json!("machine:primary");
    product.send(&served).await;
    let mut refused = run("s:2", "ran = True");
    refused["spaceId"] = json!("space:native");
    product.send(&refused).await;
    product.send(&run("s:3", "'ran' in globals()")).await;
    let answer = product.frame().await;
    assert_eq!(answer["requestId"], "s:2", "refused without waiting");
    assert_eq!(answer["error"]["code"], "CONTROL_SPACE_MISMATCH");
    assert_eq!(answer["error"]["outcome"], "notSent");
    assert_eq!(answer["error"]["retryable"], false);
    assert_eq!(product.frame().await["output"]["value"], "42");
    assert_eq!(product.frame().await["output"]["value"], "False");
}

#[tokio::test]
async fn automation_operations_exist_only_with_an_enabled_browser() {
    let home = Home::default();
    let mut product = home.open().await;
    product
        .send(&request("a:1", "automation.space.inspect", json!({})))
        .await;
    let answer = product.frame().await;
    assert_eq!(answer["error"]["code"], "CONTROL_OPERATION_UNKNOWN");
}

#[tokio::test]
async fn an_enabled_browser_announces_its_operations_in_catalog_order() {
    let home = Home::new(native());
    let mut product = home.serve();
    product.send(&hello()).await;
    let expected = json!([
        "machine.run",
        "machine.checkpoint.save",
        "machine.checkpoint.restore",
        "machine.reset",
        "automation.space.inspect",
        "automation.target.list",
        "automation.target.open",
        "automation.session.attach",
        "automation.command",
        "automation.session.detach",
        "automation.observe",
        "automation.act",
        "artifact.read",
        "artifact.delete"
    ]);
    assert_eq!(product.frame().await["operations"], expected);
}

#[tokio::test]
async fn the_frame_provider_has_no_raw_command() {
    let mut manifest = native();
    manifest["browser"]["provider"] = json!("frame");
    let home = Home::new(manifest);
    let mut product = home.serve();
    product.send(&hello()).await;
    let hello = product.frame().await;
    let operations = hello["operations"].as_array().expect("operations");
    assert_eq!(operations.len(), 13, "{operations:?}");
    assert!(!operations.contains(&json!("automation.command")));
    product
        .send(&request("a:1", "automation.command", json!({})))
        .await;
    let answer = product.frame().await;
    assert_eq!(answer["error"]["code"], "CONTROL_OPERATION_UNKNOWN");
}
