//! What the page's core exchanges with one worker, as plain data.
//!
//! The worker is untrusted once guest code ran: every message is decoded into
//! closed types with bounds, and one that does not fit ends the incarnation
//! (machine 3, rule 3).

use pyproc_protocol::{json, limits};
use serde::{Deserialize, Serialize};

use crate::display::{self, Display};

/// Number of one worker incarnation, from 1, never reused.
pub type Incarnation = u64;

/// Page-wide number of a saved state; 0 is the base of the incarnation.
pub type StateNumber = u64;

/// The content of a heap: one slot number of the page store per heap page.
pub type PageTable = Vec<u32>;

/// Largest integer a worker may report (2^53 - 1).
const MAX_INTEGER: u64 = 9_007_199_254_740_991;

/// Output of one command, decoded by the page from the output block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Printed {
    /// Standard output and error in write order, at most one output block.
    pub stdout: String,
    /// Bytes written to both streams.
    pub stdout_bytes: u64,
    /// How many of them went to standard error.
    pub stderr_bytes: u64,
    /// How many of them are missing in `stdout`.
    pub stdout_dropped: u64,
}

/// A command for the worker; `id` pairs it with its reply.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum WorkerCommand {
    /// Run guest code.
    #[serde(rename_all = "camelCase")]
    Run {
        /// Command number.
        id: u64,
        /// Python source.
        code: String,
        /// Number of the run, from 1 (machine 12.3).
        run_seq: u64,
    },
    /// Save the present state under `seq`.
    Save {
        /// Command number.
        id: u64,
        /// Number the state gets.
        seq: StateNumber,
    },
    /// Restore a state that this incarnation made or adopted.
    Restore {
        /// Command number.
        id: u64,
        /// Number of the state.
        seq: StateNumber,
    },
    /// Take over a state that another incarnation made.
    Adopt {
        /// Command number.
        id: u64,
        /// Number of the state.
        seq: StateNumber,
    },
    /// Drop live records.
    Forget {
        /// Command number.
        id: u64,
        /// States that are not listed any more.
        seqs: Vec<StateNumber>,
    },
}

impl WorkerCommand {
    /// The command as JSON text.
    pub fn to_json(&self) -> String {
        // Strings and integers always serialise.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// A command with the bulk data that travels beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct Post {
    /// The command.
    pub command: WorkerCommand,
    /// For `adopt`: the page table of the state.
    pub table: Option<PageTable>,
    /// For `adopt`: the state's record, JSON text made by a worker.
    pub record: Option<String>,
    /// For `save` and `adopt`: the free slots, when the list changed.
    pub free: Option<Vec<u32>>,
}

/// A message of the worker's port.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
pub enum WorkerMessage {
    /// Booted to base, walls up.
    #[serde(rename_all = "camelCase")]
    Ready {
        /// Length of the heap.
        heap_bytes: u64,
        /// Duration of the boot.
        boot_ms: f64,
    },
    /// The boot failed.
    Failed {
        /// `MACHINE_*` code of the failure.
        code: String,
        /// What happened.
        message: String,
        /// The failed check.
        item: Option<String>,
    },
    /// The answer to a command.
    Reply(Box<Reply>),
}

/// Answer to one command (machine page contract).
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Reply {
    /// Number of the command.
    pub id: u64,
    /// Whether the command succeeded.
    pub ok: bool,
    /// Time in the worker, milliseconds.
    #[serde(default)]
    pub duration_ms: f64,
    /// Run: `repr` of the value.
    pub value: Option<String>,
    /// Run: full length of a cut value.
    pub value_chars: Option<u64>,
    /// Run: what was displayed; the page has the bytes.
    pub displays: Option<Vec<Display>>,
    /// Save: pages that differ from the previous table.
    pub changed_pages: Option<u64>,
    /// Save: no slot is shared with an earlier table.
    pub fresh: Option<bool>,
    /// Save: length of the heap.
    pub heap_bytes: Option<u64>,
    /// Save: the record is good for another incarnation or process.
    pub portable: Option<bool>,
    /// Save: contents the record names.
    pub identities: Option<Vec<u64>>,
    /// Restore and adopt: pages written.
    pub pages_written: Option<u64>,
    /// Run: the guest's error.
    pub error: Option<GuestError>,
    /// Save: the gate refused.
    pub refused: Option<Refusal>,
    /// Save: the page store is full.
    #[serde(default)]
    pub limit: bool,
    /// Adopt: the record does not fit this incarnation.
    pub unsupported: Option<String>,
    /// The engine has failed.
    pub failed: Option<String>,
}

/// Kind of a guest error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GuestErrorKind {
    /// An exception left the code.
    Exception,
    /// The source does not compile.
    Syntax,
    /// `SystemExit`.
    Exit,
    /// `KeyboardInterrupt`.
    Interrupted,
}

