//! `browser.purpose`: the operator's stated purpose.

use std::fmt;

use super::read::At;
use super::{Fault, ManifestError};

/// An operator's stated purpose: trimmed, 1 to 200 characters, none of them a
/// control character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purpose(String);

impl Purpose {
    /// Longest purpose, in characters.
    pub const MAX_CHARS: usize = 200;

    /// The purpose as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The trimmed purpose, or `None` when nothing is left of it.
    pub(super) fn read(at: &At<'_>) -> Result<Option<Self>, ManifestError> {
        let text = at.string()?.trim();
        if text.chars().any(|c| c.is_ascii_control()) {
            return Err(at.fault(Fault::ControlCharacter));
        }
        if text.chars().count() > Self::MAX_CHARS {
            let max = Self::MAX_CHARS;
            return Err(at.fault(Fault::TooLong { max }));
        }
        Ok((!text.is_empty()).then(|| Self(text.to_owned())))
    }
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
