//! Whether the browser's own sandbox can be on.

use std::env;
use std::ffi::OsStr;
use std::fmt;

/// State of the browser's sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sandbox {
    /// The browser uses its sandbox.
    On,
    /// It is started without, for the reason given.
    Off(SandboxOff),
}

/// Why the sandbox is off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxOff {
    /// Chromium refuses to use its sandbox as root.
    Root,
    /// The variable `CI` is not empty: build machines rarely allow user namespaces.
    Ci,
}

/// The manifest requires the sandbox and it cannot be on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "browser.sandbox is \"required\", but the browser's sandbox would be {}; {}",
    Sandbox::Off(*.0),
    match .0 {
        SandboxOff::Root => "start as another user, or set browser.sandbox to \"auto\"",
        SandboxOff::Ci => "unset CI, or set browser.sandbox to \"auto\"",
    }
)]
pub struct SandboxRefused(pub SandboxOff);

impl Sandbox {
    /// What applies to this process.
    ///
    /// # Errors
    /// `required` and the sandbox would be off.
    pub fn of_this_process(required: bool) -> Result<Self, SandboxRefused> {
        let root = rustix::process::geteuid().is_root();
        Self::decide(root, env::var_os("CI").as_deref(), required)
    }

    fn decide(root: bool, ci: Option<&OsStr>, required: bool) -> Result<Self, SandboxRefused> {
        let off = if root {
            SandboxOff::Root
        } else if ci.is_some_and(|value| !value.is_empty()) {
            SandboxOff::Ci
        } else {
            return Ok(Self::On);
        };
        if required {
            Err(SandboxRefused(off))
        } else {
            Ok(Self::Off(off))
        }
    }
}

impl fmt::Display for Sandbox {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::On => "on",
            Self::Off(SandboxOff::Root) => "off (running as root)",
            Self::Off(SandboxOff::Ci) => "off (CI is set)",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_and_a_non_empty_ci_turn_it_off() {
        let decide = |root, ci: Option<&str>| Sandbox::decide(root, ci.map(OsStr::new), false);
        assert_eq!(decide(false, None), Ok(Sandbox::On));
        assert_eq!(decide(false, Some("")), Ok(Sandbox::On));
        assert_eq!(
            decide(false, Some("false")),
            Ok(Sandbox::Off(SandboxOff::Ci))
        );
        assert_eq!(decide(true, Some("1")), Ok(Sandbox::Off(SandboxOff::Root)));
    }

    #[test]
    fn a_required_sandbox_refuses_instead() {
        assert_eq!(Sandbox::decide(false, None, true), Ok(Sandbox::On));
        let refused = Sandbox::decide(true, None, true).unwrap_err();
        assert_eq!(refused, SandboxRefused(SandboxOff::Root));
        assert!(refused.to_string().contains("off (running as root)"));
    }
}
