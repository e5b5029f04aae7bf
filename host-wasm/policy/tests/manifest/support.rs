//! What the tests share: one scripted file system, manifests, and the two verdicts.

use pyproc_policy::{Manifest, ManifestError, ReportFacts, ScriptedFiles, control_report};
use serde_json::{Value, json};

pub(crate) const DIGEST: &str = "7e9d98f6c2aeeb306f414f3443b21091252c9ebdb896d18288d49d1eec865222";
pub(crate) const ZEROS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// The scripted file system of every test.
pub(crate) fn world() -> ScriptedFiles {
    ScriptedFiles::new()
        .engine("/opt/pyodide")
        .link("/opt/current", "/opt/pyodide")
        .directory("/opt/empty")
        .file("/opt/half/pyodide.js", 1)
        .directory("/opt/odd/pyodide.js")
        .file("/opt/odd/pyodide-lock.json", 1)
        .file("/usr/bin/chromium-real", 1)
        .link("/usr/bin/chromium", "/usr/bin/chromium-real")
        .link("/usr/bin/dangling", "/nowhere")
        .directory("/srv/uploads")
        .link("/srv/linked-uploads", "/srv/uploads")
        .directory("/srv/wheels")
        .file("/srv/runs/41.json", 900)
        .link("/srv/runs/link.json", "/srv/runs/41.json")
        .directory("/srv/runs/directory.json")
        .file("/srv/runs/locked.json.lock", 1)
        .file("/srv/runs/mutex.json.mutex", 1)
        .directory("/srv/runs/sidecar.json.artifacts")
        .file("/srv/runs/odd.json.artifacts", 1)
        .link("/srv/linked-runs", "/srv/runs")
        .file("/srv/machine.img", 4096)
        .file("/etc/pyproc/operator", 64)
        .file("/etc/pyproc/observer", 64)
        .file("/etc/pyproc/long", 4097)
        .exposed_file("/etc/pyproc/exposed", 64)
        .link("/etc/pyproc/link", "/etc/pyproc/operator")
        .other("/etc/pyproc/pipe")
        .file("/etc/pyproc/cert.der", 65536)
        .file("/etc/pyproc/key.der", 1200)
        .file("/etc/pyproc/huge.der", 65537)
}

/// The smallest manifest.
pub(crate) fn minimal() -> Value {
    json!({"schemaVersion": 1, "engine": {"root": "/opt/pyodide"}})
}

/// A manifest that uses every key of every object but the replay pins.
pub(crate) fn full() -> Value {
    json!({
        "schemaVersion": 1,
        "engine": {"root": "/opt/current"},
        "timeoutMs": 60000,
        "browser": {
            "enabled": true,
            "provider": "nativeCdp",
            "executable": "/usr/bin/chromium",
            "headed": true,
            "gpu": true,
            "sandbox": "required",
            "allowedOrigins": ["https://Shop.test:443", "http://127.0.0.1:4100/"],
            "maxRisk": "externalEffect",
            "actions": ["upload", "snapshot", "click"],
            "methods": ["Runtime.evaluate", "DOM.focus"],
            "fileRoots": ["/srv/linked-uploads"],
            "externalEffects": "acknowledged",
            "purpose": "  nightly checkout regression ",
            "artifacts": {
                "maxArtifactBytes": 1048576, "maxTotalBytes": 2097152, "maxArtifacts": 8,
                "inlineMaxBytes": 1048576, "ttlMs": 60000
            },
            "viewport": {
                "width": 1280, "height": 800, "deviceScaleFactor": 2, "mobile": true, "touch": true
            },
            "recording": {"mode": "record", "file": "/srv/runs/new.json", "overwrite": false}
        },
        "machine": {
            "heapLimitBytes": 67108864, "storeLimitBytes": 67108864, "maxCheckpoints": 4096,
            "fileLimitBytes": 1048576, "outputBytes": 65536, "interruptGraceMs": 0,
            "guardIdleMs": 25, "bootTimeoutMs": 60000, "spare": false, "wheels": "/srv/wheels",
            "preload": ["numpy", "pandas"], "env": {"LANG": "C.UTF-8", "_X1": "secret-value"},
            "timezone": "Europe/Vienna",
            "image": {"load": "/srv/machine.img", "saveOnExit": "/srv/next.img", "operations": true}
        },
        "control": {
            "listen": "0.0.0.0:7000",
            "operator_token_file": "/etc/pyproc/operator",
            "observer_token_env": "OBSERVER_TOKEN",
            "remote_tls_certificate_der": "/etc/pyproc/cert.der",
            "remote_tls_private_key_der": "/etc/pyproc/key.der",
            "forbidden_token_env": ["LLM_API_KEY"],
            "approvals": {
                "mode": "externalEffect", "timeout_ms": 60000, "operations": ["automation.act"]
            },
            "journal_file": "/srv/events.ndjson",
            "limits": {"max_connections": 4, "history_events": 100}
        }
    })
}

