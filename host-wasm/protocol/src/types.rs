//! Wire identifiers that cannot hold a wrong value (control protocol 3.2).
//!
//! Each type is parsed once at the border; holding one is the proof that its
//! text is well formed.

use std::borrow::Cow;

use sha2::{Digest, Sha256};

/// A text that is not of the wanted form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be {expected}")]
pub struct InvalidText {
    /// What the text should have been, as a noun phrase.
    pub expected: &'static str,
}

/// Id: a letter or digit, then at most 127 of letters, digits and `._:-`.
#[must_use]
pub fn is_id(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() <= 128
        && bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || b"._:-".contains(b))
}

/// Name: two or more segments of lower-case letters and digits joined by dots;
/// the first segment starts with a letter.
#[must_use]
pub fn is_name(text: &str) -> bool {
    text.as_bytes().first().is_some_and(u8::is_ascii_lowercase)
        && text.contains('.')
        && text.split('.').all(|segment| {
            !segment.is_empty()
                && segment
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        })
}

/// Code: an upper-case letter, then 2 to 95 of upper-case letters, digits, `_`.
#[must_use]
pub const fn is_code(text: &str) -> bool {
    let bytes = text.as_bytes();
    if bytes.len() < 3 || bytes.len() > 96 || !bytes[0].is_ascii_uppercase() {
        return false;
    }
    let mut index = 1;
    while index < bytes.len() {
        let byte = bytes[index];
        if !(byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_') {
            return false;
        }
        index += 1;
    }
    true
}

/// Mime: `type/subtype` in lower case, without parameters.
#[must_use]
pub fn is_mime(text: &str) -> bool {
    fn is_part(part: &str) -> bool {
        let bytes = part.as_bytes();
        let plain = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        bytes.first().is_some_and(plain) && bytes.iter().all(|b| plain(b) || b".+-".contains(b))
    }
    text.split_once('/')
        .is_some_and(|(kind, subtype)| is_part(kind) && is_part(subtype))
}

