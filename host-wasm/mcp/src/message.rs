//! Lines to messages (MCP 2.1, 2.3).

use pyproc_protocol::json::{self, JsonError};
use serde_json::{Map, Value};

use crate::error::{Reason, Refusal};
use crate::frame::{self, MAX_LINE};
use crate::id::Id;

/// How deep arrays and objects of a line may be nested.
pub const MAX_NESTING: usize = 128;

/// A request, well formed but for its parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Its id.
    pub id: Id,
    /// Its method.
    pub method: String,
    /// Its parameters, `null` when it has none.
    pub params: Value,
}

/// One message.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// A request.
    Request(Request),
    /// A message without id.
    Notification {
        /// Its method.
        method: String,
        /// Its parameters, `null` when it has none.
        params: Value,
    },
    /// An answer to a request; this side sends none.
    Response,
}

/// What a line is.
#[derive(Clone, Debug, PartialEq)]
pub enum Incoming {
    /// Nothing.
    Blank,
    /// One message.
    Message(Message),
    /// Several, to be judged one by one.
    Batch(Vec<Value>),
}

/// Reads one line without its end.
///
/// # Errors
///
/// The [`Refusal`] that answers it.
pub fn read(line: &[u8]) -> Result<Incoming, Refusal> {
    let line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
    if line.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r')) {
        return Ok(Incoming::Blank);
    }
    let value = json::parse(line, MAX_NESTING).map_err(|error| match error {
        JsonError::NotUtf8 => {
            Refusal::new(Reason::NotUtf8, "the line is not valid UTF-8").of(frame::recover_id(line))
        }
        JsonError::NestingTooDeep { limit } => {
            let message = format!("the line nests arrays and objects deeper than {limit}");
            Refusal::new(Reason::NestingTooDeep, message)
                .with("limit", limit)
                .of(frame::recover_id(line))
        }
        JsonError::ByteOrderMark | JsonError::NotJson { .. } => {
            Refusal::new(Reason::NotJson, "the line is not one JSON value")
        }
    })?;
    match value {
        Value::Array(elements) => Ok(Incoming::Batch(elements)),
        value => message(value).map(Incoming::Message),
    }
}

/// The answer to a line that is longer than a line may be.
#[must_use]
pub fn too_long(id: Option<Id>) -> Refusal {
    let message = format!("the line is longer than {MAX_LINE} bytes");
    Refusal::new(Reason::LineTooLong, message)
        .with("limitBytes", MAX_LINE)
        .of(id)
}

/// Reads one message that is not a batch.
///
/// # Errors
///
/// The [`Refusal`] that answers it.
pub fn message(value: Value) -> Result<Message, Refusal> {
    let Value::Object(mut members) = value else {
        let message = "a message must be a JSON object";
        return Err(Refusal::new(Reason::NotARequest, message));
    };
    let answers = members.contains_key("result") || members.contains_key("error");
    if answers && !members.contains_key("method") {
        return Ok(Message::Response);
    }
    let id = members.remove("id");
    let known = id.as_ref().and_then(Id::of);
    let method = method(&mut members, answers).map_err(|refusal| refusal.of(known.clone()))?;
    let params = members.remove("params").unwrap_or_default();
    match (id, known) {
        (None, _) => Ok(Message::Notification { method, params }),
        (Some(_), Some(id)) => Ok(Message::Request(Request { id, method, params })),
        (Some(_), None) => Err(Refusal::new(
            Reason::IdInvalid,
            format!(
                "id must be an integer or a string of at most {} bytes",
                Id::MAX_TEXT
            ),
        )),
    }
}

