//! The encoding of a line (control protocol 3.1).

use std::io;

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

/// Why a value has no line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// The line would be longer than the limit.
    #[error("the line would be longer than {limit} bytes")]
    TooLarge {
        /// The bound that was passed, in bytes without the terminator.
        limit: usize,
    },
    /// The value has no JSON form.
    #[error("the value has no JSON form")]
    NotJson,
}

/// `value` as one compact line without its terminator.
///
/// U+2028 and U+2029 are escaped, because some peers split lines there, and no
/// control character appears raw. Nothing beyond `limit` bytes is ever held.
///
/// # Errors
/// [`EncodeError::TooLarge`] when the line would be longer than `limit` bytes.
pub fn encode<T: Serialize + ?Sized>(value: &T, limit: usize) -> Result<String, EncodeError> {
    let mut writer = Bounded {
        bytes: Vec::new(),
        limit,
    };
    let mut serializer = Serializer::with_formatter(&mut writer, LineFormatter);
    match value.serialize(&mut serializer) {
        // JSON is UTF-8 because its strings are.
        Ok(()) => String::from_utf8(writer.bytes).map_err(|_| EncodeError::NotJson),
        Err(error) if error.is_io() => Err(EncodeError::TooLarge { limit }),
        Err(_) => Err(EncodeError::NotJson),
    }
}

/// Collects bytes up to a limit; the only error of its writes is passing it.
struct Bounded {
    bytes: Vec<u8>,
    limit: usize,
}

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.limit - self.bytes.len() < bytes.len() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Compact JSON whose strings hold no line separator of any kind.
struct LineFormatter;

impl Formatter for LineFormatter {
    fn write_string_fragment<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(index) = rest.find(['\u{2028}', '\u{2029}']) {
            let (before, after) = rest.split_at(index);
            writer.write_all(before.as_bytes())?;
            let escape: &[u8] = if after.starts_with('\u{2028}') {
                b"\\u2028"
            } else {
                b"\\u2029"
            };
            writer.write_all(escape)?;
            rest = &after['\u{2028}'.len_utf8()..];
        }
        writer.write_all(rest.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn separators_are_escaped_everywhere() {
        let value = json!({"a\u{2028}": "\u{2029}x\u{2028}\u{2028}y\u{e2}"});
        assert_eq!(
            encode(&value, 100).unwrap(),
            "{\"a\\u2028\":\"\\u2029x\\u2028\\u2028y\u{e2}\"}"
        );
    }

    #[test]
    fn control_characters_never_appear_raw() {
        let text: String = (0..32_u8).map(char::from).collect();
        let line = encode(&json!([text]), 1000).unwrap();
        assert!(line.bytes().all(|byte| byte >= 0x20));
        assert_eq!(serde_json::from_str::<[String; 1]>(&line).unwrap(), [text]);
    }

    #[test]
    fn the_limit_is_exact() {
        assert_eq!(encode("abc", 5).unwrap(), "\"abc\"");
        assert_eq!(encode("abc", 4), Err(EncodeError::TooLarge { limit: 4 }));
        assert_eq!(encode("", 0), Err(EncodeError::TooLarge { limit: 0 }));
    }
}
