//! Reading a closed JSON object member by member.

use serde_json::{Map, Value};

use crate::json;
use crate::text::quote;
use crate::types::InvalidText;

/// A member that is unknown, missing, of the wrong type or out of bounds. The
/// text names its path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MemberError(String);

impl MemberError {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// A text type of the wire that is parsed from its text.
pub(crate) trait WireText: Sized {
    fn read(text: &str) -> Result<Self, InvalidText>;
}

impl<T> WireText for T
where
    T: for<'a> TryFrom<&'a str, Error = InvalidText>,
{
    fn read(text: &str) -> Result<Self, InvalidText> {
        Self::try_from(text)
    }
}

/// The members of one closed object that are not taken yet.
#[derive(Debug)]
pub(crate) struct Members {
    path: &'static str,
    members: Map<String, Value>,
}

impl Members {
    /// The members of `members`, named `path` in errors (empty for the frame
    /// itself). Unknown members are refused first, then missing ones.
    pub(crate) fn closed(
        path: &'static str,
        members: Map<String, Value>,
        required: &[&str],
        optional: &[&str],
    ) -> Result<Self, MemberError> {
        let known =
            |name: &String| required.contains(&name.as_str()) || optional.contains(&name.as_str());
        let object = Self { path, members };
        if let Some(unknown) = object.members.keys().find(|name| !known(name)) {
            let place = if path.is_empty() { "the message" } else { path };
            return Err(MemberError(format!(
                "{place} has the unknown member {}",
                quote(unknown)
            )));
        }
        match required
            .iter()
            .find(|name| !object.members.contains_key(**name))
        {
            Some(missing) => Err(object.error(missing, "is missing")),
            None => Ok(object),
        }
    }

    /// An error about the member `name`.
    pub(crate) fn error(&self, name: &str, problem: &str) -> MemberError {
        let dot = if self.path.is_empty() { "" } else { "." };
        MemberError(format!("{}{dot}{name} {problem}", self.path))
    }

    /// Whether the member is there (null counts as there).
    pub(crate) fn has(&self, name: &str) -> bool {
        self.members.contains_key(name)
    }

    /// Takes the member as it is.
    pub(crate) fn value(&mut self, name: &str) -> Result<Value, MemberError> {
        self.members
            .remove(name)
            .ok_or_else(|| self.error(name, "is missing"))
    }

    /// Takes a value of bounded depth (control protocol 3.2, Json).
    pub(crate) fn json(&mut self, name: &str) -> Result<Value, MemberError> {
        let value = self.value(name)?;
        if json::depth_within(&value, crate::limits::MAX_JSON_DEPTH) {
            Ok(value)
        } else {
            Err(self.error(name, "is nested deeper than 64"))
        }
    }

    /// Takes an object of bounded depth.
    pub(crate) fn json_object(&mut self, name: &str) -> Result<Map<String, Value>, MemberError> {
        match self.json(name)? {
            Value::Object(members) => Ok(members),
            _ => Err(self.error(name, "must be an object")),
        }
    }

    /// Takes a nested object whose members are read by the caller.
    pub(crate) fn object(&mut self, name: &str) -> Result<Map<String, Value>, MemberError> {
        match self.value(name)? {
            Value::Object(members) => Ok(members),
            _ => Err(self.error(name, "must be an object")),
        }
    }

    pub(crate) fn array(&mut self, name: &str) -> Result<Vec<Value>, MemberError> {
        match self.value(name)? {
            Value::Array(items) => Ok(items),
            _ => Err(self.error(name, "must be an array")),
        }
    }

    pub(crate) fn string(&mut self, name: &str) -> Result<String, MemberError> {
        match self.value(name)? {
            Value::String(text) => Ok(text),
            _ => Err(self.error(name, "must be a string")),
        }
    }

