//! The first message of a page (control protocol 6.3).

use serde::Serialize;
use serde_json::{Map, Value};

use super::{BridgeToken, PageEpoch, decode_object};
use crate::codes;
use crate::json::{self, EncodeError};
use crate::limits;
use crate::members::{MemberError, Members};
use crate::text;
use crate::types::{Code, SpaceId};

/// What a page says first.
#[derive(Clone, Debug, PartialEq)]
pub enum Handshake {
    /// The page booted and takes commands.
    Ready {
        /// New per page load.
        page_epoch: PageEpoch,
    },
    /// The page could not boot.
    BootFailed {
        /// Why, at most 400 UTF-16 code units, never empty.
        message: String,
        /// Particulars; `cause` is the `MACHINE_*` code.
        details: Option<Map<String, Value>>,
    },
}

/// Why the first message of a page is refused. The host's state does not
/// change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// The token is missing or wrong.
    #[error("the page did not show its capability")]
    Unauthorized,
    /// Too long, not an object, or another member is wrong.
    #[error("the first message of the page is malformed: {0}")]
    Malformed(MemberError),
}

impl HandshakeError {
    /// The WebSocket close code.
    #[must_use]
    pub const fn close_code(&self) -> u16 {
        match self {
            Self::Unauthorized => 4403,
            Self::Malformed(_) => 4400,
        }
    }

    /// The WebSocket close reason.
    #[must_use]
    pub const fn reason(&self) -> Code {
        match self {
            Self::Unauthorized => codes::CONTROL_BRIDGE_UNAUTHORIZED,
            Self::Malformed(_) => codes::CONTROL_BRIDGE_HANDSHAKE,
        }
    }
}

impl From<MemberError> for HandshakeError {
    fn from(error: MemberError) -> Self {
        Self::Malformed(error)
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReadyMembers<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    protocol: &'static str,
    version: u64,
    page_epoch: &'a PageEpoch,
    space_id: SpaceId,
    token: &'a str,
}

#[derive(Serialize)]
struct BootFailedMembers<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    token: &'a str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<&'a Map<String, Value>>,
}

const READY: &str = "ready";
const BOOT_FAILED: &str = "bootFailed";

impl Handshake {
    /// A boot failure with the end of `message` and, as `details.cause`, the
    /// machine's code.
    #[must_use]
    pub fn boot_failed(message: &str, cause: &Code) -> Self {
        let details = Map::from_iter([("cause".to_owned(), Value::from(cause.as_str()))]);
        Self::BootFailed {
            message: boot_message(message),
            details: Some(details),
        }
    }

    /// Reads the first message of a page, which must carry `token`. The token
    /// is compared before any other member is looked at.
    ///
    /// # Errors
    /// [`HandshakeError`].
    pub fn decode(bytes: &[u8], token: &BridgeToken) -> Result<Self, HandshakeError> {
        if bytes.len() > limits::MAX_HANDSHAKE {
            let text = format!("it is longer than {} bytes", limits::MAX_HANDSHAKE);
            return Err(MemberError::new(text).into());
        }
        let (kind, members) =
            decode_object(bytes).map_err(|error| MemberError::new(error.to_string()))?;
        let shown = members.get("token").and_then(Value::as_str);
        if !shown.is_some_and(|shown| token.matches(shown)) {
            return Err(HandshakeError::Unauthorized);
        }
        match kind.as_str() {
            READY => Self::decode_ready(members),
            BOOT_FAILED => Self::decode_boot_failed(members),
            _ => return Err(MemberError::new("type must be ready or bootFailed").into()),
        }
        .map_err(HandshakeError::Malformed)
    }

    fn decode_ready(members: Map<String, Value>) -> Result<Self, MemberError> {
        let required = ["protocol", "version", "pageEpoch", "spaceId", "token"];
        let mut ready = Members::closed("", members, &required, &[])?;
        if ready.string("protocol")? != limits::PROTOCOL {
            return Err(ready.error("protocol", "must be \"pyproc-control\""));
        }
        ready.integer("version", limits::VERSION, limits::VERSION)?;
        if ready.text::<SpaceId>("spaceId")? != SpaceId::machine() {
            return Err(ready.error("spaceId", "must be \"machine:primary\""));
        }
        Ok(Self::Ready {
            page_epoch: ready.text("pageEpoch")?,
        })
    }

    fn decode_boot_failed(members: Map<String, Value>) -> Result<Self, MemberError> {
        let mut failed = Members::closed("", members, &["token", "message"], &["details"])?;
        let message = boot_message(&failed.string("message")?);
        let details = if failed.has("details") {
            Some(failed.json_object("details")?)
        } else {
            None
        };
        Ok(Self::BootFailed { message, details })
    }

    /// The message as text. Details that do not fit are left out.
    ///
    /// # Errors
    /// [`EncodeError`] never happens for a value that was made by this module;
    /// a message that was put in by hand may be too long.
    pub fn encode(&self, token: &BridgeToken) -> Result<String, EncodeError> {
        let token = token.expose();
        match self {
            Self::Ready { page_epoch } => {
                let members = ReadyMembers {
                    kind: READY,
                    protocol: limits::PROTOCOL,
                    version: limits::VERSION,
                    page_epoch,
                    space_id: SpaceId::machine(),
                    token,
                };
                json::encode(&members, limits::MAX_HANDSHAKE)
            }
            Self::BootFailed { message, details } => {
                let members = |details| BootFailedMembers {
                    kind: BOOT_FAILED,
                    token,
                    message,
                    details,
                };
                json::encode(&members(details.as_ref()), limits::MAX_HANDSHAKE)
                    .or_else(|_| json::encode(&members(None), limits::MAX_HANDSHAKE))
            }
        }
    }
}

fn boot_message(text: &str) -> String {
    match text::tail(text, limits::MAX_PAGE_ERROR_MESSAGE) {
        "" => "the machine page could not boot".to_owned(),
        message => message.to_owned(),
    }
}
