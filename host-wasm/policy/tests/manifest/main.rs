//! The manifest as its readers meet it: text in, a model or one line of refusal out.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a failed expectation of a helper fails the test"
)]

mod cases;
mod control;
mod errors;
mod golden;
mod lookups;
mod machine;
mod properties;
mod recording;
mod support;
