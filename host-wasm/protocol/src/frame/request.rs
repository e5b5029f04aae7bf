//! `request` and `cancel`, the frames of an open client (control protocol 3.6, 3.7).

use serde::Serialize;
use serde_json::{Map, Value};

use super::encode_members;
use crate::json::EncodeError;
use crate::limits;
use crate::members::{MemberError, Members};
use crate::types::{OperationName, RequestId, SpaceId};

/// Client to server: execute an operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Single-use per connection.
    pub request_id: RequestId,
    /// The operation; it need not be in the catalog.
    pub operation: OperationName,
    /// Input of the operation, at most 64 deep.
    pub input: Map<String, Value>,
    /// The space that the client believes the operation belongs to.
    pub space_id: Option<SpaceId>,
}

/// Client to server: stop executing a request. Not a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cancel {
    /// The request to stop.
    pub request_id: RequestId,
    /// Why, at most 200 characters; `None` when absent or empty.
    pub reason: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RequestMembers<'a> {
    request_id: &'a RequestId,
    operation: &'a OperationName,
    input: &'a Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    space_id: Option<&'a SpaceId>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CancelMembers<'a> {
    request_id: &'a RequestId,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

impl Request {
    pub(super) fn decode(members: Map<String, Value>) -> Result<Self, MemberError> {
        let required = ["requestId", "operation", "input"];
        let mut request = Members::closed("", members, &required, &["spaceId"])?;
        Ok(Self {
            request_id: request.text("requestId")?,
            operation: request.text("operation")?,
            input: request.json_object("input")?,
            space_id: request.optional_text("spaceId")?,
        })
    }

    pub(super) fn encode(&self) -> Result<String, EncodeError> {
        encode_members(
            "request",
            RequestMembers {
                request_id: &self.request_id,
                operation: &self.operation,
                input: &self.input,
                space_id: self.space_id.as_ref(),
            },
        )
    }
}

impl Cancel {
    /// The text that stands for an absent reason.
    pub const DEFAULT_REASON: &'static str = "cancelled by the client";

    pub(super) fn decode(members: Map<String, Value>) -> Result<Self, MemberError> {
        let mut cancel = Members::closed("", members, &["requestId"], &["reason"])?;
        let request_id = cancel.text("requestId")?;
        let reason = if cancel.has("reason") {
            Some(cancel.bounded_string("reason", 0, limits::MAX_CANCEL_REASON)?)
        } else {
            None
        };
        Ok(Self {
            request_id,
            reason: reason.filter(|reason| !reason.is_empty()),
        })
    }

    pub(super) fn encode(&self) -> Result<String, EncodeError> {
        encode_members(
            "cancel",
            CancelMembers {
                request_id: &self.request_id,
                reason: self.reason.as_deref(),
            },
        )
    }
}
