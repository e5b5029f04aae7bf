//! The manifest's text as a tree that keeps every member, repeated ones too.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Number;

use super::{Fault, KeyPath, MAX_MANIFEST_BYTES, ManifestError};

/// A JSON value whose objects are lists of members in the order of the text.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    Null,
    Bool(bool),
    Number(Number),
    String(String),
    Array(Vec<Node>),
    Object(Vec<(String, Node)>),
}

/// Reads the text as one JSON value in which no object has a repeated member
/// name (control protocol 1.1).
pub(super) fn parse(text: &[u8]) -> Result<Node, ManifestError> {
    let fail = |fault| ManifestError {
        path: KeyPath::root(),
        fault,
    };
    if text.len() > MAX_MANIFEST_BYTES {
        return Err(fail(Fault::TooLarge { bytes: text.len() }));
    }
    if text.starts_with("\u{feff}".as_bytes()) {
        return Err(fail(Fault::ByteOrderMark));
    }
    let text = std::str::from_utf8(text).map_err(|error| {
        fail(Fault::NotUtf8 {
            offset: error.valid_up_to(),
        })
    })?;
    let root: Node = serde_json::from_str(text).map_err(|error| {
        fail(Fault::Syntax {
            reason: error.to_string(),
        })
    })?;
    match root.first_duplicate(&KeyPath::root()) {
        Some(path) => Err(ManifestError {
            path,
            fault: Fault::DuplicateMember,
        }),
        None => Ok(root),
    }
}

impl Node {
    /// The JSON type with its article.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::String(_) => "a string",
            Self::Array(_) => "an array",
            Self::Object(_) => "an object",
        }
    }

    /// The first member, in the order of the text, whose name its object has
    /// already. The depth was bounded by the parser.
    fn first_duplicate(&self, path: &KeyPath) -> Option<KeyPath> {
        match self {
            Self::Array(items) => items
                .iter()
                .enumerate()
                .filter(|(_, item)| item.is_container())
                .find_map(|(position, item)| item.first_duplicate(&path.index(position))),
            Self::Object(members) => {
                let mut names = BTreeSet::new();
                members.iter().find_map(|(name, value)| {
                    if !names.insert(name) {
                        return Some(path.key(name));
                    }
                    value
                        .is_container()
                        .then(|| value.first_duplicate(&path.key(name)))?
                })
            }
            _ => None,
        }
    }

    fn is_container(&self) -> bool {
        matches!(self, Self::Array(_) | Self::Object(_))
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Number(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Node, E> {
        let number = Number::from_f64(value);
        number
            .map(Node::Number)
            .ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Node, E> {
        Ok(Node::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element()? {
            array.push(item);
        }
        Ok(Node::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Node, A::Error> {
        let mut object = Vec::new();
        while let Some(member) = members.next_entry()? {
            object.push(member);
        }
        Ok(Node::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &[u8]) -> String {
        match parse(text) {
            Ok(node) => format!("accepted {node:?}"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn repeated_names_are_found_at_every_level() {
        for (text, path) in [
            (r#"{"a":1,"a":1}"#, "a"),
            (r#"{"a":{"b":1,"c":2,"b":1}}"#, "a.b"),
            (r#"{"a":[0,{"b":[{"c":1,"c":null}]}]}"#, "a[1].b[0].c"),
            (r#"{"a":1,"\u0061":2}"#, "a"),
        ] {
            let expected = format!("{path}: appears more than once in its object");
            assert_eq!(refusal(text.as_bytes()), expected);
        }
        assert!(parse(br#"{"a":{"b":1},"b":{"a":1}}"#).is_ok());
    }

    #[test]
    fn the_text_is_one_utf8_value_without_a_byte_order_mark() {
        let syntax = "manifest: is not one JSON value: ";
        assert_eq!(
            refusal(b"{} {}"),
            format!("{syntax}trailing characters at line 1 column 4")
        );
        assert!(refusal(b"").starts_with(syntax));
        assert!(refusal(b"{\"a\":1e400}").starts_with(syntax));
        assert!(refusal(b"{\"a\":NaN}").starts_with(syntax));
        assert!(refusal("[".repeat(1000).as_bytes()).starts_with(syntax));
        assert_eq!(
            refusal(b"\xef\xbb\xbf{}"),
            "manifest: starts with a byte order mark; it must be plain UTF-8"
        );
        assert_eq!(
            refusal(b"{\"\xff\":1}"),
            "manifest: is not valid UTF-8 at byte 2"
        );
    }

    #[test]
    fn the_size_limit_is_1_mib() {
        let mut text = b"{}".to_vec();
        text.resize(MAX_MANIFEST_BYTES, b' ');
        assert_eq!(parse(&text), Ok(Node::Object(Vec::new())));
        text.push(b' ');
        assert_eq!(
            refusal(&text),
            "manifest: is 1048577 bytes long; at most 1048576 are allowed"
        );
    }
}
