//! Failures of the machine: what happened, and where the machine is now
//! (machine 12, 14.3, 15, 20).

use pyproc_protocol::{Code, ControlError, FailureOutcome, codes, limits, text};
use serde_json::{Value, json};

use super::machine::Restored;
use super::message::{GuestError, GuestErrorKind, Printed, Refusal};
use super::port::ImageRefusal;
use super::states::Place;

/// Longest name of a boot check, UTF-16 code units: a boot failure must fit a
/// handshake.
const MAX_ITEM: usize = 128;

/// A failure on its way to the client.
#[derive(Debug)]
pub(crate) struct Failure {
    error: ControlError,
}

impl Failure {
    fn new(code: Code, outcome: FailureOutcome, message: &str) -> Self {
        Self {
            error: ControlError::new(code, outcome, message),
        }
    }

    /// A boot failure as the worker described it: boot failures have one code
    /// on the wire, the `MACHINE_*` code is their cause.
    pub(crate) fn boot(cause: &str, message: String, item: Option<String>) -> Self {
        let known = [
            codes::MACHINE_BOOT_FAILED,
            codes::MACHINE_ENGINE_INCOMPATIBLE,
            codes::MACHINE_ISOLATION_FAILED,
        ];
        let cause = known.into_iter().find(|code| code.as_str() == cause);
        let cause = cause.unwrap_or(codes::MACHINE_BOOT_FAILED);
        let failure = Self::new(codes::PYPROC_BOOT_FAILED, FailureOutcome::NotSent, &message);
        let failure = failure.with("cause", cause.as_str().into());
        match item {
            Some(item) => failure.with("item", text::tail(&item, MAX_ITEM).into()),
            None => failure,
        }
    }

    /// A boot that could not reach the image it was to start from.
    pub(crate) fn boot_image(refused: Failure) -> Self {
        if refused.is_boot_failure() {
            return refused;
        }
        let error = &refused.error;
        let general = codes::MACHINE_BOOT_FAILED;
        let cause = match error.code().as_str() {
            code if code.starts_with("MACHINE_") => code,
            _ => general.as_str(),
        };
        let (code, outcome) = (codes::PYPROC_BOOT_FAILED, FailureOutcome::NotSent);
        Self::new(code, outcome, error.message()).with("cause", cause.into())
    }

    pub(crate) fn not_portable() -> Self {
        let message = "the state holds native libraries that no other process can make again; \
                       reset the machine, or restore a checkpoint from before their import";
        let code = codes::MACHINE_IMAGE_UNSUPPORTED;
        Self::new(code, FailureOutcome::Rejected, message)
    }

    /// An image was not made or not taken; nothing has changed.
    pub(crate) fn image(refusal: &ImageRefusal) -> Self {
        let known = [
            codes::MACHINE_IMAGE_INVALID,
            codes::MACHINE_IMAGE_ENGINE_MISMATCH,
            codes::MACHINE_IMAGE_UNSUPPORTED,
            codes::MACHINE_CHECKPOINT_LIMIT,
        ];
        let code = known.into_iter().find(|code| code.as_str() == refusal.code);
        let code = code.unwrap_or(codes::PYPROC_INTERNAL);
        let full = code == codes::MACHINE_CHECKPOINT_LIMIT;
        let failure = Self::new(code, FailureOutcome::Rejected, &refusal.message);
        match full {
            true => failure.retryable(),
            false => failure,
        }
    }

    pub(crate) fn boot_failed(message: &str) -> Self {
        Self::boot("", message.to_owned(), None)
    }

    pub(crate) fn killed() -> Self {
        let message = "the code did not stop when it was interrupted; its worker was ended";
        Self::new(codes::MACHINE_KILLED, FailureOutcome::Rejected, message)
    }

    pub(crate) fn engine_failed(reason: &str) -> Self {
        let message = format!("the engine failed and was replaced: {reason}");
        Self::new(
            codes::MACHINE_ENGINE_FAILED,
            FailureOutcome::Rejected,
            &message,
        )
    }

    pub(crate) fn worker_lost(reason: &str) -> Self {
        let message = format!("the Python worker was lost and replaced: {reason}");
        Self::new(
            codes::MACHINE_WORKER_LOST,
            FailureOutcome::OutcomeUnknown,
            &message,
        )
    }

