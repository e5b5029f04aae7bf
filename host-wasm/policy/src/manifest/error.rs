//! Why a manifest is refused.

use std::fmt;

use thiserror::Error;

use super::Fault;

/// The first rule that a manifest breaks.
///
/// `Display` is one line: the key path and what is wrong with the value,
/// including the bound that it breaks. No value of the manifest is repeated, so
/// a secret that was written in the wrong place does not reach a log.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("{path}: {fault}")]
pub struct ManifestError {
    /// Where, for instance `browser.viewport.width`.
    pub path: KeyPath,
    /// What is wrong there.
    pub fault: Fault,
}

impl ManifestError {
    /// The recording area's error code, when the fault has one (recording 2).
    pub fn code(&self) -> Option<&'static str> {
        match self.fault {
            Fault::RecordingExists | Fault::SidecarExists => Some("AUTOMATION_RECORDING_EXISTS"),
            Fault::RecordingLocked => Some("AUTOMATION_RECORDING_LOCKED"),
            Fault::ReplayFile => Some("AUTOMATION_RECORDING_UNAVAILABLE"),
            Fault::SidecarNotDirectory => Some("AUTOMATION_RECORDING_ARTIFACT_INVALID"),
            _ => None,
        }
    }

    /// States an out-of-range `schemaVersion` as what it means.
    pub(super) fn about_version(self) -> Self {
        match self.fault {
            Fault::IntegerRange { .. } => Self {
                fault: Fault::Version,
                ..self
            },
            _ => self,
        }
    }
}

/// The place of a value in the manifest: member names joined by `.`, array
/// positions in brackets, from 0. The root is written `manifest`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct KeyPath(String);

impl KeyPath {
    /// Longest member name that is repeated as it stands, in characters.
    const MAX_NAME: usize = 64;

    /// The root of the manifest.
    pub const fn root() -> Self {
        Self(String::new())
    }

    /// The member `name` of this object. A name that is not a plain word is
    /// quoted, escaped and shortened.
    pub fn key(&self, name: &str) -> Self {
        let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let plain = !name.is_empty() && name.len() <= Self::MAX_NAME && name.chars().all(is_word);
        if plain {
            let dot = if self.0.is_empty() { "" } else { "." };
            return Self(format!("{}{dot}{name}", self.0));
        }
        let start: String = name.chars().take(Self::MAX_NAME).collect();
        let more = if start.len() < name.len() { "…" } else { "" };
        Self(format!("{}[\"{}{more}\"]", self.0, start.escape_debug()))
    }

    /// The element at `position` of this array.
    pub fn index(&self, position: usize) -> Self {
        Self(format!("{}[{position}]", self.0))
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() {
            "manifest"
        } else {
            &self.0
        })
    }
}

impl fmt::Debug for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
