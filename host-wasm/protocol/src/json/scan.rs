//! The pass over raw JSON text that runs before the recursive decoder.

use std::borrow::Cow;

use super::JsonError;

/// Bounds the nesting of `text` and makes its surrogate escapes acceptable.
///
/// Every `\uD800` to `\uDFFF` escape that is not half of a pair becomes
/// `\ufffd`, which has the same length. Exact for JSON; text that is not JSON
/// comes out changed or unchanged, but it does not become JSON: the changes
/// happen only inside strings and keep escapes escapes.
pub(super) fn pair_surrogates(text: &str, max_nesting: usize) -> Result<Cow<'_, str>, JsonError> {
    let bytes = text.as_bytes();
    let mut patched: Option<Vec<u8>> = None;
    let mut open = 0_usize;
    let mut index = 0;
    while let Some(&byte) = bytes.get(index) {
        index += 1;
        match byte {
            b'[' | b'{' => {
                open += 1;
                if open > max_nesting {
                    return Err(JsonError::NestingTooDeep { limit: max_nesting });
                }
            }
            b']' | b'}' => open = open.saturating_sub(1),
            b'"' => index = end_of_string(bytes, index, &mut patched),
            _ => {}
        }
    }
    match patched {
        None => Ok(Cow::Borrowed(text)),
        // Only ASCII was replaced by ASCII, so this cannot fail; the error is
        // the truthful answer if that ever changes.
        Some(bytes) => String::from_utf8(bytes)
            .map(Cow::Owned)
            .map_err(|_| JsonError::NotUtf8),
    }
}

/// The index behind the string whose first character is at `index`.
fn end_of_string(bytes: &[u8], mut index: usize, patched: &mut Option<Vec<u8>>) -> usize {
    loop {
        match bytes[index..]
            .iter()
            .position(|&byte| byte == b'"' || byte == b'\\')
        {
            None => return bytes.len(),
            Some(offset) => index += offset,
        }
        if bytes[index] == b'"' {
            return index + 1;
        }
        index += match (escaped_unit(bytes, index), escaped_unit(bytes, index + 6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(0xd800..=0xdfff), _) => {
                let patched = patched.get_or_insert_with(|| bytes.to_vec());
                patched[index + 2..index + 6].copy_from_slice(b"fffd");
                6
            }
            // The escaped character may be a quote or a backslash.
            _ => 2,
        };
        if index >= bytes.len() {
            return bytes.len();
        }
    }
}

/// The code unit of the `\uXXXX` escape at `index`, if there is one.
fn escaped_unit(bytes: &[u8], index: usize) -> Option<u16> {
    let escape = bytes.get(index..index + 6)?;
    let digits = escape.strip_prefix(b"\\u")?;
    digits.iter().try_fold(0_u16, |unit, &digit| {
        let digit = char::from(digit).to_digit(16)?;
        Some(unit << 4 | u16::try_from(digit).ok()?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paired(text: &str) -> String {
        pair_surrogates(text, 8).unwrap().into_owned()
    }

    #[test]
    fn lone_surrogates_become_the_replacement_character() {
        assert_eq!(paired(r#""\ud800""#), r#""\ufffd""#);
        assert_eq!(paired(r#""\uDC00x""#), r#""\ufffdx""#);
        assert_eq!(paired(r#""\udfff\ud800""#), r#""\ufffd\ufffd""#);
        assert_eq!(paired(r#""\ud800\u0041""#), r#""\ufffd\u0041""#);
        assert_eq!(paired(r#""\ud800\n""#), r#""\ufffd\n""#);
    }

    #[test]
    fn pairs_stay() {
        for text in [
            r#""\ud83d\ude00""#,
            r#""\uD83D\uDE00""#,
            r#"["plain","\u0041"]"#,
        ] {
            assert!(
                matches!(pair_surrogates(text, 8), Ok(Cow::Borrowed(_))),
                "{text}"
            );
        }
        assert_eq!(
            paired(r#""\ud800\ud83d\ude00\udc00""#),
            r#""\ufffd\ud83d\ude00\ufffd""#
        );
    }

    #[test]
    fn an_escaped_backslash_starts_no_escape() {
        for text in [r#""\\ud800""#, r#""\\\\udc00""#, r#""\"\\ud800""#] {
            assert_eq!(paired(text), text);
        }
        assert_eq!(paired(r#""\\\ud800""#), r#""\\\ufffd""#);
    }

    #[test]
    fn text_outside_strings_is_never_changed() {
        assert_eq!(paired(r"[\ud800]"), r"[\ud800]");
    }

    #[test]
    fn truncated_text_is_left_alone() {
        for text in [
            "\"",
            "\"\\",
            "\"\\u",
            "\"\\ud80",
            "\"\\ud800",
            "\"abc",
            "\"\\ud83d\\ude0",
        ] {
            assert!(pair_surrogates(text, 8).is_ok(), "{text}");
        }
    }

    #[test]
    fn keys_are_strings_too() {
        assert_eq!(paired(r#"{"\ud800":"\udc00"}"#), r#"{"\ufffd":"\ufffd"}"#);
    }
}