    pub(crate) fn refused(refusal: Refusal) -> Self {
        let (reason, advice) = match refusal.reason.as_str() {
            "stream" => ("stream", "close open pipes and sockets, then save again"),
            "mount" => ("mount", "unmount foreign file systems, then save again"),
            "hostObjects" => (
                "hostObjects",
                "delete the JavaScript objects that Python holds, then save again",
            ),
            "stack" => ("stack", "the native stack is not where it was at base"),
            "running" => ("running", "a command is executing"),
            _ => ("engine", "the engine has failed"),
        };
        let message = format!("the state cannot be saved ({reason}): {advice}");
        let failure = Self::new(
            codes::MACHINE_CHECKPOINT_REFUSED,
            FailureOutcome::Rejected,
            &message,
        );
        let mut failure = failure.with("reason", reason.into()).retryable();
        if let Some(count) = refusal.count {
            failure = failure.with("count", count.into());
        }
        match refusal.kinds {
            Some(kinds) => failure.with("kinds", kinds.into()),
            None => failure,
        }
    }

    pub(crate) fn store_full() -> Self {
        Self::limit("the page store is full; reset the machine to empty it")
    }

    pub(crate) fn list_full(limit: usize) -> Self {
        Self::limit(&format!(
            "{limit} checkpoints are listed, the most allowed; reset the machine to empty the list"
        ))
    }

    fn limit(message: &str) -> Self {
        let code = codes::MACHINE_CHECKPOINT_LIMIT;
        Self::new(code, FailureOutcome::Rejected, message).retryable()
    }

    pub(crate) fn unknown_checkpoint() -> Self {
        let message = "no saved checkpoint has this index; save one first, or name a listed index";
        let code = codes::MACHINE_CHECKPOINT_UNKNOWN;
        Self::new(code, FailureOutcome::Rejected, message)
    }

    pub(crate) fn unsupported(reason: &str) -> Self {
        let message = format!("the state does not fit a fresh worker: {reason}");
        let code = codes::MACHINE_IMAGE_UNSUPPORTED;
        Self::new(code, FailureOutcome::Rejected, &message)
    }

    /// A fresh worker could not be brought to a state; the present one goes on
    /// as if it had not been asked.
    pub(crate) fn not_exchanged(self) -> Self {
        if self.is_boot_failure() || *self.error.code() == codes::MACHINE_IMAGE_UNSUPPORTED {
            return self;
        }
        let message = self.error.message();
        let code = codes::MACHINE_ENGINE_FAILED;
        Self::new(code, FailureOutcome::Rejected, message).retryable()
    }

    pub(crate) fn restore_failed(cause: &Failure) -> Self {
        let message = format!(
            "the checkpoint could not be restored: {}",
            cause.error.message()
        );
        Self::new(
            codes::MACHINE_RESTORE_FAILED,
            FailureOutcome::Applied,
            &message,
        )
    }

    /// A run that printed or returned more than one reply may carry.
    pub(crate) fn too_much_output(printed: &Printed) -> Self {
        let message = format!(
            "the run printed {} bytes, more than one reply may carry; \
             print less, or write to a file and read it in parts",
            printed.stdout_bytes
        );
        Self::new(
            codes::CONTROL_FRAME_TOO_LARGE,
            FailureOutcome::Applied,
            &message,
        )
    }

    /// A Python error (machine 12): the message is the end of the traceback.
    /// An interrupt nobody asked for is an ordinary exception.
    pub(crate) fn python(error: GuestError, interrupted: bool) -> Self {
        let (code, outcome) = match error.kind {
            GuestErrorKind::Syntax => (codes::MACHINE_PYTHON_ERROR, FailureOutcome::Rejected),
            GuestErrorKind::Exit => (codes::MACHINE_EXIT, FailureOutcome::Applied),
            GuestErrorKind::Interrupted if interrupted => {
                (codes::MACHINE_INTERRUPTED, FailureOutcome::Applied)
            }
            _ => (codes::MACHINE_PYTHON_ERROR, FailureOutcome::Applied),
        };
        let traceback = error.traceback.trim_end();
        let message = match traceback {
            "" => format!("{}: {}", error.type_name, error.message),
            traceback => text::tail(traceback, limits::MAX_PAGE_ERROR_MESSAGE).to_owned(),
        };
        let mut failure = Self::new(code, outcome, &message)
            .with("type", error.type_name.into())
            .with("module", error.module.into())
            .with("message", error.message.into())
            .with("traceback", error.traceback.into());
        if error.kind == GuestErrorKind::Exit {
            failure = failure.with("exitCode", error.exit_code.into());
        }
        failure.without_displays(error.displays_dropped.unwrap_or(0))
    }

