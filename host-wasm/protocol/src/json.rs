//! One JSON value of the wire: reading with bounded nesting, depth, integers,
//! and the encoding of a line (control protocol 0, 3.1, 3.2).

use serde_json::{Map, Number, Value};

use crate::limits::MAX_SAFE_INTEGER;

mod encode;
mod scan;

pub use encode::{EncodeError, encode};

/// Why bytes are not one acceptable JSON value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// A byte sequence is not UTF-8.
    #[error("the line is not valid UTF-8")]
    NotUtf8,
    /// The text starts with U+FEFF.
    #[error("the line starts with a byte order mark")]
    ByteOrderMark,
    /// More arrays and objects are open at once than the caller allows.
    #[error("the line nests arrays and objects deeper than {limit}")]
    NestingTooDeep {
        /// The bound that was passed.
        limit: usize,
    },
    /// Not JSON, text after the value, or a number that overflows to infinity.
    #[error("the line is not one JSON value (column {column})")]
    NotJson {
        /// Where reading stopped, in bytes from 1.
        column: usize,
    },
}

/// Reads one JSON value from `bytes`, with nothing but white space around it.
///
/// Repeated member names: the last one counts. An unpaired surrogate escape
/// reads as U+FFFD. At most `max_nesting` arrays and objects may be open at
/// once; that is checked before anything recursive runs, so no input exhausts
/// the stack as long as `max_nesting` is a few hundred at most.
///
/// # Errors
/// [`JsonError`]; the kinds are tried in the order of their declaration.
pub fn parse(bytes: &[u8], max_nesting: usize) -> Result<Value, JsonError> {
    let text = std::str::from_utf8(bytes).map_err(|_| JsonError::NotUtf8)?;
    if text.starts_with('\u{feff}') {
        return Err(JsonError::ByteOrderMark);
    }
    let text = scan::pair_surrogates(text, max_nesting)?;
    let mut reader = serde_json::Deserializer::from_str(&text);
    reader.disable_recursion_limit();
    let value = serde::Deserialize::deserialize(&mut reader);
    value
        .and_then(|value| reader.end().map(|()| value))
        .map_err(|error| JsonError::NotJson {
            column: error.column(),
        })
}

/// Whether no part of `value` is deeper than `max`; `value` itself has depth 0
/// and each member or element is one deeper (control protocol 3.2).
///
/// The recursion never goes deeper than `max`.
#[must_use]
pub fn depth_within(value: &Value, max: usize) -> bool {
    match value {
        Value::Array(items) if !items.is_empty() => {
            max > 0 && items.iter().all(|item| depth_within(item, max - 1))
        }
        Value::Object(members) => members_within(members, max),
        _ => true,
    }
}

/// [`depth_within`] of an object that is not wrapped in a [`Value`].
#[must_use]
pub fn members_within(members: &Map<String, Value>, max: usize) -> bool {
    members.is_empty() || (max > 0 && members.values().all(|value| depth_within(value, max - 1)))
}