    /// Takes a string whose length in characters is in `min..=max`.
    pub(crate) fn bounded_string(
        &mut self,
        name: &str,
        min: usize,
        max: usize,
    ) -> Result<String, MemberError> {
        let text = self.string(name)?;
        // The byte count bounds the character count, so a huge text is not walked.
        let length = if text.len() > max * 4 {
            usize::MAX
        } else {
            text.chars().count()
        };
        if (min..=max).contains(&length) {
            Ok(text)
        } else {
            Err(self.error(name, &format!("must have {min} to {max} characters")))
        }
    }

    pub(crate) fn boolean(&mut self, name: &str) -> Result<bool, MemberError> {
        match self.value(name)? {
            Value::Bool(value) => Ok(value),
            _ => Err(self.error(name, "must be a boolean")),
        }
    }

    /// Takes an integer in `min..=max`; both bounds are within 2^53 - 1.
    pub(crate) fn integer(&mut self, name: &str, min: u64, max: u64) -> Result<u64, MemberError> {
        let integer = match self.value(name)? {
            Value::Number(number) => json::as_integer(&number),
            _ => None,
        };
        integer
            .and_then(|integer| u64::try_from(integer).ok())
            .filter(|integer| (min..=max).contains(integer))
            .ok_or_else(|| self.error(name, &format!("must be an integer from {min} to {max}")))
    }

    /// Takes an identifier.
    pub(crate) fn text<T: WireText>(&mut self, name: &str) -> Result<T, MemberError> {
        let text = self.string(name)?;
        T::read(&text)
            .map_err(|invalid| self.error(name, &format!("is {} but {invalid}", quote(&text))))
    }

    /// Takes an identifier that may be absent but not null.
    pub(crate) fn optional_text<T: WireText>(
        &mut self,
        name: &str,
    ) -> Result<Option<T>, MemberError> {
        if self.has(name) {
            self.text(name).map(Some)
        } else {
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn members(value: Value, required: &[&str], optional: &[&str]) -> Result<Members, MemberError> {
        let Value::Object(map) = value else {
            panic!("an object is wanted")
        };
        Members::closed("peer", map, required, optional)
    }

    #[test]
    fn unknown_members_are_named_before_missing_ones() {
        let error = members(json!({"x":1}), &["name"], &[]).unwrap_err();
        assert_eq!(error.to_string(), "peer has the unknown member \"x\"");
        let error = members(json!({}), &["name"], &[]).unwrap_err();
        assert_eq!(error.to_string(), "peer.name is missing");
    }

    #[test]
    fn lengths_count_characters() {
        let text = "\u{1f600}".repeat(40);
        let mut object = members(
            json!({"a":text, "b":format!("{text}x"), "c":""}),
            &[],
            &["a", "b", "c"],
        )
        .unwrap();
        assert_eq!(object.bounded_string("a", 1, 40).unwrap(), text);
        assert!(object.bounded_string("b", 1, 40).is_err());
        assert_eq!(
            object.bounded_string("c", 1, 40).unwrap_err().to_string(),
            "peer.c must have 1 to 40 characters"
        );
    }

    #[test]
    fn integers_are_bounded_and_never_booleans() {
        let value = json!({"a":1.0, "b":true, "c":"1", "d":0, "e":1.5, "f":-1});
        let mut object = members(value, &[], &["a", "b", "c", "d", "e", "f"]).unwrap();
        assert_eq!(object.integer("a", 1, 5).unwrap(), 1);
        for name in ["b", "c", "d", "e", "f"] {
            assert_eq!(
                object.integer(name, 1, 5).unwrap_err().to_string(),
                format!("peer.{name} must be an integer from 1 to 5")
            );
        }
    }

    #[test]
    fn null_is_not_absent() {
        let mut object = members(json!({"id":null}), &[], &["id", "other"]).unwrap();
        assert!(object.optional_text::<crate::RequestId>("id").is_err());
        assert_eq!(
            object.optional_text::<crate::RequestId>("other").unwrap(),
            None
        );
    }
}