    /// Adds where the machine went on; only what was rolled back completely
    /// stays `rejected`.
    pub(crate) fn restored(self, restored: Restored) -> Self {
        let (kind, index) = match restored.place {
            Place::Base => ("base", None),
            Place::Guard => ("guard", None),
            Place::Checkpoint(index) => ("checkpoint", Some(index)),
        };
        let unknown = self.error.outcome() == FailureOutcome::OutcomeUnknown;
        let whole = restored.lost_runs == 0;
        let value = json!({"kind": kind, "index": index, "lostRuns": restored.lost_runs});
        let mut failure = self.with("restored", value);
        if !unknown && !whole {
            failure.error = failure.error.with_outcome(FailureOutcome::Applied);
        }
        if !unknown && whole && failure.error.outcome() == FailureOutcome::Rejected {
            failure = failure.retryable();
        }
        failure
    }

    /// The machine has no worker any more and could not get one.
    pub(crate) fn without_machine(self, boot: &Failure) -> Self {
        let outcome = match self.error.outcome() {
            FailureOutcome::OutcomeUnknown => FailureOutcome::OutcomeUnknown,
            _ => FailureOutcome::Applied,
        };
        let mut failure = self.with("bootFailure", boot.error.message().into());
        failure.error = failure.error.with_outcome(outcome);
        failure
    }

    /// Adds what a run had printed and its number.
    pub(crate) fn with_run(self, printed: &Printed, run_seq: u64) -> Self {
        let failure = self
            .with("stdout", printed.stdout.as_str().into())
            .with("runSeq", run_seq.into());
        match printed.stdout_dropped {
            0 => failure,
            dropped => failure
                .with("stdoutBytes", printed.stdout_bytes.into())
                .with("stdoutDropped", dropped.into()),
        }
    }

    /// Says how much was displayed that nobody gets.
    pub(crate) fn without_displays(self, dropped: u64) -> Self {
        match dropped {
            0 => self,
            dropped => self.with("displaysDropped", dropped.into()),
        }
    }

    pub(crate) fn with(mut self, name: &str, value: Value) -> Self {
        self.error = self.error.with_detail(name, value);
        self
    }

    fn retryable(mut self) -> Self {
        self.error = self.error.with_retryable(true);
        self
    }

    /// A refusal before the worker saw the command.
    pub(crate) fn is_boot_failure(&self) -> bool {
        *self.error.code() == codes::PYPROC_BOOT_FAILED
    }

    /// What a client that did not wait for this failure must still learn: that
    /// the machine's state is not the one it knew (machine 14.3).
    pub(crate) fn loss(&self) -> Option<Value> {
        let restored = self.error.details()?.get("restored")?;
        Some(json!({"reason": self.error.code().as_str(), "restored": restored}))
    }

    /// The failure as the wire carries it.
    pub(crate) fn into_error(self) -> ControlError {
        self.error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guest(kind: GuestErrorKind) -> GuestError {
        GuestError {
            kind,
            type_name: "ValueError".to_owned(),
            module: "builtins".to_owned(),
            message: "boom".to_owned(),
            traceback: format!("{}\nValueError: boom\n", "x".repeat(1000)),
            exit_code: None,
            displays_dropped: None,
        }
    }

    #[test]
    fn python_error_says_the_end_of_its_traceback() {
        let error = Failure::python(guest(GuestErrorKind::Exception), false).into_error();
        assert_eq!(error.code().as_str(), "MACHINE_PYTHON_ERROR");
        assert_eq!(error.outcome(), FailureOutcome::Applied);
        assert_eq!(error.message().len(), 400);
        assert!(error.message().ends_with("ValueError: boom"));
    }

    #[test]
    fn source_that_does_not_compile_is_rejected() {
        let error = Failure::python(guest(GuestErrorKind::Syntax), false).into_error();
        assert_eq!(error.outcome(), FailureOutcome::Rejected);
    }

    #[test]
    fn only_an_interrupt_somebody_asked_for_is_an_interruption() {
        let code = |asked| {
            let failure = Failure::python(guest(GuestErrorKind::Interrupted), asked);
            failure.into_error().code().as_str().to_owned()
        };
        assert_eq!(code(true), "MACHINE_INTERRUPTED");
        assert_eq!(code(false), "MACHINE_PYTHON_ERROR");
    }

    #[test]
    fn killed_run_is_rejected_only_when_nothing_else_was_lost() {
        let restored = |lost_runs| {
            let place = Place::Guard;
            let failure = Failure::killed().restored(Restored { place, lost_runs });
            failure.into_error()
        };
        let whole = restored(0);
        assert_eq!(whole.outcome(), FailureOutcome::Rejected);
        assert!(whole.retryable());
        let partial = restored(2);
        assert_eq!(partial.outcome(), FailureOutcome::Applied);
        assert!(!partial.retryable());
        let details = partial.details().unwrap();
        assert_eq!(
            details["restored"],
            json!({"kind": "guard", "index": null, "lostRuns": 2})
        );
    }
}