/// A Python error as the prelude describes it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GuestError {
    /// Class of the error.
    pub kind: GuestErrorKind,
    /// Name of the exception type.
    #[serde(rename = "type")]
    pub type_name: String,
    /// Module of the exception type.
    pub module: String,
    /// Text of the exception, at most 8192 characters.
    pub message: String,
    /// Traceback, at most 65536 characters.
    pub traceback: String,
    /// `SystemExit` only: the exit code.
    pub exit_code: Option<i64>,
    /// How much was displayed that the error takes away.
    pub displays_dropped: Option<u64>,
}

/// Why the gate refused a save (machine 9.6).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refusal {
    /// `stream`, `mount`, `hostObjects`, `stack`, `running` or `engine`.
    pub reason: String,
    /// Number of objects in the way.
    pub count: Option<u64>,
    /// Kinds of the objects in the way, at most 32.
    pub kinds: Option<Vec<String>>,
}

impl WorkerMessage {
    /// Decodes and bounds one message; the text says what does not fit. An
    /// unpaired surrogate, which Python text may hold, reads as U+FFFD.
    pub fn decode(text: &str) -> Result<Self, String> {
        let value = json::parse(text.as_bytes(), limits::MAX_NESTING);
        let value = value.map_err(|error| error.to_string())?;
        let message: Self = serde_json::from_value(value).map_err(|error| error.to_string())?;
        match &message {
            Self::Reply(reply) => reply.check()?,
            Self::Ready {
                heap_bytes,
                boot_ms,
            } => {
                if *heap_bytes > MAX_INTEGER || !boot_ms.is_finite() {
                    return Err("ready: number out of range".to_owned());
                }
            }
            Self::Failed { .. } => {}
        }
        Ok(message)
    }
}

impl Reply {
    fn check(&self) -> Result<(), String> {
        let integers = [
            Some(self.id),
            self.value_chars,
            self.changed_pages,
            self.heap_bytes,
            self.pages_written,
        ];
        if integers.into_iter().flatten().any(|n| n > MAX_INTEGER) {
            return Err("reply: integer out of range".to_owned());
        }
        if !self.duration_ms.is_finite() || self.duration_ms < 0.0 {
            return Err("reply: durationMs out of range".to_owned());
        }
        if let Some(value) = &self.value
            && value.chars().count() > 262_144
        {
            return Err("reply: value longer than 262144 characters".to_owned());
        }
        if let Some(displays) = &self.displays
            && display::total(displays).is_none()
        {
            return Err("reply: displays out of range".to_owned());
        }
        if let Some(error) = &self.error
            && (error.message.chars().count() > 8192 || error.traceback.chars().count() > 65536)
        {
            return Err("reply: error text longer than its limit".to_owned());
        }
        if let Some(kinds) = self.refused.as_ref().and_then(|r| r.kinds.as_ref())
            && kinds.len() > 32
        {
            return Err("reply: more than 32 kinds".to_owned());
        }
        let failures = [
            self.error.is_some(),
            self.refused.is_some(),
            self.limit,
            self.unsupported.is_some(),
            self.failed.is_some(),
        ];
        let failures = failures.into_iter().filter(|f| *f).count();
        if failures != usize::from(!self.ok) {
            return Err("reply: exactly one failure member belongs to ok false".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reply_with_an_unknown_member_does_not_fit() {
        let text = r#"{"type":"reply","id":1,"ok":true,"durationMs":1,"token":"x"}"#;
        assert!(WorkerMessage::decode(text).is_err());
    }

    #[test]
    fn reply_needs_exactly_one_failure_when_it_is_not_ok() {
        let none = r#"{"type":"reply","id":1,"ok":false,"durationMs":1}"#;
        let two = r#"{"type":"reply","id":1,"ok":false,"durationMs":1,"limit":true,"failed":"x"}"#;
        let both = r#"{"type":"reply","id":1,"ok":true,"durationMs":1,"limit":true}"#;
        for text in [none, two, both] {
            assert!(WorkerMessage::decode(text).is_err(), "{text}");
        }
        let one = r#"{"type":"reply","id":1,"ok":false,"durationMs":1,"limit":true}"#;
        assert!(WorkerMessage::decode(one).is_ok());
    }

    #[test]
    fn lone_surrogates_of_python_text_are_replaced() {
        let text = r#"{"type":"reply","id":1,"ok":true,"value":"'\\ud800' \ud800 \ud83d\ude00"}"#;
        let WorkerMessage::Reply(reply) = WorkerMessage::decode(text).unwrap() else {
            panic!("a reply");
        };
        let value = reply.value.unwrap();
        assert_eq!(value, "'\\ud800' \u{fffd} \u{1f600}");
    }

    #[test]
    fn numbers_out_of_range_do_not_fit() {
        for text in [
            r#"{"type":"reply","id":-1,"ok":true}"#,
            r#"{"type":"reply","id":9007199254740993,"ok":true}"#,
            r#"{"type":"reply","id":1,"ok":true,"durationMs":-1}"#,
            r#"{"type":"ready","heapBytes":1.5,"bootMs":1}"#,
        ] {
            assert!(WorkerMessage::decode(text).is_err(), "{text}");
        }
    }
}