fn method(members: &mut Map<String, Value>, answers: bool) -> Result<String, Refusal> {
    let refused = |message: &str| Err(Refusal::new(Reason::NotARequest, message));
    if members.get("jsonrpc") != Some(&Value::from("2.0")) {
        return refused("jsonrpc must be \"2.0\"");
    }
    match members.remove("method") {
        Some(Value::String(method)) if !answers => Ok(method),
        Some(Value::String(_)) => refused("a message has a method, or a result or error"),
        _ => refused("method must be a string"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn refused(line: &str) -> (Option<String>, Option<Id>) {
        let refusal = read(line.as_bytes()).unwrap_err();
        (refusal.reason().map(str::to_owned), refusal.id)
    }

    fn request(id: Id, method: &str, params: Value) -> Incoming {
        Incoming::Message(Message::Request(Request {
            id,
            method: method.to_owned(),
            params,
        }))
    }

    #[test]
    fn byte_order_marks_and_blanks_are_as_if_absent() {
        for line in ["", "  \t\r", "\u{feff}", "\u{feff} "] {
            assert_eq!(read(line.as_bytes()).unwrap(), Incoming::Blank);
        }
        let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let expected = request(Id::Integer(1), "ping", Value::Null);
        assert_eq!(read(ping.as_bytes()).unwrap(), expected);
        assert_eq!(
            read(format!("\u{feff}{ping}").as_bytes()).unwrap(),
            expected
        );
    }

    #[test]
    fn unknown_members_are_ignored_and_ids_are_echoed_as_integers() {
        let line = r#"{"jsonrpc":"2.0","id":7.0,"method":"a/b","params":{"x":1},"more":[]}"#;
        let expected = request(Id::Integer(7), "a/b", json!({"x": 1}));
        assert_eq!(read(line.as_bytes()).unwrap(), expected);
    }

    #[test]
    fn what_is_no_message_is_refused_with_its_id_where_that_is_readable() {
        let four = Some(Id::Integer(4));
        for (line, reason, id) in [
            ("{bad", "notJson", None),
            ("{} {}", "notJson", None),
            ("\0", "notJson", None),
            (r#"{"id":4"#, "notJson", None),
            ("null", "notARequest", None),
            ("5", "notARequest", None),
            ("\"x\"", "notARequest", None),
            ("true", "notARequest", None),
            ("{}", "notARequest", None),
            (
                r#"{"jsonrpc":"1.0","id":4,"method":"ping"}"#,
                "notARequest",
                four.clone(),
            ),
            (r#"{"id":4,"method":"ping"}"#, "notARequest", four.clone()),
            (
                r#"{"jsonrpc":"2.0","id":4,"method":5}"#,
                "notARequest",
                four.clone(),
            ),
            (r#"{"jsonrpc":"2.0","id":4}"#, "notARequest", four.clone()),
            (
                r#"{"jsonrpc":"2.0","id":4,"method":"a","result":1}"#,
                "notARequest",
                four,
            ),
            (
                r#"{"jsonrpc":"2.0","id":[],"method":5}"#,
                "notARequest",
                None,
            ),
            (
                r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
                "idInvalid",
                None,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#,
                "idInvalid",
                None,
            ),
            (
                r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#,
                "idInvalid",
                None,
            ),
            (
                r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#,
                "idInvalid",
                None,
            ),
            (
                r#"{"jsonrpc":"2.0","id":9007199254740992,"method":"ping"}"#,
                "idInvalid",
                None,
            ),
        ] {
            assert_eq!(refused(line), (Some(reason.to_owned()), id), "{line}");
        }
    }

    #[test]
    fn bad_utf8_and_deep_nesting_keep_the_id() {
        let refusal = read(b"{\"id\":5,\"a\":\"\xff\"}").unwrap_err();
        assert_eq!(
            (refusal.code(), refusal.reason()),
            (-32700, Some("notUtf8"))
        );
        assert_eq!(refusal.id, Some(Id::Integer(5)));
        for depth in [MAX_NESTING, 1_000_000] {
            let (open, close) = ("[".repeat(depth), "]".repeat(depth));
            let line = format!(r#"{{"jsonrpc":"2.0","id":5,"method":"a","params":{open}{close}}}"#);
            let expected = (Some("nestingTooDeep".to_owned()), Some(Id::Integer(5)));
            assert_eq!(refused(&line), expected);
        }
        let (open, close) = ("[".repeat(127), "]".repeat(127));
        let line = format!(r#"{{"jsonrpc":"2.0","id":5,"method":"a","params":{open}{close}}}"#);
        assert!(read(line.as_bytes()).is_ok());
    }

    #[test]
    fn answers_and_messages_without_id_are_told_apart() {
        for line in [
            r#"{"jsonrpc":"2.0","id":9,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":null,"error":{}}"#,
            r#"{"error":1}"#,
        ] {
            let expected = Incoming::Message(Message::Response);
            assert_eq!(read(line.as_bytes()).unwrap(), expected);
        }
        let line = r#"{"jsonrpc":"2.0","method":"tools/call"}"#;
        let expected = Message::Notification {
            method: "tools/call".to_owned(),
            params: Value::Null,
        };
        assert_eq!(read(line.as_bytes()).unwrap(), Incoming::Message(expected));
    }

    #[test]
    fn half_a_surrogate_pair_is_a_replacement_character() {
        let line = r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"code":"\ud800"}}"#;
        let expected = request(Id::Integer(1), "a", json!({"code": "\u{fffd}"}));
        assert_eq!(read(line.as_bytes()).unwrap(), expected);
    }

    #[test]
    fn a_refusal_of_a_long_line_names_the_limit() {
        let refusal = too_long(Some(Id::Integer(5))).to_json(true);
        assert_eq!(refusal["error"]["data"]["limitBytes"], 8_388_608);
        assert_eq!(refusal["id"], 5);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes);
        }

        #[test]
        fn changed_messages_are_read_or_refused(
            at in 0_usize..60,
            byte in any::<u8>(),
        ) {
            let mut line = br#"{"jsonrpc":"2.0","id":12,"method":"ping","params":{"a":[1]}}"#.to_vec();
            let place = at % line.len();
            line[place] = byte;
            if let Err(refusal) = read(&line) {
                prop_assert!(refusal.reason().is_some());
            }
        }
    }
}
