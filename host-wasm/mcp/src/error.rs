//! What is refused before it becomes a call: JSON-RPC errors (MCP 1.8).

use serde_json::{Map, Value, json};

use crate::id::Id;

/// The stable part of a refusal, `data.reason` on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Not one JSON value.
    NotJson,
    /// Not UTF-8.
    NotUtf8,
    /// Longer than a line may be.
    LineTooLong,
    /// Arrays and objects nested too deep.
    NestingTooDeep,
    /// An array where the version has no batches, or something that has no
    /// place in one.
    BatchNotAllowed,
    /// A batch without elements.
    EmptyBatch,
    /// A batch with too many elements.
    BatchTooLong,
    /// JSON that is no message.
    NotARequest,
    /// An id that is neither an integer nor a string of bounded length.
    IdInvalid,
    /// The id of a request that has no answer yet.
    IdInUse,
    /// An id that an earlier request had.
    IdReused,
    /// A second `initialize`.
    AlreadyInitialized,
    /// No such method.
    MethodNotFound,
    /// A request without a version before any was negotiated.
    NotInitialized,
    /// Required metadata is absent or malformed.
    MetaInvalid,
    /// Parameters of the wrong kind.
    ParamsInvalid,
    /// No such tool.
    UnknownTool,
    /// There is no second page.
    CursorInvalid,
    /// Not a log level.
    LevelInvalid,
    /// A defect of the adapter.
    AdapterFailure,
}

impl Reason {
    /// The JSON-RPC code.
    #[must_use]
    pub const fn code(self) -> i32 {
        match self {
            Self::NotJson | Self::NotUtf8 => -32700,
            Self::LineTooLong
            | Self::NestingTooDeep
            | Self::BatchNotAllowed
            | Self::EmptyBatch
            | Self::BatchTooLong
            | Self::NotARequest
            | Self::IdInvalid
            | Self::IdInUse
            | Self::IdReused
            | Self::AlreadyInitialized => -32600,
            Self::MethodNotFound => -32601,
            Self::NotInitialized
            | Self::MetaInvalid
            | Self::ParamsInvalid
            | Self::UnknownTool
            | Self::CursorInvalid
            | Self::LevelInvalid => -32602,
            Self::AdapterFailure => -32603,
        }
    }

    /// The name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotJson => "notJson",
            Self::NotUtf8 => "notUtf8",
            Self::LineTooLong => "lineTooLong",
            Self::NestingTooDeep => "nestingTooDeep",
            Self::BatchNotAllowed => "batchNotAllowed",
            Self::EmptyBatch => "emptyBatch",
            Self::BatchTooLong => "batchTooLong",
            Self::NotARequest => "notARequest",
            Self::IdInvalid => "idInvalid",
            Self::IdInUse => "idInUse",
            Self::IdReused => "idReused",
            Self::AlreadyInitialized => "alreadyInitialized",
            Self::MethodNotFound => "methodNotFound",
            Self::NotInitialized => "notInitialized",
            Self::MetaInvalid => "metaInvalid",
            Self::ParamsInvalid => "paramsInvalid",
            Self::UnknownTool => "unknownTool",
            Self::CursorInvalid => "cursorInvalid",
            Self::LevelInvalid => "levelInvalid",
            Self::AdapterFailure => "adapterFailure",
        }
    }
}

/// Code of a version that the server does not speak.
const UNSUPPORTED_VERSION: i32 = -32022;

/// One refusal. Its message never repeats arguments.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// The request it answers; none when that cannot be told.
    pub id: Option<Id>,
    fault: Box<Fault>,
}

#[derive(Clone, Debug, PartialEq)]
struct Fault {
    code: i32,
    message: String,
    data: Map<String, Value>,
}

impl Refusal {
    /// A refusal that answers no request in particular.
    #[must_use]
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        let reason_member = ("reason".to_owned(), reason.name().into());
        Self {
            id: None,
            fault: Box::new(Fault {
                code: reason.code(),
                message: message.into(),
                data: Map::from_iter([reason_member]),
            }),
        }
    }

    /// A version that the server does not speak in this way. There is no
    /// reason member: the protocol defines the data.
    #[must_use]
    pub fn unsupported_version(supported: &[&str], requested: &str) -> Self {
        let data = [
            ("supported".to_owned(), json!(supported)),
            ("requested".to_owned(), requested.into()),
        ];
        Self {
            id: None,
            fault: Box::new(Fault {
                code: UNSUPPORTED_VERSION,
                message: "Unsupported protocol version".to_owned(),
                data: Map::from_iter(data),
            }),
        }
    }

    /// The same as the answer to a request.
    #[must_use]
    pub fn of(mut self, id: Option<Id>) -> Self {
        self.id = id;
        self
    }

    /// The same with one more member of `data`.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.fault.data.insert(name.to_owned(), value.into());
        self
    }

    /// The stable part; none for an unsupported version.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.fault.data.get("reason")?.as_str()
    }

    /// The JSON-RPC code.
    #[must_use]
    pub fn code(&self) -> i32 {
        self.fault.code
    }

    /// The response. Without an id there is the member `"id":null` where the
    /// version wants one (MCP 2.4).
    #[must_use]
    pub fn to_json(&self, null_id: bool) -> Value {
        let mut response = Map::from_iter([("jsonrpc".to_owned(), "2.0".into())]);
        match &self.id {
            Some(id) => {
                response.insert("id".to_owned(), id.to_json());
            }
            None if null_id => {
                response.insert("id".to_owned(), Value::Null);
            }
            None => {}
        }
        let Fault {
            code,
            message,
            data,
        } = &*self.fault;
        let error = json!({"code": code, "message": message, "data": data});
        response.insert("error".to_owned(), error);
        Value::Object(response)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_its_members_in_order_and_its_id_as_the_version_wants_it() {
        let refusal = Refusal::new(Reason::LineTooLong, "too long").with("limitBytes", 5);
        let error = r#""error":{"code":-32600,"message":"too long","data":{"reason":"lineTooLong","limitBytes":5}}"#;
        let json = |refusal: &Refusal, null: bool| refusal.to_json(null).to_string();
        assert_eq!(
            json(&refusal, true),
            format!(r#"{{"jsonrpc":"2.0","id":null,{error}}}"#)
        );
        assert_eq!(
            json(&refusal, false),
            format!(r#"{{"jsonrpc":"2.0",{error}}}"#)
        );
        let own = refusal.of(Some(Id::Integer(4)));
        for null in [true, false] {
            assert_eq!(
                json(&own, null),
                format!(r#"{{"jsonrpc":"2.0","id":4,{error}}}"#)
            );
        }
    }

    #[test]
    fn an_unsupported_version_has_exactly_the_data_of_the_protocol() {
        let refusal = Refusal::unsupported_version(&["2026-07-28"], "1900-01-01");
        assert_eq!(refusal.reason(), None);
        let error = &refusal.to_json(false)["error"];
        assert_eq!(error["code"], -32022);
        assert_eq!(error["message"], "Unsupported protocol version");
        let data = json!({"supported": ["2026-07-28"], "requested": "1900-01-01"});
        assert_eq!(error["data"], data);
    }
}
