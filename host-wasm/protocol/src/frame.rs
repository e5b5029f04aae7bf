//! The frames of one connection (control protocol 3.4 to 3.8).

use serde_json::{Map, Value};

use crate::codes;
use crate::error::FatalError;
use crate::json::{self, EncodeError};
use crate::limits;
use crate::text::quote;

mod attachment;
mod error;
mod hello;
mod request;
mod response;

pub use attachment::{AttachmentFrame, StreamEnd};
pub use error::ErrorFrame;
pub use hello::{Capabilities, ChunkLimit, Hello, Peer, Role};
pub use request::{Cancel, Request};
pub use response::{Descriptor, Event, Response};

pub(crate) use attachment::Chunk;
pub(crate) use error::encode_terminal;

/// One frame of either direction.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    /// First frame of each side.
    Hello(Hello),
    /// Client to server: do something.
    Request(Request),
    /// Client to server: stop doing it.
    Cancel(Cancel),
    /// Server to client: it was done.
    Response(Response),
    /// Server to client: it failed, or the connection did.
    Error(ErrorFrame),
    /// Server to client: part of an attachment.
    Attachment(AttachmentFrame),
    /// Server to client: something happened.
    Event(Event),
}

impl Frame {
    /// Reads the frame on `line`, which has no terminator.
    ///
    /// The checks run in the order of control protocol 3.4, steps 1 to 7; phase
    /// and direction (step 8) belong to the conversation. Nesting beyond
    /// [`limits::MAX_NESTING`] is found in step 2, before anything recursive.
    ///
    /// # Errors
    /// [`FatalError`] with the code of the first check that fails.
    pub fn decode(line: &[u8]) -> Result<Self, FatalError> {
        if line.len() > limits::MAX_INBOUND_FRAME {
            return Err(FatalError::frame_too_large(limits::MAX_INBOUND_FRAME));
        }
        let Value::Object(mut members) = json::parse(line, limits::MAX_NESTING)? else {
            return Err(FatalError::invalid_frame("the line is not a JSON object"));
        };
        if members.remove("protocol") != Some(Value::from(limits::PROTOCOL)) {
            return Err(FatalError::invalid_frame(
                "protocol must be \"pyproc-control\"",
            ));
        }
        if !is_version(members.remove("version").as_ref()) {
            return Err(FatalError::new(
                codes::CONTROL_VERSION_UNSUPPORTED,
                "version must be the integer 1",
            ));
        }
        let Some(Value::String(kind)) = members.remove("type") else {
            return Err(FatalError::invalid_frame("type must be a string"));
        };
        Self::decode_members(&kind, members)
    }

    fn decode_members(kind: &str, members: Map<String, Value>) -> Result<Self, FatalError> {
        match kind {
            "hello" => Ok(Self::Hello(Hello::decode(members)?)),
            "request" => Ok(Self::Request(Request::decode(members)?)),
            "cancel" => Ok(Self::Cancel(Cancel::decode(members)?)),
            "response" => Ok(Self::Response(Response::decode(members)?)),
            "error" => Ok(Self::Error(ErrorFrame::decode(members)?)),
            "attachment" => AttachmentFrame::decode(members).map(Self::Attachment),
            "event" => Ok(Self::Event(Event::decode(members)?)),
            other => Err(FatalError::invalid_frame(format!(
                "type {} is unknown",
                quote(other)
            ))),
        }
    }

    /// The frame as a line without its terminator.
    ///
    /// # Errors
    /// [`EncodeError::TooLarge`] when the line would be longer than
    /// [`limits::MAX_OUTBOUND_FRAME`].
    pub fn encode(&self) -> Result<String, EncodeError> {
        match self {
            Self::Hello(frame) => frame.encode(),
            Self::Request(frame) => frame.encode(),
            Self::Cancel(frame) => frame.encode(),
            Self::Response(frame) => frame.encode(),
            Self::Error(frame) => frame.encode(),
            Self::Attachment(frame) => frame.encode(),
            Self::Event(frame) => frame.encode(),
        }
    }

    /// The `type` member.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Hello(_) => "hello",
            Self::Request(_) => "request",
            Self::Cancel(_) => "cancel",
            Self::Response(_) => "response",
            Self::Error(_) => "error",
            Self::Attachment(_) => "attachment",
            Self::Event(_) => "event",
        }
    }
}

fn is_version(value: Option<&Value>) -> bool {
    match value {
        Some(Value::Number(number)) => {
            json::as_integer(number).and_then(|version| u64::try_from(version).ok())
                == Some(limits::VERSION)
        }
        _ => false,
    }
}

/// The three members that every frame starts with, in a struct that is
/// serialised in front of the frame's own members.
#[derive(Clone, Copy, Debug, serde::Serialize)]
struct Wire<T> {
    protocol: &'static str,
    version: u64,
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(flatten)]
    members: T,
}

/// The line of the frame type `kind` with these members.
fn encode_members<T: serde::Serialize>(
    kind: &'static str,
    members: T,
) -> Result<String, EncodeError> {
    let wire = Wire {
        protocol: limits::PROTOCOL,
        version: limits::VERSION,
        kind,
        members,
    };
    json::encode(&wire, limits::MAX_OUTBOUND_FRAME)
}
