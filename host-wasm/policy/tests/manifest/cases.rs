//! The manifest's conformance cases 1 to 14 (control protocol 11), one test each.

use pyproc_policy::{Manifest, Provider, Risk, SandboxPolicy};
use serde_json::{Value, json};

use crate::support::{
    accept, effectful, enabled, full, minimal, refuse, refused_at, report, with, without, world,
};

#[test]
fn case_1_a_minimal_manifest_has_no_automation() {
    let report = report(&minimal());
    assert_eq!(report["automation"], json!({"enabled": false}));
    assert_eq!(report["machineBrowser"], "/usr/bin/chromium");
}

#[test]
fn case_2_the_version_is_the_integer_one() {
    for version in [
        json!("1"),
        json!(2),
        json!(0),
        json!(true),
        json!(null),
        json!(1.5),
    ] {
        refused_at(&[(with(minimal(), "/schemaVersion", version), "schemaVersion")]);
    }
    refused_at(&[(without(minimal(), "/schemaVersion"), "schemaVersion")]);
    for spelling in ["1", "1.0", "1e0", "10e-1"] {
        let text = format!(r#"{{"schemaVersion":{spelling},"engine":{{"root":"/opt/pyodide"}}}}"#);
        assert!(
            Manifest::parse(text.as_bytes(), &world()).is_ok(),
            "{spelling}"
        );
    }
}

#[test]
fn case_3_every_object_is_closed() {
    for object in [
        "",
        "/engine",
        "/browser",
        "/browser/artifacts",
        "/browser/viewport",
        "/browser/recording",
        "/machine",
        "/machine/image",
        "/control",
        "/control/approvals",
        "/control/limits",
    ] {
        let manifest = with(full(), &format!("{object}/bogus"), json!(1));
        let path = format!("{object}/bogus")[1..].replace('/', ".");
        refused_at(&[(manifest, &path)]);
    }
    refused_at(&[
        (
            with(minimal(), "/browser", json!({"enabled": false, "bogus": 1})),
            "browser.bogus",
        ),
        (json!([]), "manifest"),
        (json!(null), "manifest"),
    ]);
}

#[test]
fn case_4_the_engine_is_one_prepared_directory_or_one_url() {
    let root = |path| with(minimal(), "/engine", json!({ "root": path }));
    refused_at(&[
        (
            with(minimal(), "/engine/indexURL", json!("https://x.test/")),
            "engine",
        ),
        (with(minimal(), "/engine", json!({})), "engine"),
        (without(minimal(), "/engine"), "engine"),
        (root("opt/pyodide"), "engine.root"),
        (root(""), "engine.root"),
        (root("/opt/nowhere"), "engine.root"),
        (root("/usr/bin/chromium"), "engine.root"),
        (root("/opt/half"), "engine.root"),
        (root("/opt/odd"), "engine.root"),
        (root("/opt/empty"), "engine.root"),
    ]);
    assert!(refuse(&root("/opt/half")).contains("pyodide-lock.json"));
    assert_eq!(
        report(&root("/opt/current"))["engine"],
        json!({"mode": "root", "root": "/opt/pyodide"})
    );
}

#[test]
fn case_5_the_index_url_ends_in_a_slash_and_is_nothing_but_a_path() {
    let url = |text: &str| with(minimal(), "/engine", json!({ "indexURL": text }));
    for (text, stored) in [
        ("https://x.test/a", "https://x.test/a/"),
        ("https://X.test/a/", "https://x.test/a/"),
        ("http://x.test", "http://x.test/"),
        (
            "https://x.test/npm/pyodide@314.0.7",
            "https://x.test/npm/pyodide@314.0.7/",
        ),
    ] {
        assert_eq!(
            report(&url(text))["engine"],
            json!({"mode": "indexURL", "indexURL": stored})
        );
    }
    for text in [
        "https://u:p@x.test/a",
        "https://@x.test/a",
        "https://x.test/a?q",
        "https://x.test/a?",
        "https://x.test/a#f",
        "https://x.test/a#",
        "ftp://x.test/a",
        "x.test/a",
        "/a",
        "",
        "https://x.test/a b",
    ] {
        refused_at(&[(url(text), "engine.indexURL")]);
    }
}

#[test]
fn case_6_a_disabled_browser_accepts_launch_settings_only() {
    let browser = |value| with(minimal(), "/browser", value);
    for value in [json!({}), json!({"enabled": false})] {
        assert!(accept(&browser(value)).automation().is_none());
    }
    let launch = accept(&browser(json!({
        "enabled": false, "executable": "/usr/bin/chromium", "headed": true, "gpu": true,
        "sandbox": "required"
    })))
    .browser
    .launch;
    assert_eq!(
        launch.executable.map(|path| path.to_string()).as_deref(),
        Some("/usr/bin/chromium")
    );
    assert!(launch.headed && launch.gpu);
    assert_eq!(launch.sandbox, SandboxPolicy::Required);
    for key in [
        "provider",
        "allowedOrigins",
        "maxRisk",
        "actions",
        "methods",
        "fileRoots",
        "externalEffects",
        "purpose",
        "artifacts",
        "viewport",
        "recording",
    ] {
        let value = full()["browser"][key].clone();
        for enabled in [json!({}), json!({"enabled": false})] {
            refused_at(&[(
                browser(with(enabled, &format!("/{key}"), value.clone())),
                &format!("browser.{key}"),
            )]);
        }
    }
    refused_at(&[
        (browser(json!({"enabled": null})), "browser.enabled"),
        (browser(json!({"enabled": 1})), "browser.enabled"),
        (browser(json!(null)), "browser"),
        (browser(json!({"sandbox": "off"})), "browser.sandbox"),
        (
            browser(json!({"executable": "chromium"})),
            "browser.executable",
        ),
        (browser(json!({"executable": "/opt"})), "browser.executable"),
        (
            browser(json!({"executable": "/usr/bin/dangling"})),
            "browser.executable",
        ),
    ]);
}

#[test]
fn case_7_the_timeout_has_bounds() {
    for value in [
        json!(0),
        json!(1.5),
        json!(null),
        json!(900001),
        json!("1"),
        json!(-1),
        json!(true),
    ] {
        refused_at(&[(with(minimal(), "/timeoutMs", value), "timeoutMs")]);
    }
    for value in [1, 900_000] {
        let manifest = accept(&with(minimal(), "/timeoutMs", json!(value)));
        assert_eq!(manifest.timeout_ms.value(), value);
    }
    assert_eq!(accept(&minimal()).timeout_ms.value(), 180_000);
}

#[test]
fn case_8_origins_are_exact_and_normalised() {
    let origins = |value| enabled(json!({ "allowedOrigins": value }));
    assert_eq!(
        report(&origins(json!(["http://A.test:80"])))["automation"]["allowedOrigins"],
        json!(["http://a.test"])
    );
    assert_eq!(
        report(&origins(json!([
            "https://b.test",
            "http://a.test",
            " http://A.test/"
        ])))["automation"]["allowedOrigins"],
        json!(["https://b.test", "http://a.test"])
    );
    for entry in [
        "http://a.test/x",
        "http://u@a.test",
        "http://a.test,http://b.test",
        "http://a.test?",
        "http://a.test#",
        "http://*.test",
        "file:///x",
        " ",
        "",
    ] {
        refused_at(&[(
            origins(json!(["http://ok.test", entry])),
            "browser.allowedOrigins[1]",
        )]);
    }
    refused_at(&[
        (
            origins(json!(["http://a.test", "http://a.test"])),
            "browser.allowedOrigins[1]",
        ),
        (origins(json!([])), "browser.allowedOrigins"),
        (origins(json!("http://a.test")), "browser.allowedOrigins"),
        (origins(json!([1])), "browser.allowedOrigins[0]"),
        (
            without(enabled(json!({})), "/browser/allowedOrigins"),
            "browser.allowedOrigins",
        ),
    ]);
}

#[test]
fn case_9_every_name_is_in_its_catalog_and_within_the_ceiling() {
    refused_at(&[
        (
            enabled(json!({"actions": ["snapshot", "click"]})),
            "browser.actions[1]",
        ),
        (
            enabled(json!({"maxRisk": "mutate", "actions": ["click"]})),
            "browser.actions[0]",
        ),
        (
            effectful(json!({"actions": ["jump"]})),
            "browser.actions[0]",
        ),
        (
            effectful(json!({"actions": ["toString"]})),
            "browser.actions[0]",
        ),
        (
            effectful(json!({"actions": ["click,fill"]})),
            "browser.actions[0]",
        ),
        (
            effectful(json!({"actions": ["click", "click"]})),
            "browser.actions[1]",
        ),
        (effectful(json!({"actions": []})), "browser.actions"),
        (
            without(enabled(json!({})), "/browser/actions"),
            "browser.actions",
        ),
        (
            enabled(json!({"methods": ["Runtime.evaluate"]})),
            "browser.methods[0]",
        ),
        (
            enabled(json!({"methods": ["DOM.focus"]})),
            "browser.methods[0]",
        ),
        (
            effectful(json!({"methods": ["Target.createTarget"]})),
            "browser.methods[0]",
        ),
        (
            effectful(json!({"methods": ["toString"]})),
            "browser.methods[0]",
        ),
        (
            effectful(json!({"methods": ["DOM.focus,DOM.getDocument"]})),
            "browser.methods[0]",
        ),
        (enabled(json!({"maxRisk": ""})), "browser.maxRisk"),
        (enabled(json!({"maxRisk": "write"})), "browser.maxRisk"),
        (enabled(json!({"maxRisk": null})), "browser.maxRisk"),
        (enabled(json!({"provider": "cdp"})), "browser.provider"),
    ]);
    accept(&enabled(
        json!({"maxRisk": "mutate", "methods": ["DOM.focus"]}),
    ));
}

#[test]
fn case_10_external_effects_need_acknowledgement_and_purpose() {
    let purpose = |text: &str| effectful(json!({ "purpose": text }));
    refused_at(&[
        (
            without(effectful(json!({})), "/browser/externalEffects"),
            "browser.externalEffects",
        ),
        (
            effectful(json!({"externalEffects": ""})),
            "browser.externalEffects",
        ),
        (
            effectful(json!({"externalEffects": "Acknowledged"})),
            "browser.externalEffects",
        ),
        (
            effectful(json!({"externalEffects": true})),
            "browser.externalEffects",
        ),
        (
            without(effectful(json!({})), "/browser/purpose"),
            "browser.purpose",
        ),
        (purpose("  "), "browser.purpose"),
        (purpose(&"x".repeat(201)), "browser.purpose"),
        (purpose("a\nb"), "browser.purpose"),
        (purpose("a\u{7f}b"), "browser.purpose"),
        (enabled(json!({"purpose": "a\u{0}b"})), "browser.purpose"),
    ]);
    let text = "\u{1f600}".repeat(200);
    let manifest = accept(&purpose(&format!("  {text}\n")));
    let automation = manifest.automation().expect("enabled");
    assert_eq!(automation.purpose().map(ToString::to_string), Some(text));
    let other = accept(&enabled(json!({"externalEffects": "no"})));
    assert_eq!(other.automation().map(|it| it.max_risk()), Some(Risk::Read));
}

#[test]
fn case_11_uploads_need_existing_roots() {
    let upload = |roots| effectful(json!({"actions": ["upload"], "fileRoots": roots}));
    let method = json!({"methods": ["DOM.setFileInputFiles"]});
    refused_at(&[
        (
            effectful(json!({"actions": ["upload"]})),
            "browser.fileRoots",
        ),
        (upload(json!([])), "browser.fileRoots"),
        (effectful(method), "browser.fileRoots"),
        (upload(json!(["srv/uploads"])), "browser.fileRoots[0]"),
        (upload(json!(["/srv/missing"])), "browser.fileRoots[0]"),
        (upload(json!(["/srv/machine.img"])), "browser.fileRoots[0]"),
        (
            upload(json!(["/srv/uploads:/srv/wheels"])),
            "browser.fileRoots[0]",
        ),
        (
            upload(json!(["/srv/uploads", "/srv/uploads"])),
            "browser.fileRoots[1]",
        ),
    ]);
    let manifest = accept(&upload(json!(["/srv/uploads", "/srv/linked-uploads"])));
    let roots = manifest.automation().expect("enabled").file_roots();
    let roots: Vec<_> = roots.iter().map(|root| root.as_str()).collect();
    assert_eq!(roots, ["/srv/uploads"]);
}

#[test]
fn case_12_artifact_limits_agree_with_each_other() {
    let artifacts = |value| enabled(json!({ "artifacts": value }));
    refused_at(&[
        (
            artifacts(json!({"maxArtifactBytes": 1048576})),
            "browser.artifacts.inlineMaxBytes",
        ),
        (
            artifacts(json!({"maxTotalBytes": 1048576})),
            "browser.artifacts.maxArtifactBytes",
        ),
        (
            artifacts(json!({"maxArtifactBytes": 0})),
            "browser.artifacts.maxArtifactBytes",
        ),
        (
            artifacts(json!({"maxArtifactBytes": 67108865})),
            "browser.artifacts.maxArtifactBytes",
        ),
        (
            artifacts(json!({"maxTotalBytes": 536870913})),
            "browser.artifacts.maxTotalBytes",
        ),
        (
            artifacts(json!({"maxArtifacts": 1025})),
            "browser.artifacts.maxArtifacts",
        ),
        (
            artifacts(json!({"inlineMaxBytes": 4194305})),
            "browser.artifacts.inlineMaxBytes",
        ),
        (
            artifacts(json!({"ttlMs": 86400001})),
            "browser.artifacts.ttlMs",
        ),
        (artifacts(json!({"ttlMs": true})), "browser.artifacts.ttlMs"),
        (artifacts(json!(null)), "browser.artifacts"),
    ]);
    let manifest = accept(&artifacts(
        json!({"maxArtifactBytes": 1048576, "inlineMaxBytes": 1048576}),
    ));
    let limits = manifest.automation().expect("enabled").artifacts();
    assert_eq!(limits.max_artifact_bytes(), 1_048_576);
    assert_eq!(limits.max_total_bytes(), 67_108_864);
}

#[test]
fn case_13_the_viewport_has_bounds() {
    let viewport = |value| enabled(json!({ "viewport": value }));
    refused_at(&[
        (
            viewport(json!({"width": 0, "height": 1})),
            "browser.viewport.width",
        ),
        (
            viewport(json!({"width": 10001, "height": 1})),
            "browser.viewport.width",
        ),
        (viewport(json!({"width": 1})), "browser.viewport.height"),
        (
            viewport(json!({"width": 1, "height": 1, "deviceScaleFactor": 0.05})),
            "browser.viewport.deviceScaleFactor",
        ),
        (
            viewport(json!({"width": 1, "height": 1, "deviceScaleFactor": "2"})),
            "browser.viewport.deviceScaleFactor",
        ),
        (
            viewport(json!({"width": 1, "height": 1, "colorDepth": 8})),
            "browser.viewport.colorDepth",
        ),
        (
            viewport(json!({"width": 1, "height": 1, "touch": 1})),
            "browser.viewport.touch",
        ),
    ]);
    let manifest = accept(&viewport(json!({"width": 1, "height": 1})));
    let viewport = manifest
        .automation()
        .and_then(|it| it.viewport())
        .expect("a viewport");
    assert_eq!((viewport.width(), viewport.height()), (1, 1));
    assert_eq!(viewport.device_scale_factor(), 1.0);
    assert!(!viewport.mobile() && !viewport.touch());
}

#[test]
fn case_14_frames_support_12_actions_and_no_methods() {
    refused_at(&[
        (
            effectful(json!({"provider": "frame", "actions": ["click", "hover"]})),
            "browser.actions[1]",
        ),
        (
            enabled(json!({"provider": "frame", "methods": ["DOM.getDocument"]})),
            "browser.methods",
        ),
    ]);
    let manifest = accept(&effectful(
        json!({"provider": "frame", "actions": ["click"]}),
    ));
    assert_eq!(
        manifest.automation().map(|it| it.provider()),
        Some(Provider::Frame)
    );
}

#[test]
fn every_optional_member_refuses_null() {
    fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
        for (key, member) in value.as_object().into_iter().flatten() {
            let pointer = format!("{at}/{key}");
            pointers(member, &pointer, found);
            found.push(pointer);
        }
    }
    let mut found = Vec::new();
    pointers(&full(), "", &mut found);
    assert!(found.len() > 60);
    for pointer in found {
        refused_at(&[(
            with(full(), &pointer, json!(null)),
            &pointer[1..].replace('/', "."),
        )]);
    }
}
