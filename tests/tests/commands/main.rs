//! The command line of `pyproc-control` and the manifests it accepts
//! (control protocol 1, 2).

mod arguments;
mod automation;
mod manifest;

use std::process::Output;

use pyproc_tests::{Home, manifest_with, members};
use serde_json::{Value, json};

/// Runs the command to its end.
async fn command(home: &Home, arguments: &[&str]) -> Output {
    let mut command = home.command(arguments);
    command.current_dir(home.path());
    let ended = tokio::time::timeout(pyproc_tests::PATIENCE, command.output()).await;
    ended.expect("it ends").expect("it runs")
}

/// Checks a manifest.
async fn check(manifest: &Value) -> Output {
    let home = Home::new(manifest.clone());
    command(&home, &["--config", "machine.json", "--check"]).await
}

/// The report of a manifest that is valid.
async fn report(manifest: &Value) -> Value {
    let output = check(manifest).await;
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{manifest}: {stderr}");
    assert_eq!(output.stdout.last(), Some(&b'\n'));
    serde_json::from_slice(&output.stdout).expect("a report")
}

/// Asserts a failure: nothing on standard output, one line on standard error.
/// The result is that line.
fn refused(output: &Output, what: &str) -> String {
    let stderr = String::from_utf8(output.stderr.clone()).expect("text");
    assert_eq!(output.status.code(), Some(1), "{what}: {stderr}");
    assert_eq!(output.stdout, b"", "{what}");
    assert!(stderr.starts_with("pyproc-control: "), "{what}: {stderr}");
    assert_eq!(stderr.matches('\n').count(), 1, "{what}: {stderr}");
    assert!(stderr.ends_with('\n'), "{what}: {stderr}");
    stderr
}

/// Asserts that a manifest is refused with a line that contains `named`.
async fn refuses(manifest: Value, named: &str) {
    let said = refused(&check(&manifest).await, &manifest.to_string());
    assert!(said.contains(named), "{named:?} is missing: {said}");
}

/// A manifest with native automation.
fn native(more: Value) -> Value {
    let mut manifest = manifest_with(json!({"browser": {
        "enabled": true, "allowedOrigins": ["http://a.test"], "actions": ["snapshot"],
    }}));
    for (key, value) in members(more) {
        manifest["browser"][key] = value;
    }
    manifest
}

/// The same with everything that the highest risk needs.
fn effectful(more: Value) -> Value {
    let mut manifest = native(json!({
        "maxRisk": "externalEffect", "externalEffects": "acknowledged", "purpose": "tests",
        "actions": ["click"],
    }));
    for (key, value) in members(more) {
        manifest["browser"][key] = value;
    }
    manifest
}
