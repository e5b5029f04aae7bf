//! The golden manifests in `tests/vectors`: each folder has a `manifest.json`
//! and either the two reports, compared as text and so with their member order,
//! or the line that refuses it. `facts.json` holds what a preflight adds.

use std::fs;
use std::path::Path;

use pyproc_policy::{LiveProvider, Manifest, ReplayFacts, ReportFacts, control_report, mcp_report};
use serde_json::Value;

use crate::support::world;

fn json(path: &Path) -> Value {
    match fs::read_to_string(path) {
        Ok(text) => serde_json::from_str(&text).expect("a vector is JSON"),
        Err(_) => Value::Null,
    }
}

fn check(folder: &Path) {
    let name = folder.display();
    let text = fs::read(folder.join("manifest.json")).expect("every folder has a manifest");
    let manifest = match Manifest::parse(&text, &world()) {
        Ok(manifest) => manifest,
        Err(error) => {
            let expected = fs::read_to_string(folder.join("error.txt")).unwrap_or_default();
            assert_eq!(format!("{error}\n"), expected, "{name}");
            return;
        }
    };
    let facts = json(&folder.join("facts.json"));
    let source = facts["sourceProvider"].as_str();
    let facts = ReportFacts {
        config_path: "/w/m.json",
        browser: "/usr/bin/chromium",
        browser_sandbox: facts["browserSandbox"].as_str(),
        replay: source.map(|name| ReplayFacts {
            entries: facts["entries"].as_u64().expect("a count"),
            source_provider: LiveProvider::from_name(name).expect("a provider"),
        }),
    };
    for (file, report) in [
        ("control.json", control_report(&manifest, &facts)),
        ("mcp.json", mcp_report(&manifest, &facts)),
    ] {
        let expected = fs::read_to_string(folder.join(file)).unwrap_or_default();
        assert_eq!(format!("{report:#}\n"), expected, "{name}/{file}");
    }
}

#[test]
fn every_golden_manifest_has_its_reports_or_its_refusal() {
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    let folders: Vec<_> = fs::read_dir(vectors)
        .expect("the vectors are there")
        .map(|entry| entry.expect("a readable folder").path())
        .collect();
    assert!(folders.len() >= 17, "{} vectors", folders.len());
    for folder in folders {
        check(&folder);
    }
}
