//! Host to page (control protocol 6.3, machine 14).

use serde::Serialize;
use serde_json::{Map, Value};

use super::{BridgeError, BridgeId, PageEpoch, decode_object};
use crate::json::{self, EncodeError};
use crate::limits;
use crate::members::{MemberError, Members};
use crate::types::OperationName;

/// What the host tells its page.
#[derive(Clone, Debug, PartialEq)]
pub enum HostMessage {
    /// Execute an operation and answer with one result.
    Command {
        /// Made by the host.
        request_id: BridgeId,
        /// The page load that the command is for.
        page_epoch: PageEpoch,
        /// The operation.
        operation: OperationName,
        /// Its input, at most 64 deep.
        input: Map<String, Value>,
    },
    /// Start the interrupt ladder for a command that was sent before. The
    /// command still gets its result.
    Interrupt {
        /// The command.
        request_id: BridgeId,
        /// The page load that the command was for.
        page_epoch: PageEpoch,
        /// Milliseconds until the worker is killed, 0 to 60 000; the machine's
        /// default when absent.
        grace_ms: Option<u32>,
    },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CommandMembers<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    request_id: &'a BridgeId,
    page_epoch: &'a PageEpoch,
    operation: &'a OperationName,
    input: &'a Map<String, Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InterruptMembers<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    request_id: &'a BridgeId,
    page_epoch: &'a PageEpoch,
    #[serde(skip_serializing_if = "Option::is_none")]
    grace_ms: Option<u32>,
}

const COMMAND: &str = "command";
const INTERRUPT: &str = "interrupt";

impl HostMessage {
    /// Reads a message of the host.
    ///
    /// # Errors
    /// [`BridgeError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, BridgeError> {
        let (kind, members) = decode_object(bytes)?;
        match kind.as_str() {
            COMMAND => Ok(Self::decode_command(members)?),
            INTERRUPT => Ok(Self::decode_interrupt(members)?),
            _ => Err(MemberError::new("type must be command or interrupt").into()),
        }
    }

    fn decode_command(members: Map<String, Value>) -> Result<Self, MemberError> {
        let required = ["requestId", "pageEpoch", "operation", "input"];
        let mut command = Members::closed("", members, &required, &[])?;
        Ok(Self::Command {
            request_id: command.text("requestId")?,
            page_epoch: command.text("pageEpoch")?,
            operation: command.text("operation")?,
            input: command.json_object("input")?,
        })
    }

    fn decode_interrupt(members: Map<String, Value>) -> Result<Self, MemberError> {
        let mut interrupt =
            Members::closed("", members, &["requestId", "pageEpoch"], &["graceMs"])?;
        let request_id = interrupt.text("requestId")?;
        let page_epoch = interrupt.text("pageEpoch")?;
        let grace_ms = if interrupt.has("graceMs") {
            let limit = u64::from(limits::MAX_INTERRUPT_GRACE_MS);
            u32::try_from(interrupt.integer("graceMs", 0, limit)?).ok()
        } else {
            None
        };
        Ok(Self::Interrupt {
            request_id,
            page_epoch,
            grace_ms,
        })
    }

    /// The message as text.
    ///
    /// # Errors
    /// [`EncodeError::TooLarge`] above 8 MiB.
    pub fn encode(&self) -> Result<String, EncodeError> {
        match self {
            Self::Command {
                request_id,
                page_epoch,
                operation,
                input,
            } => json::encode(
                &CommandMembers {
                    kind: COMMAND,
                    request_id,
                    page_epoch,
                    operation,
                    input,
                },
                limits::MAX_PAGE_MESSAGE,
            ),
            Self::Interrupt {
                request_id,
                page_epoch,
                grace_ms,
            } => json::encode(
                &InterruptMembers {
                    kind: INTERRUPT,
                    request_id,
                    page_epoch,
                    grace_ms: *grace_ms,
                },
                limits::MAX_PAGE_MESSAGE,
            ),
        }
    }
}
