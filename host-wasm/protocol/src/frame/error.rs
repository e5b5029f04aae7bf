//! `error`, the terminal of a failed request or the last frame of a failed
//! connection (control protocol 3.8, 3.12).

use serde::Serialize;
use serde_json::{Map, Value};

use super::{Descriptor, encode_members};
use crate::error::{ControlError, FatalError};
use crate::json::EncodeError;
use crate::limits;
use crate::members::{MemberError, Members};
use crate::outcome::FailureOutcome;
use crate::types::RequestId;

/// Server to client: a failure.
#[derive(Clone, Debug, PartialEq)]
pub enum ErrorFrame {
    /// The terminal of a request.
    Request {
        /// The request that ends.
        request_id: RequestId,
        /// Why.
        error: ControlError,
        /// Streams that were sent before; this product sends none.
        attachments: Vec<Descriptor>,
    },
    /// The end of the connection.
    Fatal(ControlError),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ErrorMembers<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a RequestId>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    fatal: bool,
    error: &'a ControlError,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    attachments: &'a [Descriptor],
}

impl ErrorFrame {
    pub(super) fn decode(members: Map<String, Value>) -> Result<Self, MemberError> {
        let optional = ["requestId", "fatal", "attachments"];
        let mut frame = Members::closed("", members, &["error"], &optional)?;
        if frame.has("fatal") {
            if !frame.boolean("fatal")? {
                return Err(frame.error("fatal", "must be true or absent"));
            }
            if let Some(name) = ["requestId", "attachments"]
                .iter()
                .find(|name| frame.has(name))
            {
                return Err(frame.error(name, "does not belong to a fatal error"));
            }
            return Ok(Self::Fatal(ControlError::decode(frame.object("error")?)?));
        }
        Ok(Self::Request {
            request_id: frame.text("requestId")?,
            error: ControlError::decode(frame.object("error")?)?,
            attachments: Descriptor::decode_list(&mut frame)?,
        })
    }

    pub(super) fn encode(&self) -> Result<String, EncodeError> {
        let members = match self {
            Self::Request {
                request_id,
                error,
                attachments,
            } => ErrorMembers {
                request_id: Some(request_id),
                fatal: false,
                error,
                attachments,
            },
            Self::Fatal(error) => ErrorMembers {
                request_id: None,
                fatal: true,
                error,
                attachments: &[],
            },
        };
        encode_members("error", members)
    }
}

impl<'a> ErrorMembers<'a> {
    fn of_request(request_id: &'a RequestId, error: &'a ControlError) -> Self {
        Self {
            request_id: Some(request_id),
            fatal: false,
            error,
            attachments: &[],
        }
    }
}

impl FatalError {
    /// The fatal frame as a line without its terminator, the last one of the
    /// connection (control protocol 3.10).
    #[must_use]
    pub fn to_line(&self) -> String {
        let error = self.to_control_error();
        let members = ErrorMembers {
            request_id: None,
            fatal: true,
            error: &error,
            attachments: &[],
        };
        encode_bounded(members)
    }
}

/// The error terminal of `request_id` as a line without its terminator. An
/// error that is too large for one frame loses its details (control protocol
/// 3.14); the error that was encoded is returned with the line.
pub(crate) fn encode_terminal(
    request_id: &RequestId,
    error: ControlError,
) -> (ControlError, String) {
    match encode_members("error", ErrorMembers::of_request(request_id, &error)) {
        Ok(line) => (error, line),
        Err(_) => {
            let error = error.without_details();
            let line = encode_bounded(ErrorMembers::of_request(request_id, &error));
            (error, line)
        }
    }
}

/// The line of an error without details and attachments.
#[expect(
    clippy::expect_used,
    reason = "an id has at most 128 bytes, a code 96, and a message 2000 characters of at most \
              12 bytes each when escaped, so the frame is far below the limit"
)]
fn encode_bounded(members: ErrorMembers<'_>) -> String {
    encode_members("error", members).expect("an error without details fits a frame")
}

impl ControlError {
    /// Reads a canonical error object as strictly as any other member.
    fn decode(members: Map<String, Value>) -> Result<Self, MemberError> {
        let required = ["code", "message", "retryable", "outcome"];
        let mut error = Members::closed("error", members, &required, &["details"])?;
        let code = error.text("code")?;
        let message = error.bounded_string("message", 1, limits::MAX_ERROR_MESSAGE)?;
        let retryable = error.boolean("retryable")?;
        let outcome = FailureOutcome::from_wire(&error.string("outcome")?)
            .ok_or_else(|| error.error("outcome", "is not an outcome of an error"))?;
        let details = if error.has("details") {
            Some(error.json_object("details")?)
        } else {
            None
        };
        Self::from_wire(code, message, retryable, outcome, details)
            .ok_or_else(|| error.error("retryable", "must be false with this outcome"))
    }
}
