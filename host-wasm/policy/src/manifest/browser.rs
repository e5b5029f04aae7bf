//! `browser`: how the browser is launched, and whether automation is enabled
//! (control protocol 1.4).

use super::read::{At, Members};
use super::{AbsolutePath, Automation, Fault, ManifestError};

/// The browser of the machine page and, when enabled, of automation.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Browser {
    /// How it is launched.
    pub launch: LaunchSettings,
    /// What automation may do; absent means that there is none.
    pub automation: Option<Automation>,
}

/// How the browser is launched. The machine page needs a browser too, so these
/// settings hold with automation disabled.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LaunchSettings {
    /// The browser binary as the manifest writes it; discovery when absent.
    pub executable: Option<AbsolutePath>,
    /// Whether the window is visible.
    pub headed: bool,
    /// Whether a headless browser renders in software instead of not at all.
    pub gpu: bool,
    /// Whether the browser may run without its sandbox.
    pub sandbox: SandboxPolicy,
}

/// Whether the browser may run without its own sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum SandboxPolicy {
    /// Where the sandbox cannot work it is off, and the host says so.
    #[default]
    Auto,
    /// Where the sandbox cannot work the host does not start.
    Required,
}

impl SandboxPolicy {
    const NAMES: &[&str] = &["auto", "required"];

    fn from_name(name: &str) -> Option<Self> {
        match name {
            "auto" => Some(Self::Auto),
            "required" => Some(Self::Required),
            _ => None,
        }
    }
}

const LAUNCH_KEYS: [&str; 4] = ["executable", "headed", "gpu", "sandbox"];

impl Browser {
    pub(super) fn read(at: &At<'_>) -> Result<Self, ManifestError> {
        let members = at.closed(&[
            "enabled",
            "provider",
            "executable",
            "headed",
            "gpu",
            "sandbox",
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
        ])?;
        let enabled = members.flag("enabled")?;
        if !enabled {
            let is_disabled = |key: &str| key != "enabled" && !LAUNCH_KEYS.contains(&key);
            if let Some((_, at)) = members.entries().find(|(key, _)| is_disabled(key)) {
                return Err(at.fault(Fault::AutomationDisabled));
            }
        }
        Ok(Self {
            launch: LaunchSettings::read(&members)?,
            automation: enabled.then(|| Automation::read(&members)).transpose()?,
        })
    }
}

impl LaunchSettings {
    fn read(members: &Members<'_>) -> Result<Self, ManifestError> {
        Ok(Self {
            executable: members
                .optional("executable")
                .map(|at| at.checked_path(AbsolutePath::regular_file))
                .transpose()?,
            headed: members.flag("headed")?,
            gpu: members.flag("gpu")?,
            sandbox: match members.optional("sandbox") {
                Some(at) => at.choice(SandboxPolicy::NAMES, SandboxPolicy::from_name)?,
                None => SandboxPolicy::default(),
            },
        })
    }
}
