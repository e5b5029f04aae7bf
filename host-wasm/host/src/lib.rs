//! The host core: request lifecycle, page bridge and machine operations.
//!
//! Sans-IO: no socket, no file, no clock, no thread. What happened comes in
//! through [`Host::handle`] (in the native shell) or
//! [`page::MachinePage::handle`] (in the machine page), what must be done goes
//! out through the `poll` beside it. Long conversations are plain futures on a
//! small executor inside; time is an argument.

mod bridge;
mod clock;
mod display;
mod executor;
mod host;
mod image;
mod machine;
mod output;
pub mod page;
mod signal;
mod untold;

pub use clock::Millis;
pub use display::Display;
pub use host::{Host, HostSettings, Input, SettingsError};
pub use image::ImageOpened;
pub use machine::{MAX_CODE_BYTES, MachineRequest};
pub use output::{LedgerState, Link, Output, Purpose, Received};