/// A replay manifest.
pub(crate) fn replay() -> Value {
    json!({
        "schemaVersion": 1,
        "engine": {"root": "/opt/pyodide"},
        "browser": {
            "enabled": true, "provider": "replay", "allowedOrigins": ["https://app.example.test"],
            "maxRisk": "externalEffect", "actions": ["screenshot"], "methods": [],
            "externalEffects": "acknowledged", "purpose": "review of run 41",
            "recording": {
                "mode": "replay", "file": "/srv/runs/41.json", "recordingId": "recording:vector-1",
                "finalSha256": DIGEST, "startCursor": 1, "prefixSha256": ZEROS
            }
        }
    })
}

/// `manifest` with the value at the JSON pointer replaced; the member is added
/// when only its object exists.
pub(crate) fn with(mut manifest: Value, pointer: &str, value: Value) -> Value {
    let (above, name) = pointer.rsplit_once('/').expect("a pointer has a slash");
    let name = name.replace("~1", "/").replace("~0", "~");
    match manifest.pointer_mut(above).expect("the parent exists") {
        Value::Object(members) => {
            members.insert(name, value);
        }
        Value::Array(items) => {
            let position: usize = name.parse().expect("a position");
            items[position] = value;
        }
        other => panic!("{above} is {other}"),
    }
    manifest
}

/// `manifest` without the member at the JSON pointer.
pub(crate) fn without(mut manifest: Value, pointer: &str) -> Value {
    let (above, name) = pointer.rsplit_once('/').expect("a pointer has a slash");
    let members = manifest.pointer_mut(above).and_then(Value::as_object_mut);
    let removed = members.expect("the parent is an object").shift_remove(name);
    assert!(removed.is_some(), "{pointer} exists");
    manifest
}

/// Validates a manifest against [`world`].
pub(crate) fn parse(manifest: &Value) -> Result<Manifest, ManifestError> {
    Manifest::parse(manifest.to_string().as_bytes(), &world())
}

/// The manifest, which must be valid.
pub(crate) fn accept(manifest: &Value) -> Manifest {
    match parse(manifest) {
        Ok(valid) => valid,
        Err(error) => panic!("{error} in {manifest:#}"),
    }
}

/// The one line that refuses the manifest, which must be invalid.
pub(crate) fn refuse(manifest: &Value) -> String {
    match parse(manifest) {
        Ok(_) => panic!("accepted {manifest:#}"),
        Err(error) => error.to_string(),
    }
}

/// The report of `pyproc-control --check` for a valid manifest.
pub(crate) fn report(manifest: &Value) -> Value {
    let facts = ReportFacts {
        config_path: "/w/m.json",
        browser: "/usr/bin/chromium",
        ..ReportFacts::default()
    };
    control_report(&accept(manifest), &facts)
}

/// A minimal manifest with an enabled browser that has these extra members.
pub(crate) fn enabled(extra: Value) -> Value {
    let mut browser = json!({
        "enabled": true, "allowedOrigins": ["http://a.test"], "actions": ["snapshot"]
    });
    for (key, value) in extra.as_object().expect("an object") {
        browser[key] = value.clone();
    }
    with(minimal(), "/browser", browser)
}

/// As [`enabled`], with external effects acknowledged.
pub(crate) fn effectful(extra: Value) -> Value {
    let mut members = json!({
        "maxRisk": "externalEffect", "externalEffects": "acknowledged", "purpose": "test"
    });
    for (key, value) in extra.as_object().expect("an object") {
        members[key] = value.clone();
    }
    enabled(members)
}

/// Every manifest is refused with an error at its key path.
pub(crate) fn refused_at(cases: &[(Value, &str)]) {
    for (manifest, path) in cases {
        let line = refuse(manifest);
        assert!(
            line.starts_with(&format!("{path}: ")),
            "{line:?} is not about {path}"
        );
    }
}