/// The integer that `number` denotes: `1`, `1.0` and `1e0` are the same one.
/// `None` when it is not integral or beyond 2^53 - 1 in magnitude.
#[must_use]
pub fn as_integer(number: &Number) -> Option<i64> {
    let integer = match number.as_i64() {
        Some(integer) => integer,
        None => {
            let float = number.as_f64()?;
            if float.fract() != 0.0 {
                return None;
            }
            // Exact within 2^53 and saturating beyond, where it is refused.
            #[allow(clippy::cast_possible_truncation)]
            let integer = float as i64;
            integer
        }
    };
    (-MAX_SAFE_INTEGER..=MAX_SAFE_INTEGER)
        .contains(&integer)
        .then_some(integer)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> Result<Value, JsonError> {
        parse(text.as_bytes(), 128)
    }

    fn nested(levels: usize) -> String {
        format!("{}{}", "[".repeat(levels), "]".repeat(levels))
    }

    #[test]
    fn the_last_of_repeated_members_counts() {
        assert_eq!(
            read(r#"{"a":1,"b":2,"a":3}"#).unwrap(),
            json!({"a":3,"b":2})
        );
    }

    #[test]
    fn text_around_the_value_is_refused_but_white_space_is_not() {
        assert_eq!(read(" \t[1]\r ").unwrap(), json!([1]));
        assert!(matches!(read("[1] x"), Err(JsonError::NotJson { .. })));
        assert!(matches!(read(""), Err(JsonError::NotJson { .. })));
        assert!(matches!(read("[1]\0"), Err(JsonError::NotJson { .. })));
    }

    #[test]
    fn literals_that_only_javascript_knows_are_refused() {
        for text in [
            "NaN",
            "Infinity",
            "-Infinity",
            "[1,]",
            "'a'",
            "{a:1}",
            "01",
            "+1",
            ".5",
        ] {
            assert!(
                matches!(read(text), Err(JsonError::NotJson { .. })),
                "{text}"
            );
        }
    }

    #[test]
    fn numbers_that_overflow_are_refused() {
        for text in ["1e999", "-1e999", &"9".repeat(400)] {
            assert!(
                matches!(read(text), Err(JsonError::NotJson { .. })),
                "{text}"
            );
        }
        assert_eq!(read("1e308").unwrap(), json!(1e308));
        assert_eq!(read("1e-999").unwrap(), json!(0.0));
    }

    #[test]
    fn numbers_keep_their_value() {
        for text in [
            "18446744073709551615",
            "-9223372036854775808",
            "0.1",
            "5e-324",
            "1.0",
        ] {
            assert_eq!(read(text).unwrap().to_string(), text);
        }
        // A float whose naive decimal conversion is one unit off.
        assert_eq!(
            read("2.638344616030823e-256").unwrap(),
            json!(2.638344616030823e-256)
        );
    }

    #[test]
    fn byte_order_mark_and_bad_utf8_are_refused() {
        assert_eq!(read("\u{feff}[]"), Err(JsonError::ByteOrderMark));
        assert_eq!(parse(b"\"\xff\"", 8), Err(JsonError::NotUtf8));
        assert_eq!(parse(b"\"\xc0\xaf\"", 8), Err(JsonError::NotUtf8));
        // A surrogate encoded as UTF-8.
        assert_eq!(parse(b"\"\xed\xa0\x80\"", 8), Err(JsonError::NotUtf8));
    }

    #[test]
    fn nesting_is_bounded_exactly() {
        assert!(read(&nested(128)).is_ok());
        assert_eq!(
            read(&nested(129)),
            Err(JsonError::NestingTooDeep { limit: 128 })
        );
        assert_eq!(
            read(&nested(200_000)),
            Err(JsonError::NestingTooDeep { limit: 128 })
        );
        assert_eq!(
            read(&"{\"a\":".repeat(200_000)),
            Err(JsonError::NestingTooDeep { limit: 128 })
        );
    }

    #[test]
    fn brackets_in_strings_do_not_nest() {
        let text = format!("[\"{}\",\"\\\"[[[\"]", "[{".repeat(500));
        assert!(parse(text.as_bytes(), 1).is_ok());
    }

    #[test]
    fn depth_counts_from_the_value_itself() {
        assert!(depth_within(&json!(1), 0));
        assert!(depth_within(&json!([]), 0));
        assert!(!depth_within(&json!([1]), 0));
        assert!(depth_within(&json!({"a":[1]}), 2));
        assert!(!depth_within(&json!({"a":[1]}), 1));
        assert!(depth_within(&read(&nested(65)).unwrap(), 64));
        assert!(!depth_within(&read(&nested(66)).unwrap(), 64));
    }

    #[test]
    fn integers_are_recognised_in_every_spelling() {
        let integer = |text: &str| match read(text).unwrap() {
            Value::Number(number) => as_integer(&number),
            other => panic!("{other}"),
        };
        for text in ["1", "1.0", "1e0", "10e-1", "0.1e1"] {
            assert_eq!(integer(text), Some(1), "{text}");
        }
        assert_eq!(integer("-0"), Some(0));
        assert_eq!(integer("9007199254740991"), Some(MAX_SAFE_INTEGER));
        assert_eq!(integer("-9007199254740991.0"), Some(-MAX_SAFE_INTEGER));
        for text in [
            "1.5",
            "9007199254740992",
            "9007199254740992.0",
            "1e300",
            "-9007199254740992",
        ] {
            assert_eq!(integer(text), None, "{text}");
        }
        assert_eq!(integer("18446744073709551615"), None);
    }
}
