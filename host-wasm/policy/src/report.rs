//! The preflight reports of `--check` (control protocol 2.2).

use serde_json::{Map, Value, json};

use crate::{Automation, EngineSource, LiveProvider, Manifest};

/// What a preflight knows besides the manifest.
#[derive(Clone, Debug, Default)]
pub struct ReportFacts<'a> {
    /// The manifest's absolute path, links kept.
    pub config_path: &'a str,
    /// The browser that was found. [`control_report`] always needs it;
    /// [`mcp_report`] with automation enabled.
    pub browser: &'a str,
    /// The state of the browser's own sandbox, when it is known.
    pub browser_sandbox: Option<&'a str>,
    /// The verified recording of a replay manifest.
    pub replay: Option<ReplayFacts>,
}

/// What loading a recording found, beyond what the manifest pins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayFacts {
    /// Number of recorded operations.
    pub entries: u64,
    /// The provider that was recorded.
    pub source_provider: LiveProvider,
}

/// The report of `pyproc-control --check`.
pub fn control_report(manifest: &Manifest, facts: &ReportFacts<'_>) -> Value {
    let mut report = common(manifest, facts);
    report.insert("machineBrowser".into(), facts.browser.into());
    let automation = automation_report(manifest, facts, None);
    report.insert("automation".into(), automation);
    finish(report, facts)
}

/// The report of `pyproc-mcp --check`.
pub fn mcp_report(manifest: &Manifest, facts: &ReportFacts<'_>) -> Value {
    let mut report = common(manifest, facts);
    let browser = automation_report(manifest, facts, Some(facts.browser));
    report.insert("browser".into(), browser);
    finish(report, facts)
}

fn common(manifest: &Manifest, facts: &ReportFacts<'_>) -> Map<String, Value> {
    let engine = match &manifest.engine {
        EngineSource::Root(root) => json!({"mode": "root", "root": root.as_str()}),
        EngineSource::IndexUrl(url) => json!({"mode": "indexURL", "indexURL": url.as_str()}),
    };
    let mut report = Map::new();
    report.insert("ok".into(), true.into());
    report.insert("schemaVersion".into(), 1.into());
    report.insert("configPath".into(), facts.config_path.into());
    report.insert("engine".into(), engine);
    report
}

fn finish(mut report: Map<String, Value>, facts: &ReportFacts<'_>) -> Value {
    if let Some(state) = facts.browser_sandbox {
        report.insert("browserSandbox".into(), state.into());
    }
    report.into()
}

fn automation_report(
    manifest: &Manifest,
    facts: &ReportFacts<'_>,
    executable: Option<&str>,
) -> Value {
    let Some(automation) = manifest.automation() else {
        return json!({"enabled": false});
    };
    let mut report = Map::new();
    report.insert("enabled".into(), true.into());
    report.insert("provider".into(), automation.provider().name().into());
    if let Some(executable) = executable {
        report.insert("executable".into(), executable.into());
    }
    let policy = automation.recorded_policy();
    for (key, member) in [
        ("allowedOrigins", "targetOrigins"),
        ("actions", "actions"),
        ("rawMethods", "rawMethods"),
        ("maxRisk", "maxRisk"),
    ] {
        report.insert(key.into(), policy[member].clone());
    }
    report.insert("artifacts".into(), artifacts(automation));
    if let Some(record) = automation.record() {
        report.insert("recording".into(), record.report());
    }
    if let Some(replay) = automation.replay() {
        report.insert("recording".into(), replay.report());
        if let Some(facts) = facts.replay {
            report.insert(
                "replay".into(),
                json!({
                    "recordingId": replay.recording_id().as_str(),
                    "entries": facts.entries,
                    "finalSha256": replay.final_sha256().as_str(),
                    "sourceProvider": facts.source_provider.name(),
                }),
            );
        }
    }
    report.into()
}

fn artifacts(automation: &Automation) -> Value {
    let limits = automation.artifacts();
    json!({
        "maxArtifactBytes": limits.max_artifact_bytes(),
        "maxTotalBytes": limits.max_total_bytes(),
        "maxArtifacts": limits.max_artifacts(),
        "inlineMaxBytes": limits.inline_max_bytes(),
        "ttlMs": limits.ttl_ms(),
    })
}
