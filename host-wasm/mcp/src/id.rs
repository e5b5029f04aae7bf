//! Ids of requests: a string and a number are never the same one (MCP 2.4).

use pyproc_protocol::json::as_integer;
use serde_json::Value;

/// The id of a request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Id {
    /// An integer within plus or minus (2^53 - 1), however it was spelled.
    Integer(i64),
    /// A string of at most [`Id::MAX_TEXT`] bytes.
    Text(String),
}

impl Id {
    /// Longest string id, bytes.
    pub const MAX_TEXT: usize = 1024;

    /// The id that a value is, if it is one.
    #[must_use]
    pub fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Number(number) => as_integer(number).map(Self::Integer),
            Value::String(text) if text.len() <= Self::MAX_TEXT => Some(Self::Text(text.clone())),
            _ => None,
        }
    }

    /// The id as it is echoed: an integer in integer form.
    #[must_use]
    pub fn to_json(&self) -> Value {
        match self {
            Self::Integer(integer) => Value::from(*integer),
            Self::Text(text) => Value::from(text.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn integers_and_strings_are_ids_and_nothing_else_is() {
        for (value, echoed) in [
            (json!(7), json!(7)),
            (json!(7.0), json!(7)),
            (
                json!(-9_007_199_254_740_991_i64),
                json!(-9_007_199_254_740_991_i64),
            ),
            (json!("7"), json!("7")),
            (json!(""), json!("")),
            (json!("x".repeat(1024)), json!("x".repeat(1024))),
        ] {
            assert_eq!(Id::of(&value).unwrap().to_json(), echoed);
        }
        for value in [
            json!(null),
            json!(1.5),
            json!(true),
            json!({}),
            json!([1]),
            json!(9_007_199_254_740_992_i64),
            json!(1e300),
            json!("x".repeat(1025)),
        ] {
            assert_eq!(Id::of(&value), None, "{value}");
        }
        assert_ne!(Id::of(&json!(8)), Id::of(&json!("8")));
    }
}
