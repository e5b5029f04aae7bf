//! The root of the manifest (control protocol 1.2 to 1.4).

use pyproc_tests::{Home, engine, manifest_with};
use serde_json::{Value, json};

use crate::{command, native, refuses, report};

#[tokio::test]
async fn the_smallest_manifest_is_reported() {
    let home = Home::default();
    let output = command(&home, &["--config", "machine.json", "--check"]).await;
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    assert_eq!(report["ok"], true);
    assert_eq!(report["schemaVersion"], 1);
    let path = report["configPath"].as_str().expect("a path");
    assert_eq!(std::path::Path::new(path), home.path().join("machine.json"));
    assert_eq!(report["engine"], json!({"mode": "root", "root": engine()}));
    assert_eq!(report["automation"], json!({"enabled": false}));
    let browser = report["machineBrowser"].as_str().expect("a path");
    assert!(std::path::Path::new(browser).is_file(), "{browser}");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(home.profiles(), Vec::<std::path::PathBuf>::new());
}

#[tokio::test]
async fn the_schema_version_is_the_integer_one() {
    for version in [json!("1"), json!(2), json!(1.5), json!(null), json!(true)] {
        refuses(
            manifest_with(json!({"schemaVersion": version})),
            "schemaVersion",
        )
        .await;
    }
    report(&manifest_with(json!({"schemaVersion": 1.0}))).await;
}

#[tokio::test]
async fn unknown_keys_are_named() {
    refuses(manifest_with(json!({"bogusRoot": 1})), "bogusRoot").await;
    let engine = json!({"engine": {"root": engine(), "bogusEngine": 1}});
    refuses(manifest_with(engine), "bogusEngine").await;
    refuses(native(json!({"bogusBrowser": 1})), "bogusBrowser").await;
    refuses(
        native(json!({"artifacts": {"bogusArtifact": 1}})),
        "bogusArtifact",
    )
    .await;
    let viewport = json!({"viewport": {"width": 1, "height": 1, "colorDepth": 8}});
    refuses(native(viewport), "colorDepth").await;
    let recording = json!({"recording": {"mode": "record", "file": "/tmp/r", "bogusRecording": 1}});
    refuses(native(recording), "bogusRecording").await;
    refuses(
        manifest_with(json!({"machine": {"bogusMachine": 1}})),
        "bogusMachine",
    )
    .await;
}

#[tokio::test]
async fn the_engine_is_one_directory_or_one_address() {
    let empty = tempfile::tempdir().expect("a directory");
    let both = json!({"root": engine(), "indexURL": "https://x.test/"});
    for engine in [
        both,
        json!({}),
        json!({"root": "relative/dir"}),
        json!({"root": empty.path()}),
    ] {
        refuses(json!({"schemaVersion": 1, "engine": engine}), "engine").await;
    }
    for url in [
        "https://u:p@x.test/",
        "https://x.test/?q",
        "https://x.test/#f",
        "ftp://x.test/",
        "x",
    ] {
        refuses(
            json!({"schemaVersion": 1, "engine": {"indexURL": url}}),
            "indexURL",
        )
        .await;
    }
    let remote = json!({"schemaVersion": 1, "engine": {"indexURL": "https://x.test/a"}});
    let report = report(&remote).await;
    assert_eq!(
        report["engine"],
        json!({"mode": "indexURL", "indexURL": "https://x.test/a/"})
    );
}

#[tokio::test]
async fn a_disabled_browser_takes_only_how_it_is_started() {
    report(&manifest_with(json!({"browser": {}}))).await;
    report(&manifest_with(
        json!({"browser": {"enabled": false, "headed": true}}),
    ))
    .await;
    for key in [
        "actions",
        "allowedOrigins",
        "maxRisk",
        "viewport",
        "provider",
    ] {
        let browser =
            json!({"browser": {"enabled": false, key: native(json!({}))["browser"][key]}});
        refuses(manifest_with(browser), key).await;
    }
}

#[tokio::test]
async fn the_deadline_has_bounds() {
    for value in [
        json!(0),
        json!(1.5),
        json!(null),
        json!(900_001),
        json!("5"),
        json!(true),
    ] {
        refuses(manifest_with(json!({"timeoutMs": value})), "timeoutMs").await;
    }
    for value in [1, 900_000] {
        report(&manifest_with(json!({"timeoutMs": value}))).await;
    }
}
