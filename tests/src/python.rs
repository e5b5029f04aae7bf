//! What tests of the Python machine ask for over and over.

use std::time::Duration;

use pyproc_native_shell::client::{Ending, Pending};
use pyproc_protocol::{ControlError, FailureOutcome};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{Home, Machine, PATIENCE, manifest, members};

impl Home {
    /// A home whose manifest has this `machine` object.
    pub fn with_machine(machine: Value) -> Self {
        let mut manifest = manifest();
        manifest["machine"] = machine;
        Self::new(manifest)
    }
}

impl Machine {
    /// Runs code that must succeed; the result is what it printed.
    pub async fn printed(&self, code: &str) -> String {
        let output = self.output("machine.run", json!({"code": code})).await;
        output["stdout"].as_str().expect("stdout").to_owned()
    }

    /// Runs code that must succeed and have no value.
    pub async fn exec(&self, code: &str) {
        let output = self.output("machine.run", json!({"code": code})).await;
        assert_eq!(output.get("value"), None, "{output}");
    }

    /// Runs code that must fail.
    pub async fn error(&self, code: &str) -> ControlError {
        match self.run(code).await {
            Err(error) => error,
            Ok(done) => panic!("{code}: {}", done.output),
        }
    }

    /// Performs an operation that must fail.
    pub async fn refusal(&self, operation: &str, input: Value) -> ControlError {
        match self.request(operation, input).await {
            Err(error) => error,
            Ok(done) => panic!("{operation}: {}", done.output),
        }
    }

    /// Starts a run without waiting for its end.
    pub fn start(&self, input: Value) -> Pending {
        let started = self.client.start("machine.run", members(input));
        started.expect("the run is sent")
    }

    /// Cancels a started run once it works on its code; the terminal is
    /// `CONTROL_CANCELLED`.
    pub async fn cancel_after(&self, run: Pending, wait: Duration) {
        tokio::time::sleep(wait).await;
        self.client.cancel(&run.id, None).expect("a cancel");
        let ending: Ending = timeout(PATIENCE, run.ending()).await.expect("a terminal");
        let error = ending.expect_err("it was cancelled");
        is_error(
            &error,
            "CONTROL_CANCELLED",
            FailureOutcome::OutcomeUnknown,
            false,
        );
    }
}

/// Code, outcome and retryability of an error.
#[track_caller]
pub fn is_error(error: &ControlError, code: &str, outcome: FailureOutcome, retryable: bool) {
    let got = (error.code().as_str(), error.outcome(), error.retryable());
    let message = format!("{}: {:?}", error.message(), error.details());
    assert_eq!(got, (code, outcome, retryable), "{message}");
}

/// A member of an error's details; null when there is none.
pub fn detail(error: &ControlError, name: &str) -> Value {
    let value = error.details().and_then(|details| details.get(name));
    value.cloned().unwrap_or_default()
}

/// A number from the environment, for tests that can run longer.
pub fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|error| panic!("{name}: {error}")),
        Err(_) => default,
    }
}

/// Resident memory of a process, bytes.
pub fn resident_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let text = line.expect("a resident size").trim();
    let kilobytes = text.trim_end_matches(" kB");
    kilobytes.parse::<u64>().expect("kilobytes") << 10
}
