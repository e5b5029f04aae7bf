//! The host core against a scripted agent, page and clock.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod displays;
mod images;
mod requests;
mod rig;
