//! The messages between the host and its machine page (control protocol 6.3).
//!
//! Every object is closed and validated in both directions; text with unpaired
//! surrogates reads as U+FFFD.

use serde_json::{Map, Value};

use crate::json::{self, JsonError};
use crate::limits;
use crate::members::MemberError;

mod handshake;
mod host;
mod page;
#[cfg(test)]
mod tests;
mod token;

pub use handshake::{Handshake, HandshakeError};
pub use host::HostMessage;
pub use page::PageResult;
pub use token::BridgeToken;

crate::types::text_type!(
    /// Identifier of a command on the bridge. The host generates it; it is
    /// never a client's request id.
    BridgeId, crate::types::is_id, "an id"
);

crate::types::text_type!(
    /// Identity of one load of the machine page.
    PageEpoch, is_page_epoch, "a page epoch of 1 to 128 bytes"
);

fn is_page_epoch(text: &str) -> bool {
    (1..=128).contains(&text.len())
}

/// A bridge message that is refused; the bridge is to be closed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BridgeError {
    /// Longer than 8 MiB.
    #[error("a bridge message is longer than {} bytes", limits::MAX_PAGE_MESSAGE)]
    TooLarge,
    /// Not one JSON value.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// Not an object, or an unknown, missing or wrong member.
    #[error("a bridge message is malformed: {0}")]
    Member(#[from] MemberError),
}

/// Reads the object of a bridge message and takes its `type`.
fn decode_object(bytes: &[u8]) -> Result<(String, Map<String, Value>), BridgeError> {
    if bytes.len() > limits::MAX_PAGE_MESSAGE {
        return Err(BridgeError::TooLarge);
    }
    match json::parse(bytes, limits::MAX_NESTING)? {
        Value::Object(mut members) => match members.remove("type") {
            Some(Value::String(kind)) => Ok((kind, members)),
            _ => Err(MemberError::new("type must be a string").into()),
        },
        _ => Err(MemberError::new("it is not an object").into()),
    }
}
