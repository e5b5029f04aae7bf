//! Every line that can refuse a manifest.

use std::collections::BTreeSet;

use insta::assert_snapshot;
use pyproc_policy::{Fault, FileFault, Manifest, ManifestError, NoFiles, UrlFault};
use serde_json::{Value, json};

use crate::support::{effectful, enabled, full, minimal, parse, replay, with, without, world};

fn text(text: impl AsRef<[u8]>) -> ManifestError {
    Manifest::parse(text.as_ref(), &NoFiles).expect_err("the text is refused")
}

/// The full manifest with one value replaced.
fn set(pointer: &str, value: Value) -> Value {
    with(full(), pointer, value)
}

fn control(value: Value) -> Value {
    with(minimal(), "/control", value)
}

fn record_to(file: &str) -> Value {
    enabled(json!({"recording": {"mode": "record", "file": file}}))
}

fn text_errors() -> Vec<ManifestError> {
    vec![
        text(" ".repeat(1_048_577)),
        text("\u{feff}{}"),
        text([b'{', 0xff]),
        text("{"),
        text(r#"{"a":{"b":1,"b":2}}"#),
    ]
}

fn shape_errors() -> Vec<Value> {
    let many: Vec<String> = (0..33).map(|n| format!("p{n}")).collect();
    vec![
        json!([]),
        with(minimal(), "/engines", json!({})),
        with(minimal(), "/a key\nof two lines", json!(1)),
        with(minimal(), &format!("/{}", "k".repeat(65)), json!(1)),
        without(minimal(), "/engine"),
        with(minimal(), "/timeoutMs", json!(null)),
        with(minimal(), "/timeoutMs", json!(1.5)),
        with(minimal(), "/timeoutMs", json!(0)),
        with(minimal(), "/schemaVersion", json!(2)),
        set("/browser/viewport/deviceScaleFactor", json!(0.05)),
        set("/browser/sandbox", json!("off")),
        set("/browser/maxRisk", json!("")),
        set("/browser/purpose", json!("x".repeat(201))),
        set("/browser/purpose", json!("a\nb")),
        set("/browser/actions", json!([])),
        set("/machine/preload", json!(many)),
        set("/browser/actions", json!(["snapshot", " "])),
        set("/browser/actions", json!(["snapshot", "snapshot"])),
        set("/browser/actions", json!(["snapshot,click"])),
        set("/browser/fileRoots", json!(["/srv/uploads:/srv/wheels"])),
        set("/machine/preload", json!(["os.path"])),
        set("/machine/env", json!({"lower": "x"})),
        set("/machine/env", json!({"A": "\u{0}"})),
        set("/machine/env", json!({"PYPROC_X": "x"})),
        set("/control/listen", json!("localhost:1")),
        set("/control/observer_token_env", json!("A=B")),
    ]
}

fn place_errors() -> Vec<Value> {
    let url = |text: &str| with(minimal(), "/engine", json!({ "indexURL": text }));
    let origin = |text: &str| enabled(json!({ "allowedOrigins": [text] }));
    let root = |path: &str| with(minimal(), "/engine", json!({ "root": path }));
    let token = |file: &str| {
        control(json!({
            "listen": "127.0.0.1:0", "operator_token_file": format!("/etc/pyproc/{file}")
        }))
    };
    vec![
        url("x.test"),
        url("ftp://x.test"),
        url("https://u:p@x.test"),
        url("https://x.test?"),
        url("https://x.test#"),
        url("https://x.test/a b"),
        origin("http://a.test/x"),
        origin("http://*.test"),
        origin("http://a.test,http://b.test"),
        root("opt/pyodide"),
        root("/opt/none"),
        root("/usr/bin/chromium"),
        root("/opt/half"),
        set("/browser/executable", json!("/opt")),
        record_to("/srv/runs/.."),
        record_to("/srv/none/new.json"),
        token("link"),
        token("long"),
        token("exposed"),
    ]
}

fn catalog_and_rule_errors() -> Vec<Value> {
    vec![
        set("/browser/actions", json!(["jump"])),
        set("/browser/methods", json!(["Target.createTarget"])),
        set("/control/approvals/operations", json!(["run"])),
        set("/machine/timezone", json!("Europe/Wien")),
        with(minimal(), "/engine", json!({})),
        with(
            minimal(),
            "/browser",
            json!({"enabled": false, "actions": ["click"]}),
        ),
        enabled(json!({"actions": ["click"]})),
        enabled(json!({"maxRisk": "mutate", "methods": ["Runtime.evaluate"]})),
        without(effectful(json!({})), "/browser/externalEffects"),
        without(effectful(json!({})), "/browser/purpose"),
        effectful(json!({"actions": ["upload"]})),
        enabled(json!({"artifacts": {"maxArtifactBytes": 1_048_576}})),
        effectful(json!({"provider": "frame", "actions": ["hover"]})),
        enabled(json!({"provider": "frame", "methods": ["DOM.getDocument"]})),
    ]
}

fn recording_errors() -> Vec<Value> {
    let pin = |key: &str, value| with(replay(), &format!("/browser/recording/{key}"), value);
    let large = enabled(json!({
        "artifacts": {"maxArtifactBytes": 67_108_864},
        "recording": {"mode": "record", "file": "/srv/runs/new.json"}
    }));
    vec![
        large,
        without(replay(), "/browser/recording"),
        pin("mode", json!("record")),
        enabled(json!({"recording": {"mode": "replay", "file": "/srv/runs/41.json"}})),
        set("/browser/recording/recordingId", json!("x")),
        pin("recordingId", json!("")),
        pin("finalSha256", json!("")),
        pin("overwrite", json!(true)),
        without(replay(), "/browser/recording/prefixSha256"),
        record_to("/srv/runs/41.json"),
        record_to("/srv/runs/directory.json"),
        pin("file", json!("/srv/runs/none.json")),
        record_to("/srv/runs/locked.json"),
        record_to("/srv/runs/sidecar.json"),
        record_to("/srv/runs/odd.json"),
    ]
}

fn control_errors() -> Vec<Value> {
    let local = |key: &str, value: Value| {
        let base = json!({"listen": "127.0.0.1:0", "operator_token_env": "OPERATOR"});
        control(with(base, &format!("/{key}"), value))
    };
    vec![
        control(json!({"listen": "127.0.0.1:0"})),
        local("operator_token_file", json!("/etc/pyproc/operator")),
        local("observer_token_env", json!("OPERATOR")),
        local("forbidden_token_env", json!(["OPERATOR"])),
        local("remote_tls_private_key_der", json!("/etc/pyproc/key.der")),
        local("listen", json!("0.0.0.0:7000")),
        local("limits", json!({"max_connections": 257})),
    ]
}

fn all_errors() -> Vec<ManifestError> {
    let manifests = [
        shape_errors(),
        place_errors(),
        catalog_and_rule_errors(),
        recording_errors(),
        control_errors(),
    ];
    let refused = manifests
        .iter()
        .flatten()
        .map(|manifest| match parse(manifest) {
            Err(error) => error,
            Ok(_) => panic!("accepted {manifest:#}"),
        });
    text_errors().into_iter().chain(refused).collect()
}

#[test]
fn every_refusal_reads_well() {
    let lines: Vec<_> = all_errors()
        .iter()
        .map(|error| match error.code() {
            Some(code) => format!("{error} [{code}]"),
            None => error.to_string(),
        })
        .collect();
    assert_snapshot!(lines.join("\n"));
}

/// The fault's own name; a new fault does not compile until it is listed, and
/// [`FAULTS`] counts them.
fn name(fault: &Fault) -> String {
    let debug = format!("{fault:?}");
    match fault {
        Fault::Url(fault) => match fault {
            UrlFault::NotAbsolute
            | UrlFault::Scheme
            | UrlFault::UserInfo
            | UrlFault::Path
            | UrlFault::Query
            | UrlFault::Fragment
            | UrlFault::Wildcard
            | UrlFault::SeveralValues
            | UrlFault::Whitespace => debug,
        },
        Fault::File(fault) => match fault {
            FileFault::NotAbsolute
            | FileFault::NoFileName
            | FileFault::Missing
            | FileFault::NotDirectory
            | FileFault::NotRegular
            | FileFault::Link
            | FileFault::Parent
            | FileFault::EngineFile { .. }
            | FileFault::TooLarge { .. }
            | FileFault::Exposed => debug
                .split([' ', '{'])
                .next()
                .unwrap_or_default()
                .to_owned(),
        },
        Fault::TooLarge { .. }
        | Fault::ByteOrderMark
        | Fault::NotUtf8 { .. }
        | Fault::Syntax { .. }
        | Fault::DuplicateMember
        | Fault::UnknownKey { .. }
        | Fault::Missing
        | Fault::Type { .. }
        | Fault::IntegerRange { .. }
        | Fault::NumberRange { .. }
        | Fault::Version
        | Fault::Choice { .. }
        | Fault::Form { .. }
        | Fault::TooLong { .. }
        | Fault::ControlCharacter
        | Fault::Empty
        | Fault::TooMany { .. }
        | Fault::Blank
        | Fault::DuplicateEntry
        | Fault::SeveralValues
        | Fault::UnknownAction
        | Fault::UnknownMethod
        | Fault::UnknownOperation
        | Fault::UnknownTimezone
        | Fault::EngineChoice
        | Fault::AutomationDisabled
        | Fault::RiskCeiling { .. }
        | Fault::NotAcknowledged
        | Fault::PurposeMissing
        | Fault::FileRootMissing { .. }
        | Fault::ArtifactOrder { .. }
        | Fault::RecordingCeiling { .. }
        | Fault::FrameAction { .. }
        | Fault::FrameMethods
        | Fault::RecordingMissing
        | Fault::RecordingMode { .. }
        | Fault::WrongModeMember { .. }
        | Fault::ReplayOverwrite
        | Fault::PrefixMissing
        | Fault::RecordingExists
        | Fault::RecordingTarget
        | Fault::ReplayFile
        | Fault::RecordingLocked
        | Fault::SidecarExists
        | Fault::SidecarNotDirectory
        | Fault::ReservedVariable
        | Fault::TokenMissing
        | Fault::TokenTwice { .. }
        | Fault::SameToken { .. }
        | Fault::ForbiddenToken { .. }
        | Fault::TlsPair { .. }
        | Fault::TlsRequired => debug.split(' ').next().unwrap_or_default().to_owned(),
    }
}

/// Number of faults in the lists of [`name`].
const FAULTS: usize = 52 + 9 + 10;

#[test]
fn every_fault_occurs_among_the_refusals() {
    let names: BTreeSet<_> = all_errors()
        .iter()
        .map(|error| name(&error.fault))
        .collect();
    assert_eq!(names.len(), FAULTS, "{names:#?}");
}

#[test]
fn a_secret_misplaced_as_a_member_is_refused_without_its_value() {
    let manifest = set(
        "/control/operator_token",
        json!("aaaaaaaabbbbbbbbccccccccdddddddd"),
    );
    let error = Manifest::parse(manifest.to_string().as_bytes(), &world()).expect_err("refused");
    assert!(!format!("{error} {error:?}").contains("aaaaaaaabbbbbbbb"));
}