/// Sha256: 64 lower-case hexadecimal digits.
#[must_use]
pub fn is_sha256(text: &str) -> bool {
    text.len() == 64
        && text
            .bytes()
            .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

macro_rules! text_type {
    ($(#[$doc:meta])* $name:ident, $check:path, $expected:literal) => {
        $(#[$doc])*
        ///
        /// Cloning is cheap.
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(std::sync::Arc<str>);

        impl $name {
            /// What a value of this type is, as a noun phrase.
            pub const EXPECTED: &'static str = $expected;

            /// Reads `text`.
            ///
            /// # Errors
            /// [`$crate::types::InvalidText`] when `text` is not of this form.
            pub fn parse(text: &str) -> Result<Self, $crate::types::InvalidText> {
                if $check(text) {
                    Ok(Self(text.into()))
                } else {
                    Err($crate::types::InvalidText { expected: $expected })
                }
            }

            /// The wire text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        $crate::types::text_type!(@traits $name);
    };
    (@traits $name:ident) => {
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($name), "({:?})"), self.as_str())
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                self.as_str()
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                self.as_str() == other
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                self.as_str() == *other
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::types::InvalidText;

            fn from_str(text: &str) -> Result<Self, $crate::types::InvalidText> {
                Self::parse(text)
            }
        }

        impl TryFrom<&str> for $name {
            type Error = $crate::types::InvalidText;

            fn try_from(text: &str) -> Result<Self, $crate::types::InvalidText> {
                Self::parse(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = $crate::types::InvalidText;

            fn try_from(text: String) -> Result<Self, $crate::types::InvalidText> {
                Self::parse(&text)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str> as serde::Deserialize>::deserialize(deserializer)?;
                Self::parse(&text).map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use text_type;

text_type!(
    /// Identifier of a request, chosen by the client, single-use per connection.
    RequestId, is_id, "an id"
);
text_type!(
    /// Identifier of one attachment within its request.
    AttachmentId, is_id, "an id"
);
text_type!(
    /// Identifier of an automation space or of the machine, the fence of 3.9.
    SpaceId, is_id, "an id"
);
text_type!(
    /// Identifier of an event.
    EventId, is_id, "an id"
);
text_type!(
    /// Name of an operation; it need not be in the catalog.
    OperationName, is_name, "a dotted lower-case name"
);
text_type!(
    /// Kind of an attachment, for example `screen.capture`.
    AttachmentKind, is_name, "a dotted lower-case name"
);
text_type!(
    /// Name of an event.
    EventName, is_name, "a dotted lower-case name"
);
text_type!(
    /// MIME type without parameters.
    Mime, is_mime, "a MIME type without parameters"
);
text_type!(
    /// SHA-256 digest in lower-case hexadecimal.
    Sha256Hex, is_sha256, "64 lower-case hexadecimal digits"
);

impl OperationName {
    /// The name of a catalog operation.
    pub(crate) fn of(operation: crate::catalog::Operation) -> Self {
        Self(operation.name().into())
    }
}

impl SpaceId {
    /// The space of the four machine operations, `machine:primary`.
    #[must_use]
    pub fn machine() -> Self {
        Self("machine:primary".into())
    }
}

impl AttachmentId {
    /// The id of the attachment at `position`, counted from 1: `attachment:<n>`.
    #[must_use]
    pub fn numbered(position: usize) -> Self {
        Self(format!("attachment:{position}").into())
    }
}

impl AttachmentKind {
    /// Kind of a promoted screenshot, `screen.capture`.
    #[must_use]
    pub fn screen_capture() -> Self {
        Self("screen.capture".into())
    }

    /// Kind of an exported machine image, `machine.image`.
    #[must_use]
    pub fn machine_image() -> Self {
        Self("machine.image".into())
    }

    /// What Python displayed in a run.
    #[must_use]
    pub fn machine_display() -> Self {
        Self("machine.display".into())
    }
}

impl Sha256Hex {
    /// The digest of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self::from_digest(&Sha256::digest(bytes).into())
    }

    /// The digest whose 32 bytes are `digest`.
    #[must_use]
    pub fn from_digest(digest: &[u8; 32]) -> Self {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let text: String = digest
            .iter()
            .flat_map(|byte| [byte >> 4, byte & 15])
            .map(|digit| char::from(DIGITS[usize::from(digit)]))
            .collect();
        Self(text.into())
    }
}

/// Error code of the wire.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code(Cow<'static, str>);

impl Code {
    /// What a value of this type is, as a noun phrase.
    pub const EXPECTED: &'static str = "an upper-case error code";

    /// Reads `text`.
    ///
    /// # Errors
    /// [`InvalidText`] when `text` is not a code.
    pub fn parse(text: &str) -> Result<Self, InvalidText> {
        if is_code(text) {
            Ok(Self(Cow::Owned(text.to_owned())))
        } else {
            Err(InvalidText {
                expected: Self::EXPECTED,
            })
        }
    }

    /// A code that is known when the program is written. Meant for `const`
    /// items, where a text that is not a code fails the build.
    ///
    /// # Panics
    /// When `text` is not a code.
    #[must_use]
    pub const fn constant(text: &'static str) -> Self {
        assert!(is_code(text), "not an error code");
        Self(Cow::Borrowed(text))
    }

    /// The wire text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

text_type!(@traits Code);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_1_to_128_characters_of_the_alphabet() {
        for good in ["a", "0", "r:7", "A.b_c-d:e", &"x".repeat(128)] {
            assert_eq!(RequestId::parse(good).unwrap().as_str(), good);
        }
        for bad in [
            "",
            ".a",
            "-a",
            ":a",
            "_a",
            "a b",
            "a/b",
            "\u{e9}",
            "a\n",
            &"x".repeat(129),
        ] {
            assert!(RequestId::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn names_have_two_or_more_segments() {
        for good in ["a.b", "machine.run", "a1.2b.3", "a.0"] {
            assert_eq!(OperationName::parse(good).unwrap().as_str(), good);
        }
        for bad in [
            "",
            "run",
            "Machine.run",
            "1a.b",
            "a.",
            ".a",
            "a..b",
            "a.b-c",
            "a.B",
            "a b.c",
        ] {
            assert!(OperationName::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn codes_have_3_to_96_characters() {
        for good in ["ABC", "A_1", "A__", &"X".repeat(96)] {
            assert_eq!(Code::parse(good).unwrap().as_str(), good);
        }
        for bad in ["", "AB", "1AB", "_AB", "ABc", "AB-C", &"X".repeat(97)] {
            assert!(Code::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn mime_types_have_no_parameters_and_no_upper_case() {
        for good in ["image/png", "application/vnd.x+json", "a/b", "0/9-"] {
            assert_eq!(Mime::parse(good).unwrap().as_str(), good);
        }
        for bad in [
            "",
            "image",
            "image/",
            "/png",
            "Image/png",
            "a/b;c=d",
            "a/b/c",
            "a/.b",
            "+a/b",
        ] {
            assert!(Mime::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn digests_are_64_lower_case_digits() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Sha256Hex::of(b"").as_str(), empty);
        assert_eq!(Sha256Hex::parse(empty).unwrap(), Sha256Hex::of(b""));
        for bad in [
            &empty[1..],
            &empty.to_uppercase(),
            &format!("{empty}0"),
            &"g".repeat(64),
        ] {
            assert!(Sha256Hex::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn serde_reads_only_what_parse_accepts() {
        let id: RequestId = serde_json::from_str("\"r:\\u0031\"").unwrap();
        assert_eq!(id, "r:1");
        assert_eq!(serde_json::to_string(&id).unwrap(), "\"r:1\"");
        assert!(serde_json::from_str::<RequestId>("\"r 1\"").is_err());
        assert!(serde_json::from_str::<Code>("7").is_err());
        assert_eq!(format!("{id:?} {id}"), "RequestId(\"r:1\") r:1");
    }

    #[test]
    fn made_ids_are_well_formed() {
        assert!(is_id(SpaceId::machine().as_str()));
        assert!(is_id(AttachmentId::numbered(12).as_str()));
        assert!(is_name(AttachmentKind::screen_capture().as_str()));
        assert!(is_name(AttachmentKind::machine_image().as_str()));
        assert!(is_name(AttachmentKind::machine_display().as_str()));
    }
}
