//! The page's core against a scripted host, worker and clock (machine 2, 3, 8,
//! 9, 12 to 15, 20).
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod boot;
mod checkpoints;
mod contract;
mod displays;
mod guard;
mod images;
mod ladder;
mod output;
mod recovery;
mod rig;
mod run;
mod spare;
mod sweep;
