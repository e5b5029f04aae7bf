//! Settings of the machine that the page's core decides by.

use serde::{Deserialize, Serialize};

use crate::clock::Millis;

/// Bounds and times of the machine (machine 19, 14).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PageSettings {
    /// Longest heap.
    pub heap_limit_bytes: u64,
    /// Longest page store.
    pub store_limit_bytes: u64,
    /// Most listed checkpoints.
    pub max_checkpoints: usize,
    /// Time from the first interrupt to the kill.
    pub interrupt_grace_ms: Millis,
    /// Idle time before a guard is taken.
    pub guard_idle_ms: Millis,
    /// Longest boot of one worker.
    pub boot_timeout_ms: Millis,
    /// Keep a booted spare worker.
    pub spare: bool,
    /// Address of the durable image that the machine starts from.
    #[serde(default)]
    pub load: Option<String>,
}

impl Default for PageSettings {
    fn default() -> Self {
        Self {
            heap_limit_bytes: 512 << 20,
            store_limit_bytes: 1 << 30,
            max_checkpoints: 256,
            interrupt_grace_ms: 2000,
            guard_idle_ms: 10,
            boot_timeout_ms: 30_000,
            spare: true,
            load: None,
        }
    }
}
