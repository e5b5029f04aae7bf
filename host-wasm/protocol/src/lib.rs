//! Control protocol frames, conversations, attachments, outcomes and errors; no I/O.
//!
//! Everything here is a pure function of bytes and calls: no socket, no clock,
//! no randomness, no thread. The layers, from the wire upwards:
//!
//! | Module | Purpose |
//! |---|---|
//! | [`line`] | bytes to lines, bounded |
//! | [`json`] | one JSON value, bounded in nesting, and its wire encoding |
//! | [`types`] | identifiers that cannot hold a wrong value |
//! | [`frame`] | the seven frame types, decode and encode |
//! | [`server`], [`client`] | the two ends of one connection |
//! | [`attachments`], [`terminal`] | what becomes of an operation's output |
//! | [`catalog`] | the operations, their outcomes and their routing |
//! | [`bridge`] | the messages between the host and its machine page |

pub mod attachments;
pub mod bridge;
pub mod catalog;
pub mod client;
pub mod codes;
mod error;
pub mod frame;
pub mod json;
pub mod limits;
pub mod line;
mod members;
mod outcome;
pub mod server;
pub mod terminal;
pub mod text;
pub mod types;

pub use attachments::AttachmentContent;
pub use catalog::Operation;
pub use client::ClientConversation;
pub use error::{ControlError, FatalError, RawFailure};
pub use frame::Frame;
pub use line::LineReader;
pub use members::MemberError;
pub use outcome::{FailureOutcome, Outcome, SuccessOutcome};
pub use server::ServerConversation;
pub use types::{
    AttachmentId, AttachmentKind, Code, EventId, EventName, Mime, OperationName, RequestId,
    Sha256Hex, SpaceId,
};
