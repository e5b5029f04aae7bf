//! The manifests that `pyproc-control init` starts from. JSON has no comments,
//! so each comes with an explanation of its keys for the terminal.

use serde_json::{Value, json};

/// A starting manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// The manifest's text: JSON, indented by two spaces, with a final line feed.
    pub manifest: String,
    /// What its keys mean, one plain line each.
    pub explanation: &'static [&'static str],
}

/// The Python machine alone.
pub fn python(engine_root: &str) -> Template {
    let manifest = json!({
        "schemaVersion": 1,
        "engine": {"root": engine_root},
        "timeoutMs": 180_000,
        "machine": {"heapLimitBytes": 536_870_912, "maxCheckpoints": 256},
    });
    template(&manifest, PYTHON)
}

/// The machine and browser automation through the browser's own protocol.
pub fn browser(engine_root: &str) -> Template {
    let manifest = json!({
        "schemaVersion": 1,
        "engine": {"root": engine_root},
        "timeoutMs": 60_000,
        "browser": {
            "enabled": true,
            "provider": "nativeCdp",
            "allowedOrigins": ["https://example.com"],
            "maxRisk": "externalEffect",
            "actions": ["snapshot", "screenshot", "waitFor", "navigate", "click", "fill", "press", "select", "scroll"],
            "methods": [],
            "externalEffects": "acknowledged",
            "purpose": "try out browser automation on example.com",
            "viewport": {"width": 1280, "height": 800},
        },
    });
    template(&manifest, BROWSER)
}

/// The machine and automation of cooperating pages in frames.
pub fn frame(engine_root: &str) -> Template {
    let manifest = json!({
        "schemaVersion": 1,
        "engine": {"root": engine_root},
        "timeoutMs": 60_000,
        "browser": {
            "enabled": true,
            "provider": "frame",
            "allowedOrigins": ["http://127.0.0.1:4100"],
            "maxRisk": "externalEffect",
            "actions": ["snapshot", "screenshot", "waitFor", "navigate", "click", "fill"],
            "methods": [],
            "externalEffects": "acknowledged",
            "purpose": "try out automation of a page that embeds the bridge",
        },
    });
    template(&manifest, FRAME)
}

fn template(manifest: &Value, explanation: &'static [&'static str]) -> Template {
    Template {
        manifest: format!("{manifest:#}\n"),
        explanation,
    }
}

const PYTHON: &[&str] = &[
    "schemaVersion: the manifest version, always 1.",
    "engine.root: absolute path of the directory that pyproc-engine prepared; engine.indexURL takes a URL instead.",
    "timeoutMs: deadline of one command in milliseconds, 1 to 900000.",
    "machine.heapLimitBytes: most memory of Python in bytes, 64 MiB to 2 GiB.",
    "machine.maxCheckpoints: most saved checkpoints, 1 to 4096.",
    "Without browser there is no browser automation; the browser that hosts Python is found by itself.",
];

const BROWSER: &[&str] = &[
    "schemaVersion: the manifest version, always 1.",
    "engine.root: absolute path of the directory that pyproc-engine prepared; engine.indexURL takes a URL instead.",
    "timeoutMs: deadline of one command in milliseconds, 1 to 900000.",
    "browser.enabled: false, or no browser object, means no automation.",
    "browser.provider: nativeCdp drives a browser of its own in a fresh profile.",
    "browser.allowedOrigins: the only origins that pages may have; replace the example by yours, exact scheme, host and port.",
    "browser.maxRisk: read, mutate or externalEffect; opening a page needs externalEffect.",
    "browser.actions: the only actions an agent may use; each must be within maxRisk.",
    "browser.methods: raw browser commands an agent may send; empty allows none.",
    "browser.externalEffects: must be acknowledged when maxRisk is externalEffect.",
    "browser.purpose: why, in at most 200 characters; required when maxRisk is externalEffect.",
    "browser.viewport: width and height of the page in CSS pixels, 1 to 10000 each.",
];

const FRAME: &[&str] = &[
    "schemaVersion: the manifest version, always 1.",
    "engine.root: absolute path of the directory that pyproc-engine prepared; engine.indexURL takes a URL instead.",
    "timeoutMs: deadline of one command in milliseconds, 1 to 900000; a frame answers within 10000 in any case.",
    "browser.enabled: false, or no browser object, means no automation.",
    "browser.provider: frame works on pages that embed the bridge script, inside the machine page.",
    "browser.allowedOrigins: the only origins that pages may have; replace the example by yours, exact scheme, host and port.",
    "browser.maxRisk: read, mutate or externalEffect; opening a page needs externalEffect.",
    "browser.actions: the only actions an agent may use; frames support 12 of them.",
    "browser.methods: must stay empty, frames have no raw commands.",
    "browser.externalEffects: must be acknowledged when maxRisk is externalEffect.",
    "browser.purpose: why, in at most 200 characters; required when maxRisk is externalEffect.",
];
