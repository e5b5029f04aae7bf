//! Every code of the control protocol (chapter 10) and of the machine
//! (machine 20, in the spellings that clients know).
//!
//! What a comment says after `Outcome:` is a column of its own in the book.

use crate::types::Code;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident;)+) => {
        $($(#[$doc])* pub const $name: Code = Code::constant(stringify!($name));)+

        /// All codes of this module, in the order of their declaration.
        pub const ALL: &[Code] = &[$($name),+];
    };
}

codes! {
    /// Malformed frame. MCP arguments that are no operation input.
    /// Outcome: `notSent`; ends the connection.
    CONTROL_INVALID_FRAME;
    /// `version` is not 1.
    /// Outcome: `notSent`; ends the connection.
    CONTROL_VERSION_UNSUPPORTED;
    /// A line from the client, or the answer to a request, is over the limit (3.14).
    /// Outcome: `notSent`, ends the connection, for a line; `applied` or `notSent` for an answer.
    CONTROL_FRAME_TOO_LARGE;
    /// The first frame is not a client hello.
    /// Outcome: `notSent`; ends the connection.
    CONTROL_HELLO_REQUIRED;
    /// A frame that this side may not send, or a second hello.
    /// Outcome: `notSent`; ends the connection.
    CONTROL_FRAME_DIRECTION;
    /// A request id was used before.
    /// Outcome: `notSent`; ends the connection.
    CONTROL_REQUEST_DUPLICATE;
    /// Any other failure of the connection.
    /// Outcome: `notSent`; ends the connection.
    CONTROL_CONNECTION_FAILED;
    /// Bad chunk, digest or descriptor.
    /// Outcome: `notSent`, ends the connection, when the client sent it; else `applied` or `notSent`.
    CONTROL_ATTACHMENT_INVALID;
    /// The operation is not in the catalog.
    /// Outcome: `notSent`.
    CONTROL_OPERATION_UNKNOWN;
    /// The operation is listed but no provider is attached.
    /// Outcome: `notSent`.
    CONTROL_OPERATION_UNAVAILABLE;
    /// `spaceId` names another space than the operation's (3.9).
    /// Outcome: `notSent`.
    CONTROL_SPACE_MISMATCH;
    /// The host refuses work while it closes.
    /// Outcome: `notSent`.
    CONTROL_HOST_CLOSED;
    /// Cancelled by the client, the operator or a shutdown.
    /// Outcome: `notSent` while the request waits, `outcomeUnknown` once it was delivered.
    CONTROL_CANCELLED;
    /// A deadline passed.
    /// Outcome: `notSent`, retryable, while the request waits; `outcomeUnknown` once it was delivered.
    CONTROL_TIMEOUT;
    /// The page was lost or replaced while it worked on the request.
    /// Outcome: `outcomeUnknown`.
    CONTROL_PAGE_REPLACED;
    /// The page is gone, or was closed; the request did not reach it.
    /// Outcome: `notSent`.
    CONTROL_BRIDGE_CLOSED;
    /// The engine or the page never became ready; `details.cause` says why.
    /// Outcome: `notSent`.
    PYPROC_BOOT_FAILED;
    /// Bad machine input.
    /// Outcome: `notSent`.
    PYPROC_INPUT_INVALID;
    /// A failure without a code of its own; too many requests wait.
    /// Outcome: as reported; `notSent`, retryable, for too many requests.
    PYPROC_INTERNAL;
    /// The automation provider is closed.
    /// Outcome: `notSent`.
    AUTOMATION_SPACE_CLOSED;
    /// The automation provider lacks the operation.
    /// Outcome: `notSent`.
    AUTOMATION_SPACE_OPERATION_UNSUPPORTED;

    /// Client-local: the connection ended, or was known to be dead.
    CONTROL_CONNECTION_LOST;
    /// Client-local: a frame for a request that is not active.
    CONTROL_REQUEST_UNKNOWN;
    /// Client-local: a second terminal.
    CONTROL_TERMINAL_DUPLICATE;
    /// Client-local: a repeated event id.
    CONTROL_EVENT_DUPLICATE;
    /// Client-local: a failure without a code.
    CONTROL_FAILED;

    /// Bridge close reason: token missing or wrong; close code 4403.
    CONTROL_BRIDGE_UNAUTHORIZED;
    /// Bridge close reason: any other bad handshake; close code 4400.
    CONTROL_BRIDGE_HANDSHAKE;
    /// Bridge close reason: same epoch while its connection is open; 4409.
    CONTROL_POLL_CONFLICT;
    /// Bridge close reason: bridge already lost or closed; 4409.
    CONTROL_PAGE_STALE;

    /// The engine did not start.
    /// Outcome: `details.cause` of `PYPROC_BOOT_FAILED`.
    MACHINE_BOOT_FAILED;
    /// A boot check failed; `details.item` names it.
    /// Outcome: `details.cause` of `PYPROC_BOOT_FAILED`.
    MACHINE_ENGINE_INCOMPATIBLE;
    /// The worker is not as isolated as it must be; `details.item` names what is left open.
    /// Outcome: `details.cause` of `PYPROC_BOOT_FAILED`.
    MACHINE_ISOLATION_FAILED;
    /// `code` is over its limit.
    /// Outcome: `notSent`.
    MACHINE_CODE_TOO_LARGE;
    /// The Python code raised, or does not compile.
    /// Outcome: `applied`; `rejected` for code that does not compile.
    MACHINE_PYTHON_ERROR;
    /// The Python code raised `SystemExit`.
    /// Outcome: `applied`.
    MACHINE_EXIT;
    /// A soft interrupt ended the run.
    /// Outcome: `applied`.
    MACHINE_INTERRUPTED;
    /// The worker was killed by the interrupt ladder.
    /// Outcome: `rejected`, retryable, when only this run is undone; `applied` when earlier runs are lost with it.
    MACHINE_KILLED;
    /// The engine failed and was replaced.
    /// Outcome: `rejected`, retryable, when only this run is undone; `applied` when earlier runs are lost with it.
    MACHINE_ENGINE_FAILED;
    /// The worker vanished or answered out of schema.
    /// Outcome: `outcomeUnknown`.
    MACHINE_WORKER_LOST;
    /// The state cannot be saved; `details.reason` says why.
    /// Outcome: `rejected`, retryable.
    MACHINE_CHECKPOINT_REFUSED;
    /// No checkpoint has this index.
    /// Outcome: `rejected`.
    MACHINE_CHECKPOINT_UNKNOWN;
    /// The page store or the checkpoint list is full.
    /// Outcome: `rejected`, retryable.
    MACHINE_CHECKPOINT_LIMIT;
    /// No way of restoring reached the target; `details.restored` says where the machine is.
    /// Outcome: `applied`.
    MACHINE_RESTORE_FAILED;
    /// A durable image is malformed or damaged.
    /// Outcome: `rejected`.
    MACHINE_IMAGE_INVALID;
    /// A durable image is of another engine, boot image or prelude.
    /// Outcome: `rejected`.
    MACHINE_IMAGE_ENGINE_MISMATCH;
    /// A state or a durable image does not fit a fresh worker.
    /// Outcome: `rejected`.
    MACHINE_IMAGE_UNSUPPORTED;
    /// A wheel is damaged, unsafe or too large.
    /// Outcome: begins the message of the `ImportError` that Python raises.
    MACHINE_PACKAGE_INVALID;
    /// A wheel's library needs embedded JavaScript.
    /// Outcome: not used by this version.
    MACHINE_PACKAGE_UNSUPPORTED;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_well_formed_and_listed_once() {
        for (index, code) in ALL.iter().enumerate() {
            assert_eq!(Code::parse(code.as_str()).as_ref(), Ok(code));
            assert!(!ALL[..index].contains(code), "{code} is listed twice");
        }
        assert_eq!(ALL.len(), 49);
    }
}
