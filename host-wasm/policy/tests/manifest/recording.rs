//! What is recorded and replayed (control protocol 11, case 15; recording, case 40).

use pyproc_policy::LiveProvider;
use serde_json::{Value, json};

use crate::support::{DIGEST, ZEROS, accept, enabled, parse, refused_at, replay, with, without};

#[test]
fn case_15_recordings_are_not_overwritten_by_accident_and_replays_are_pinned() {
    let record = |value| enabled(json!({ "recording": value }));
    let to = |file: &str| record(json!({"mode": "record", "file": file}));
    let pinned = |key: &str, value| with(replay(), &format!("/browser/recording/{key}"), value);
    let unpinned = |key: &str| without(replay(), &format!("/browser/recording/{key}"));
    let file = "browser.recording.file";
    refused_at(&[
        (to("/srv/runs/41.json"), file),
        (to("/srv/runs/link.json"), file),
        (to("/srv/runs/directory.json"), file),
        (to("/srv/linked-runs/new.json"), file),
        (to("/srv/missing/new.json"), file),
        (to("/srv/runs/"), file),
        (to("new.json"), file),
        (to("/srv/runs/locked.json"), file),
        (to("/srv/runs/mutex.json"), file),
        (to("/srv/runs/sidecar.json"), file),
        (to("/srv/runs/odd.json"), file),
        (
            record(json!({"mode": "record", "file": "/srv/runs/new.json", "recordingId": "x"})),
            "browser.recording.recordingId",
        ),
        (
            record(json!({"mode": "record", "file": "/srv/runs/new.json", "startCursor": 0})),
            "browser.recording.startCursor",
        ),
        (
            record(json!({"mode": "replay", "file": "/srv/runs/41.json"})),
            "browser.recording.mode",
        ),
        (
            record(json!({"file": "/srv/runs/new.json"})),
            "browser.recording.mode",
        ),
        (record(json!({"mode": "record"})), file),
        (without(replay(), "/browser/recording"), "browser.recording"),
        (pinned("mode", json!("record")), "browser.recording.mode"),
        (pinned("file", json!("/srv/runs/none.json")), file),
        (pinned("file", json!("/srv/runs/link.json")), file),
        (
            pinned("overwrite", json!(true)),
            "browser.recording.overwrite",
        ),
        (
            pinned("overwrite", json!(null)),
            "browser.recording.overwrite",
        ),
        (unpinned("recordingId"), "browser.recording.recordingId"),
        (
            pinned("recordingId", json!("-x")),
            "browser.recording.recordingId",
        ),
        (
            pinned("recordingId", json!("x".repeat(97))),
            "browser.recording.recordingId",
        ),
        (unpinned("finalSha256"), "browser.recording.finalSha256"),
        (
            pinned("finalSha256", json!(DIGEST.to_uppercase())),
            "browser.recording.finalSha256",
        ),
        (
            pinned("startCursor", json!(10_000_001)),
            "browser.recording.startCursor",
        ),
        (
            with(
                unpinned("prefixSha256"),
                "/browser/recording/startCursor",
                json!(3),
            ),
            "browser.recording.prefixSha256",
        ),
    ]);
    let over = json!({"mode": "record", "file": "/srv/runs/41.json", "overwrite": true});
    let manifest = accept(&record(over));
    let target = manifest
        .automation()
        .and_then(|it| it.record())
        .expect("a target");
    assert!(target.overwrite());
    accept(&pinned("overwrite", json!(false)));
    let manifest = accept(&without(
        unpinned("prefixSha256"),
        "/browser/recording/startCursor",
    ));
    let source = manifest
        .automation()
        .and_then(|it| it.replay())
        .expect("a source");
    assert_eq!(source.start_cursor(), 0);
    accept(&with(
        unpinned("startCursor"),
        "/browser/recording/prefixSha256",
        json!(ZEROS),
    ));
}

#[test]
fn a_recording_bounds_the_artifacts_it_must_hold() {
    let record = json!({"mode": "record", "file": "/srv/runs/new.json"});
    let recorded = |artifacts| enabled(json!({"artifacts": artifacts, "recording": record}));
    refused_at(&[
        (
            recorded(json!({"maxArtifactBytes": 16777217})),
            "browser.artifacts.maxArtifactBytes",
        ),
        (
            recorded(json!({"maxTotalBytes": 67108865})),
            "browser.artifacts.maxTotalBytes",
        ),
    ]);
    accept(&recorded(
        json!({"maxArtifactBytes": 16777216, "maxTotalBytes": 67108864}),
    ));
    accept(&enabled(
        json!({"artifacts": {"maxArtifactBytes": 16777217}}),
    ));
}

#[test]
fn recording_faults_carry_the_recording_areas_codes() {
    let code = |file: &str| {
        let recording = json!({"mode": "record", "file": file});
        parse(&enabled(json!({ "recording": recording })))
            .expect_err("refused")
            .code()
    };
    assert_eq!(
        code("/srv/runs/41.json"),
        Some("AUTOMATION_RECORDING_EXISTS")
    );
    assert_eq!(
        code("/srv/runs/sidecar.json"),
        Some("AUTOMATION_RECORDING_EXISTS")
    );
    assert_eq!(
        code("/srv/runs/locked.json"),
        Some("AUTOMATION_RECORDING_LOCKED")
    );
    assert_eq!(
        code("/srv/runs/mutex.json"),
        Some("AUTOMATION_RECORDING_LOCKED")
    );
    assert_eq!(
        code("/srv/runs/odd.json"),
        Some("AUTOMATION_RECORDING_ARTIFACT_INVALID")
    );
    assert_eq!(code("/srv/missing/new.json"), None);
    let missing = with(
        replay(),
        "/browser/recording/file",
        json!("/srv/runs/none.json"),
    );
    let error = parse(&missing).expect_err("refused");
    assert_eq!(error.code(), Some("AUTOMATION_RECORDING_UNAVAILABLE"));
}

#[test]
fn the_replay_of_a_frame_recording_keeps_the_frame_rules() {
    let check = |manifest: &Value, source| {
        let manifest = accept(manifest);
        let automation = manifest.automation().expect("enabled");
        automation
            .check_replay_source(source)
            .map_err(|error| error.to_string())
    };
    let hovering = with(replay(), "/browser/actions", json!(["click", "hover"]));
    let raw = with(replay(), "/browser/methods", json!(["DOM.focus"]));
    assert_eq!(check(&replay(), LiveProvider::Frame), Ok(()));
    assert_eq!(check(&hovering, LiveProvider::NativeCdp), Ok(()));
    assert_eq!(
        check(&hovering, LiveProvider::Frame).unwrap_err(),
        "browser.actions[1]: hover is not supported by the frame provider"
    );
    assert_eq!(check(&raw, LiveProvider::NativeCdp), Ok(()));
    assert_eq!(
        check(&raw, LiveProvider::Frame).unwrap_err(),
        "browser.methods: must be empty with the frame provider"
    );
}
