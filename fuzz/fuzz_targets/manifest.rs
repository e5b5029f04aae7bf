//! Manifests over a small scripted file system.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pyproc_policy::{
    Manifest, ReplayFacts, ReportFacts, ScriptedFiles, control_report, mcp_report,
};

fn world() -> ScriptedFiles {
    ScriptedFiles::new()
        .engine("/opt/pyodide")
        .link("/opt/current", "/opt/pyodide")
        .directory("/opt/empty")
        .file("/usr/bin/chromium-real", 1)
        .link("/usr/bin/chromium", "/usr/bin/chromium-real")
        .link("/usr/bin/dangling", "/nowhere")
        .directory("/srv/uploads")
        .link("/srv/linked-uploads", "/srv/uploads")
        .directory("/srv/wheels")
        .file("/srv/runs/41.json", 900)
        .link("/srv/runs/link.json", "/srv/runs/41.json")
        .file("/srv/runs/locked.json.lock", 1)
        .file("/srv/machine.img", 4096)
        .file("/etc/pyproc/operator", 64)
        .exposed_file("/etc/pyproc/exposed", 64)
        .link("/etc/pyproc/link", "/etc/pyproc/operator")
        .other("/etc/pyproc/pipe")
        .file("/etc/pyproc/cert.der", 65_536)
        .file("/etc/pyproc/key.der", 1200)
}

fuzz_target!(|data: &[u8]| {
    let files = world();
    let parsed = Manifest::parse(data, &files);
    assert_eq!(
        parsed,
        Manifest::parse(data, &files),
        "parsing is a function"
    );
    let manifest = match parsed {
        Ok(manifest) => manifest,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let facts = ReportFacts {
        config_path: "/srv/manifest.json",
        browser: "/usr/bin/chromium",
        browser_sandbox: Some("on"),
        replay: Some(ReplayFacts {
            entries: 3,
            source_provider: pyproc_policy::LiveProvider::Frame,
        }),
    };
    for report in [
        control_report(&manifest, &facts),
        mcp_report(&manifest, &facts),
    ] {
        let text = serde_json::to_string(&report).expect("a report is JSON");
        let read: serde_json::Value = serde_json::from_str(&text).expect("a report can be read");
        assert_eq!(read["ok"], true);
        assert_eq!(read["schemaVersion"], 1);
    }
    let operations = manifest.operations(None);
    assert!(operations.len() >= 4, "the machine is always offered");
});
