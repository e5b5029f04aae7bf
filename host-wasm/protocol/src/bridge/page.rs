//! Page to host after the handshake (control protocol 6.3, 6.4).

use serde::Serialize;
use serde_json::{Map, Value};

use super::{BridgeError, BridgeId, PageEpoch, decode_object};
use crate::codes;
use crate::error::{ControlError, RawFailure};
use crate::json::{self, EncodeError};
use crate::limits;
use crate::members::{MemberError, Members};
use crate::outcome::{FailureOutcome, SuccessOutcome};
use crate::text;

/// The one answer of a page to a command.
#[derive(Clone, Debug, PartialEq)]
pub struct PageResult {
    /// The command.
    pub request_id: BridgeId,
    /// The page load that executed it.
    pub page_epoch: PageEpoch,
    /// Output of the operation, or why there is none.
    pub result: Result<Map<String, Value>, ControlError>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResultMembers<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    request_id: &'a BridgeId,
    page_epoch: &'a PageEpoch,
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a ControlError>,
}

impl PageResult {
    /// Reads a message that a page sends after its handshake.
    ///
    /// The error of a failed command is normalised like any internal failure:
    /// a code outside of the alphabet becomes `PYPROC_INTERNAL`, the message is
    /// cut to its last 400 UTF-16 code units, `retryable` is subject to the
    /// outcome. Its outcome must be one of the four words, because a page that
    /// does not know it could turn an effect into `notSent`.
    ///
    /// # Errors
    /// [`BridgeError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, BridgeError> {
        let (kind, members) = decode_object(bytes)?;
        if kind != "result" {
            return Err(MemberError::new("type must be result").into());
        }
        Ok(Self::decode_members(members)?)
    }

    fn decode_members(members: Map<String, Value>) -> Result<Self, MemberError> {
        let required = ["requestId", "pageEpoch", "ok"];
        let mut message = Members::closed("", members, &required, &["value", "error"])?;
        let request_id = message.text("requestId")?;
        let page_epoch = message.text("pageEpoch")?;
        let ok = message.boolean("ok")?;
        let foreign = if ok { "error" } else { "value" };
        if message.has(foreign) {
            return Err(message.error(foreign, "contradicts ok"));
        }
        let result = if ok {
            Ok(message.object("value")?)
        } else {
            Err(decode_error(message.object("error")?)?)
        };
        Ok(Self {
            request_id,
            page_epoch,
            result,
        })
    }

    /// The message as text.
    ///
    /// # Errors
    /// [`EncodeError::TooLarge`] above 8 MiB; the page then sends
    /// [`Self::too_large`] in its place.
    pub fn encode(&self) -> Result<String, EncodeError> {
        let members = ResultMembers {
            kind: "result",
            request_id: &self.request_id,
            page_epoch: &self.page_epoch,
            ok: self.result.is_ok(),
            value: self.result.as_ref().ok(),
            error: self.result.as_ref().err(),
        };
        json::encode(&members, limits::MAX_PAGE_MESSAGE)
    }

    /// The answer in place of one that is too large for the bridge: a failure
    /// loses its details, a success of the outcome `success` becomes
    /// `CONTROL_FRAME_TOO_LARGE`.
    #[must_use]
    pub fn too_large(self, success: SuccessOutcome) -> Self {
        let error = match self.result {
            Err(error) => error.without_details(),
            Ok(_) => ControlError::new(
                codes::CONTROL_FRAME_TOO_LARGE,
                success.when_undeliverable(),
                format!(
                    "the result would be longer than {} bytes",
                    limits::MAX_PAGE_MESSAGE
                ),
            ),
        };
        Self {
            result: Err(error),
            ..self
        }
    }
}

fn decode_error(members: Map<String, Value>) -> Result<ControlError, MemberError> {
    let required = ["code", "message", "outcome", "retryable"];
    let mut error = Members::closed("error", members, &required, &["details"])?;
    let code = error.string("code")?;
    let message = error.string("message")?;
    let outcome = error.string("outcome")?;
    if FailureOutcome::from_wire(&outcome).is_none() {
        return Err(error.error("outcome", "is not an outcome of an error"));
    }
    let retryable = error.boolean("retryable")?;
    let details = if error.has("details") {
        Some(Value::Object(error.object("details")?))
    } else {
        None
    };
    Ok(ControlError::normalise(RawFailure {
        code: Some(&code),
        message: Some(text::tail(&message, limits::MAX_PAGE_ERROR_MESSAGE)),
        outcome: Some(&outcome),
        retryable,
        details,
    }))
}
