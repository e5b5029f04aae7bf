//! The Model Context Protocol as the host speaks it, without any input or
//! output: bytes become lines ([`frame`]), lines become messages
//! ([`message`]), and each request is judged by its version ([`era`]) and its
//! id ([`ids`]). No input makes any of it panic, hold more than one line, or
//! answer a request twice.

pub mod era;
pub mod error;
pub mod frame;
pub mod id;
pub mod ids;
pub mod message;

pub use era::{Eras, Treatment, Version};
pub use error::{Reason, Refusal};
pub use frame::{Framed, Framer};
pub use id::Id;
pub use ids::UsedIds;
pub use message::{Incoming, Message, Request};
