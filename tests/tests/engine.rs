//! `pyproc-engine` and `pyproc-control doctor` as programs.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use pyproc_tests::{Home, binary, engine};
use serde_json::Value;

/// A directory with the engine's files, made of links where it may be.
fn copy_of_the_engine(home: &Home) -> std::path::PathBuf {
    let out = home.path().join("pyodide");
    fs::create_dir(&out).unwrap();
    for entry in fs::read_dir(engine()).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), out.join(entry.file_name())).unwrap();
    }
    out
}

/// The program without npm: nothing can be fetched.
fn pyproc_engine(home: &Home, arguments: &[&str]) -> Output {
    Command::new(binary("pyproc-engine"))
        .args(arguments)
        .current_dir(home.path())
        .env("PATH", "/nonexistent")
        .env("HOME", home.path())
        .env("TMPDIR", home.temporary())
        .env_remove("XDG_CACHE_HOME")
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn a_prepared_directory_is_verified_without_a_download() {
    let home = Home::default();
    let out = copy_of_the_engine(&home);
    let output = pyproc_engine(&home, &["--out", "pyodide"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let summary = text(&output.stdout);
    assert!(summary.starts_with(out.to_str().unwrap()), "{summary}");
    assert!(summary.contains(" 6 core files"), "{summary}");
    // The boot image is made along the way, in a browser that is gone now.
    let images = home.path().join(".cache/pyproc/boot-image");
    assert_eq!(fs::read_dir(images).unwrap().count(), 2);
    home.is_left_clean().await;
}

#[test]
fn a_changed_byte_is_refused_and_named() {
    let home = Home::default();
    let out = copy_of_the_engine(&home);
    let file = out.join("python_stdlib.zip");
    let mut bytes = fs::read(&file).unwrap();
    bytes[5000] ^= 1;
    fs::write(&file, bytes).unwrap();
    for arguments in [&["--out", "pyodide"][..], &["--out", "pyodide", "--verify"]] {
        let output = pyproc_engine(&home, arguments);
        assert_eq!(output.status.code(), Some(1));
        assert!(output.stdout.is_empty());
        let stderr = text(&output.stderr);
        assert!(stderr.contains("pyodide/python_stdlib.zip"), "{stderr}");
    }
}

#[test]
fn a_directory_of_another_name_is_refused_and_without_npm_nothing_is_left() {
    let home = Home::default();
    let output = pyproc_engine(&home, &["--out", "./engine"]);
    assert_eq!(output.status.code(), Some(1));
    let output = pyproc_engine(&home, &["--out", "new/pyodide"]);
    assert_eq!(output.status.code(), Some(1));
    let stderr = text(&output.stderr);
    assert!(stderr.contains("install Node.js"), "{stderr}");
    assert_eq!(fs::read_dir(home.path().join("new")).unwrap().count(), 0);
}

#[test]
fn help_and_version_succeed_and_what_is_unknown_fails() {
    let home = Home::default();
    let help = pyproc_engine(&home, &["--help"]);
    assert!(help.status.success());
    assert!(text(&help.stdout).contains("Examples:"));
    let version = pyproc_engine(&home, &["--version"]);
    assert_eq!(
        text(&version.stdout),
        concat!(env!("CARGO_PKG_VERSION"), "\n")
    );
    let unknown = pyproc_engine(&home, &["--help", "--bogus"]);
    assert_eq!(unknown.status.code(), Some(1));
    let stderr = text(&unknown.stderr);
    assert!(stderr.starts_with("pyproc-engine: "), "{stderr}");
    assert_eq!(stderr.lines().count(), 1);
}

async fn doctor(home: &Home, config: &Path) -> (bool, Value) {
    let config = config.to_str().unwrap();
    let mut command = home.command(&["doctor", "--json", "--config", config]);
    let output = command.output().await.unwrap();
    let report = serde_json::from_slice(&output.stdout);
    let report = report.unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)));
    (output.status.success(), report)
}

fn status<'a>(report: &'a Value, name: &str) -> &'a str {
    let checks = report["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["name"] == name);
    check.unwrap()["status"].as_str().unwrap()
}

#[tokio::test]
async fn the_doctor_starts_a_machine() {
    let home = Home::default();
    let (success, report) = doctor(&home, &home.config()).await;
    assert!(success, "{report:#}");
    assert_eq!(report["ok"], true);
    for name in ["manifest", "browser", "engine", "machine"] {
        assert_eq!(status(&report, name), "ok", "{report:#}");
    }
    home.is_left_clean().await;
}

#[tokio::test]
async fn the_doctor_names_what_is_missing() {
    let home = Home::default();
    let out = copy_of_the_engine(&home);
    fs::remove_file(out.join("pyodide.asm.wasm")).unwrap();
    let config = home.path().join("broken.json");
    let manifest = serde_json::json!({"schemaVersion": 1, "engine": {"root": out}});
    fs::write(&config, manifest.to_string()).unwrap();
    let (success, report) = doctor(&home, &config).await;
    assert!(!success);
    assert_eq!(report["ok"], false);
    assert_eq!(status(&report, "engine"), "missing");
    assert_eq!(status(&report, "machine"), "skipped");
    assert!(report.to_string().contains("pyodide.asm.wasm"));
}
