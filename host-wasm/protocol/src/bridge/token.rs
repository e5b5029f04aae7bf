//! The bearer capability of the machine page.

use std::fmt;

use subtle::ConstantTimeEq;

use crate::types::InvalidText;

/// The bearer capability that admits one machine page to the bridge.
///
/// It has no `Display` and no `Serialize`, and its `Debug` shows nothing: the
/// only ways out are [`BridgeToken::expose`] and the handshake that carries it.
#[derive(Clone)]
pub struct BridgeToken(Box<str>);

impl BridgeToken {
    /// Reads a capability: 43 to 128 characters of base64url without padding,
    /// that is at least 32 random bytes.
    ///
    /// # Errors
    /// [`InvalidText`], which does not contain the text.
    pub fn parse(text: &str) -> Result<Self, InvalidText> {
        let valid = (43..=128).contains(&text.len())
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        if valid {
            Ok(Self(text.into()))
        } else {
            Err(InvalidText {
                expected: "at least 32 bytes in base64url",
            })
        }
    }

    /// Whether `candidate` is this capability. The time depends on the lengths
    /// only.
    #[must_use]
    pub fn matches(&self, candidate: &str) -> bool {
        self.0.as_bytes().ct_eq(candidate.as_bytes()).into()
    }

    /// The text, for the one page that is given it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for BridgeToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BridgeToken(..)")
    }
}
