//! What a manifest allows a browser to do (control protocol 1.4 to 1.11).

use pyproc_tests::members;
use serde_json::{Value, json};

use crate::{effectful, native, refuses, report};

#[tokio::test]
async fn origins_are_exact_and_reported_normalised() {
    let report = report(&native(json!({"allowedOrigins": ["http://A.test:80"]}))).await;
    assert_eq!(
        report["automation"]["allowedOrigins"],
        json!(["http://a.test"])
    );
    assert_eq!(report["automation"]["rawMethods"], json!([]));
    assert_eq!(report["automation"]["maxRisk"], "read");
    let wrong = [
        json!(["http://a.test/x"]),
        json!(["http://u@a.test"]),
        json!(["http://a.test,http://b.test"]),
        json!(["http://a.test", "http://a.test"]),
        json!(["http://*.test"]),
        json!(["a.test"]),
        json!([]),
        json!("http://a.test"),
    ];
    for origins in wrong {
        refuses(native(json!({"allowedOrigins": origins})), "allowedOrigins").await;
    }
}

#[tokio::test]
async fn actions_and_methods_stay_below_the_risk() {
    refuses(native(json!({"actions": ["click"]})), "click").await;
    refuses(native(json!({"actions": ["fly"]})), "browser.actions[0]").await;
    refuses(
        native(json!({"methods": ["Runtime.evaluate"]})),
        "Runtime.evaluate",
    )
    .await;
    refuses(
        native(json!({"methods": ["Runtime.fly"]})),
        "browser.methods[0]",
    )
    .await;
    refuses(native(json!({"maxRisk": ""})), "maxRisk").await;
    report(&effectful(json!({"methods": ["Runtime.evaluate"]}))).await;
}

#[tokio::test]
async fn effects_need_an_acknowledgement_and_a_purpose() {
    report(&effectful(json!({"purpose": "x".repeat(200)}))).await;
    refuses(effectful(json!({"externalEffects": ""})), "externalEffects").await;
    refuses(
        effectful(json!({"externalEffects": "yes"})),
        "externalEffects",
    )
    .await;
    for purpose in ["", "  ", "a\nb", &"x".repeat(201)] {
        refuses(effectful(json!({"purpose": purpose})), "purpose").await;
    }
}

#[tokio::test]
async fn uploads_need_roots_that_exist() {
    let upload = json!({"actions": ["upload"]});
    refuses(effectful(upload), "fileRoots").await;
    for root in ["relative", "/nonexistent/root"] {
        refuses(
            effectful(json!({"actions": ["upload"], "fileRoots": [root]})),
            "fileRoots",
        )
        .await;
    }
    report(&effectful(
        json!({"actions": ["upload"], "fileRoots": ["/tmp"]}),
    ))
    .await;
}

#[tokio::test]
async fn artifact_limits_fit_each_other() {
    refuses(
        native(json!({"artifacts": {"maxArtifactBytes": 1_048_576}})),
        "artifacts",
    )
    .await;
    let fitting = json!({"maxArtifactBytes": 1_048_576, "inlineMaxBytes": 1_048_576});
    let report = report(&native(json!({"artifacts": fitting}))).await;
    let expected = json!({"maxArtifactBytes": 1_048_576, "maxTotalBytes": 67_108_864,
        "maxArtifacts": 64, "inlineMaxBytes": 1_048_576, "ttlMs": 900_000});
    assert_eq!(report["automation"]["artifacts"], expected);
}

#[tokio::test]
async fn a_viewport_has_bounds() {
    let wrong = [
        json!({"width": 0, "height": 1}),
        json!({"width": 10_001, "height": 1}),
        json!({"width": 1}),
        json!({"width": 1, "height": 1, "deviceScaleFactor": 0.05}),
        json!({"width": 1, "height": 1, "deviceScaleFactor": "2"}),
    ];
    for viewport in wrong {
        refuses(native(json!({"viewport": viewport})), "viewport").await;
    }
    report(&native(json!({"viewport": {"width": 1, "height": 1}}))).await;
}

#[tokio::test]
async fn the_frame_provider_takes_its_own_actions_and_no_methods() {
    report(&native(json!({"provider": "frame"}))).await;
    refuses(
        effectful(json!({"provider": "frame", "actions": ["hover"]})),
        "hover",
    )
    .await;
    let methods = json!({"provider": "frame", "methods": ["DOM.getDocument"]});
    refuses(native(methods), "methods").await;
}

#[tokio::test]
async fn recordings_are_not_overwritten_and_replays_are_pinned() {
    let home = tempfile::tempdir().expect("a directory");
    let file = home.path().join("r.json");
    let record = |more: Value| {
        let mut recording = json!({"mode": "record", "file": file});
        for (key, value) in members(more) {
            recording[key] = value;
        }
        native(json!({"recording": recording}))
    };
    report(&record(json!({}))).await;
    assert!(!file.exists(), "a check creates nothing");
    std::fs::write(&file, "{}").expect("a file");
    refuses(record(json!({})), "recording").await;
    report(&record(json!({"overwrite": true}))).await;
    let replay = |more: Value| {
        let mut recording = json!({"mode": "replay", "file": file});
        for (key, value) in members(more) {
            recording[key] = value;
        }
        native(json!({"provider": "replay", "recording": recording}))
    };
    refuses(replay(json!({})), "recording").await;
    let pins = json!({"recordingId": "r", "finalSha256": "0".repeat(64), "startCursor": 3});
    refuses(replay(pins), "prefixSha256").await;
}
