//! The native shell: it owns sockets, processes and files, and does what the
//! core asks for. It decides nothing itself.

pub mod agent;
mod assets;
pub mod browser;
pub mod cli;
pub mod client;
pub mod core;
pub mod diagnostics;
pub mod engine;
pub mod images;
mod ledger;
pub mod loopback;
pub mod marks;
pub mod page_host;
mod progress;
pub mod serve;
