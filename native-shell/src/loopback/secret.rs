//! Secrets of one run: the bootstrap nonce and the bearer capability.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use subtle::ConstantTimeEq;

/// 32 random bytes as base64url. There is no `Display` and `Debug` shows
/// nothing, so that a secret cannot end up in a log by accident.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// A fresh secret.
    ///
    /// # Errors
    ///
    /// When the system has no randomness to give.
    pub fn random() -> std::io::Result<Self> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(std::io::Error::from)?;
        Ok(Self(URL_SAFE_NO_PAD.encode(bytes)))
    }

    /// Whether `text` is the secret, in a time that does not depend on where
    /// they differ.
    pub fn matches(&self, text: &str) -> bool {
        self.0.as_bytes().ct_eq(text.as_bytes()).into()
    }

    /// The text, for the one place that needs it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_secrets_differ_and_none_is_shown() {
        let (a, b) = (Secret::random().unwrap(), Secret::random().unwrap());
        assert_eq!(a.reveal().len(), 43);
        assert!(a.matches(a.reveal()) && !a.matches(b.reveal()) && !a.matches(""));
        assert_eq!(format!("{a:?}"), "Secret");
    }
}
