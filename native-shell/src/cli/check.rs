//! The preflight report of `--check` (control protocol 2.2).

use std::path::Path;

use pyproc_policy::{EngineSource, ReportFacts, SandboxPolicy, control_report};
use serde_json::Value;

use super::CommandError;
use super::profile::{Profile, ProfileError};
use crate::browser::Sandbox;
use crate::engine::verify;

/// Everything a start would check, without starting anything.
pub(super) fn control(profile: &Profile) -> Result<Value, CommandError> {
    if let EngineSource::Root(root) = &profile.manifest.engine {
        verify::verify_core(Path::new(root.as_str())).map_err(ProfileError::from)?;
    }
    let browser = profile.browser()?;
    let required = profile.manifest.browser.launch.sandbox == SandboxPolicy::Required;
    let sandbox = Sandbox::of_this_process(required)
        .map_err(|refused| CommandError::Arguments(refused.to_string()))?;
    let path = profile
        .path
        .as_deref()
        .unwrap_or(Path::new("(default profile)"));
    Ok(control_report(
        &profile.manifest,
        &ReportFacts {
            config_path: &path.to_string_lossy(),
            browser: &browser.to_string_lossy(),
            browser_sandbox: Some(&sandbox.to_string()),
            replay: None,
        },
    ))
}
