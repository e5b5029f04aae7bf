//! `response`, its attachment descriptors, and `event` (control protocol 3.8).

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Map, Value};

use super::encode_members;
use crate::json::EncodeError;
use crate::limits;
use crate::members::{MemberError, Members};
use crate::outcome::SuccessOutcome;
use crate::types::{AttachmentId, AttachmentKind, EventId, EventName, Mime, RequestId, Sha256Hex};

/// Server to client: the terminal of a request that succeeded.
#[derive(Clone, Debug, PartialEq)]
pub struct Response {
    /// The request that ends.
    pub request_id: RequestId,
    /// What became of its effect.
    pub outcome: SuccessOutcome,
    /// Output of the operation, at most 64 deep.
    pub output: Value,
    /// One per attachment stream, in stream order, ids distinct.
    pub attachments: Vec<Descriptor>,
}

/// What a terminal says about one attachment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// Identifier within the request.
    pub attachment_id: AttachmentId,
    /// What the bytes are, for example `screen.capture`.
    pub kind: AttachmentKind,
    /// How the bytes are encoded.
    pub mime_type: Mime,
    /// Length of the whole stream.
    pub byte_length: u64,
    /// Digest of the whole stream.
    pub sha256: Sha256Hex,
}

/// Server to client: something happened. Servers of version 1 send none.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Single-use per connection.
    pub event_id: EventId,
    /// The request that the event is about.
    pub request_id: Option<RequestId>,
    /// What happened.
    pub name: EventName,
    /// Particulars, at most 64 deep.
    pub data: Value,
}

/// Members of a response, borrowed so that large outputs are not copied.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResponseMembers<'a> {
    request_id: &'a RequestId,
    outcome: SuccessOutcome,
    output: &'a Value,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    attachments: &'a [Descriptor],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EventMembers<'a> {
    event_id: &'a EventId,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a RequestId>,
    name: &'a EventName,
    data: &'a Value,
}

impl Response {
    pub(super) fn decode(members: Map<String, Value>) -> Result<Self, MemberError> {
        let required = ["requestId", "outcome", "output"];
        let mut response = Members::closed("", members, &required, &["attachments"])?;
        let request_id = response.text("requestId")?;
        let outcome = SuccessOutcome::from_wire(&response.string("outcome")?)
            .ok_or_else(|| response.error("outcome", "must be \"observed\" or \"applied\""))?;
        let output = response.json("output")?;
        let attachments = Descriptor::decode_list(&mut response)?;
        Ok(Self {
            request_id,
            outcome,
            output,
            attachments,
        })
    }

    pub(super) fn encode(&self) -> Result<String, EncodeError> {
        encode_members(
            "response",
            ResponseMembers {
                request_id: &self.request_id,
                outcome: self.outcome,
                output: &self.output,
                attachments: &self.attachments,
            },
        )
    }
}

impl Descriptor {
    /// Takes the optional member `attachments` of a terminal.
    pub(super) fn decode_list(terminal: &mut Members) -> Result<Vec<Self>, MemberError> {
        if !terminal.has("attachments") {
            return Ok(Vec::new());
        }
        let mut seen = BTreeSet::new();
        terminal
            .array("attachments")?
            .into_iter()
            .map(|item| {
                let Value::Object(members) = item else {
                    return Err(terminal.error("attachments", "must hold objects"));
                };
                let descriptor = Self::decode(members)?;
                if seen.insert(descriptor.attachment_id.clone()) {
                    Ok(descriptor)
                } else {
                    Err(terminal.error("attachments", "must have distinct ids"))
                }
            })
            .collect()
    }

    fn decode(members: Map<String, Value>) -> Result<Self, MemberError> {
        let required = ["attachmentId", "kind", "mimeType", "byteLength", "sha256"];
        let mut descriptor = Members::closed("attachments[]", members, &required, &[])?;
        Ok(Self {
            attachment_id: descriptor.text("attachmentId")?,
            kind: descriptor.text("kind")?,
            mime_type: descriptor.text("mimeType")?,
            byte_length: descriptor.integer("byteLength", 0, limits::MAX_SAFE_UNSIGNED)?,
            sha256: descriptor.text("sha256")?,
        })
    }
}

impl Event {
    pub(super) fn decode(members: Map<String, Value>) -> Result<Self, MemberError> {
        let required = ["eventId", "name", "data"];
        let mut event = Members::closed("", members, &required, &["requestId"])?;
        Ok(Self {
            event_id: event.text("eventId")?,
            request_id: event.optional_text("requestId")?,
            name: event.text("name")?,
            data: event.json("data")?,
        })
    }

    pub(super) fn encode(&self) -> Result<String, EncodeError> {
        encode_members(
            "event",
            EventMembers {
                event_id: &self.event_id,
                request_id: self.request_id.as_ref(),
                name: &self.name,
                data: &self.data,
            },
        )
    }
}
