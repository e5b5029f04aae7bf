//! What a valid manifest answers, the manifest-free model, and the templates.

use pyproc_policy::{EngineSource, LiveProvider, Manifest, Origin, Risk};
use serde_json::{Value, json};

use crate::support::{accept, enabled, full, minimal, replay, world};

#[test]
fn the_lookups_answer_what_the_manifest_allows() {
    use pyproc_policy::{Action, PathStyle, RawMethod};
    use pyproc_protocol::Operation;
    let manifest = accept(&full());
    let automation = manifest.automation().expect("enabled");
    let origin = Origin::parse("https://shop.test").expect("an origin");
    assert!(automation.allows_origin(&origin));
    assert_eq!(
        automation.allowed_origin_of("https://shop.test/cart?x#y"),
        Some(origin)
    );
    assert_eq!(automation.allowed_origin_of("https://shop.test:444/"), None);
    assert_eq!(automation.allowed_origin_of("about:blank"), None);
    assert!(automation.allows_action(Action::Click));
    assert!(!automation.allows_action(Action::Hover));
    assert!(automation.allows_method(RawMethod::DomFocus));
    assert!(!automation.allows_method(RawMethod::PageNavigate));
    assert!(automation.allows_risk(Risk::ExternalEffect));
    assert!(automation.allows_file("/srv/uploads/a.txt", PathStyle::Posix));
    assert!(!automation.allows_file("/srv/uploads-2/a.txt", PathStyle::Posix));
    let read_only = accept(&enabled(json!({})));
    let automation = read_only.automation().expect("enabled");
    assert!(automation.allows_risk(Risk::Read) && !automation.allows_risk(Risk::Mutate));

    let names = |manifest: &Value, source| {
        let operations = accept(manifest).operations(source);
        operations
            .into_iter()
            .map(Operation::name)
            .collect::<Vec<_>>()
    };
    let four = [
        "machine.run",
        "machine.checkpoint.save",
        "machine.checkpoint.restore",
        "machine.reset",
    ];
    assert_eq!(names(&minimal(), None), four);
    assert_eq!(names(&enabled(json!({})), None).len(), 14);
    assert_eq!(
        names(&enabled(json!({"actions": ["screenshot"]})), None).len(),
        13
    );
    assert_eq!(
        names(&enabled(json!({"provider": "frame"})), None).len(),
        13
    );
    assert_eq!(names(&replay(), Some(LiveProvider::NativeCdp)).len(), 13);
    assert_eq!(names(&replay(), Some(LiveProvider::Frame)).len(), 12);
    assert_eq!(
        names(&full(), None)[14..],
        ["machine.image.export", "machine.image.import"]
    );
}

#[test]
fn without_a_manifest_there_is_the_machine_alone() {
    let engine = EngineSource::root("/opt/current", &world()).expect("an engine");
    let manifest = Manifest::machine_only(engine);
    assert_eq!(manifest, accept(&minimal()));
    assert_eq!(
        EngineSource::root("/opt/half", &world())
            .unwrap_err()
            .to_string(),
        "engine.root: has no regular file pyodide-lock.json"
    );
}

#[test]
fn every_template_is_a_valid_manifest_whose_keys_are_explained() {
    use pyproc_policy::templates;
    for template in [
        templates::python("/opt/pyodide"),
        templates::browser("/opt/pyodide"),
        templates::frame("/opt/pyodide"),
    ] {
        let parsed = Manifest::parse(template.manifest.as_bytes(), &world());
        assert!(parsed.is_ok(), "{parsed:?}");
        let value: Value = serde_json::from_str(&template.manifest).expect("JSON");
        for (key, member) in value.as_object().expect("an object") {
            let inner = member.as_object().into_iter().flatten();
            let mut paths: Vec<_> = inner.map(|(name, _)| format!("{key}.{name}:")).collect();
            if paths.is_empty() {
                paths.push(format!("{key}:"));
            }
            for path in paths {
                let explained = template
                    .explanation
                    .iter()
                    .any(|line| line.starts_with(&path));
                assert!(explained, "{path} is not explained");
            }
        }
        let lines = template.explanation;
        assert!(lines.iter().all(|line| !line.contains(['\n', '`', '*'])));
    }
    let odd = templates::python("/tmp/a \"b\"\\c").manifest;
    let value: Value = serde_json::from_str(&odd).expect("JSON");
    assert_eq!(value["engine"]["root"], "/tmp/a \"b\"\\c");
}
