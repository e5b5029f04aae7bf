//! What can be wrong with a value of the manifest.

use thiserror::Error;

use super::{FileFault, MAX_MANIFEST_BYTES, RecordingMode, UrlFault};
use crate::Risk;

/// What is wrong with a value.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum Fault {
    // The text.
    /// The file is too large.
    #[error("is {bytes} bytes long; at most {MAX_MANIFEST_BYTES} are allowed")]
    TooLarge {
        /// Size of the text.
        bytes: usize,
    },
    /// The text starts with a byte order mark.
    #[error("starts with a byte order mark; it must be plain UTF-8")]
    ByteOrderMark,
    /// The text is not UTF-8.
    #[error("is not valid UTF-8 at byte {offset}")]
    NotUtf8 {
        /// Position of the first bad byte.
        offset: usize,
    },
    /// The text is not one JSON value.
    #[error("is not one JSON value: {reason}")]
    Syntax {
        /// What the JSON parser says, with line and column.
        reason: String,
    },
    /// An object has two members of this name.
    #[error("appears more than once in its object")]
    DuplicateMember,

    // Shapes and bounds.
    /// The object does not have such a member.
    #[error("is not a known key; known here: {}", known.join(", "))]
    UnknownKey {
        /// The keys that the object accepts.
        known: &'static [&'static str],
    },
    /// A member is required.
    #[error("is required")]
    Missing,
    /// Another JSON type is expected.
    #[error("must be {expected}, not {found}")]
    Type {
        /// With its article, for instance `a string`.
        expected: &'static str,
        /// With its article, for instance `null`.
        found: &'static str,
    },
    /// A number is not integral or out of range.
    #[error("must be an integer from {min} to {max}")]
    IntegerRange {
        /// Smallest legal value.
        min: u64,
        /// Largest legal value.
        max: u64,
    },
    /// A number is out of range.
    #[error("must be a number from {min} to {max}")]
    NumberRange {
        /// Smallest legal value.
        min: f64,
        /// Largest legal value.
        max: f64,
    },
    /// The manifest is of another version.
    #[error("must be 1, the only manifest version this product reads")]
    Version,
    /// A string is none of the listed words.
    #[error("must be one of {}", allowed.join(", "))]
    Choice {
        /// The legal words.
        allowed: &'static [&'static str],
    },
    /// A text has another form.
    #[error("must be {expected}")]
    Form {
        /// The expected form.
        expected: &'static str,
    },
    /// A text is too long.
    #[error("is longer than {max} characters")]
    TooLong {
        /// Largest number of characters.
        max: usize,
    },
    /// A text has control characters.
    #[error("contains a control character")]
    ControlCharacter,
    /// An array needs an entry.
    #[error("must have at least one entry")]
    Empty,
    /// An array or object has too many entries.
    #[error("has more than {max} entries")]
    TooMany {
        /// Largest number of entries.
        max: usize,
    },
    /// An entry is white space only.
    #[error("is blank")]
    Blank,
    /// The array has the same text twice.
    #[error("repeats an earlier entry")]
    DuplicateEntry,
    /// An entry holds several values.
    #[error("holds several values; write one entry for each")]
    SeveralValues,
    /// A URL or origin breaks its rules.
    #[error(transparent)]
    Url(#[from] UrlFault),
    /// A path breaks its rules.
    #[error(transparent)]
    File(#[from] FileFault),

    // Catalogs.
    /// No such action.
    #[error("is not the name of an action")]
    UnknownAction,
    /// No such method.
    #[error("is not the name of a raw method that can be opened")]
    UnknownMethod,
    /// No such operation.
    #[error("is not the name of an operation")]
    UnknownOperation,
    /// No such timezone.
    #[error("is not an IANA timezone name")]
    UnknownTimezone,

    // Cross-field rules.
    /// The engine needs exactly one source.
    #[error("must have exactly one of root and indexURL")]
    EngineChoice,
    /// Automation is disabled (C1).
    #[error("is only allowed when browser.enabled is true")]
    AutomationDisabled,
    /// An entry's risk is over the ceiling (C3).
    #[error("{name} has risk {risk}, above browser.maxRisk {ceiling}")]
    RiskCeiling {
        /// The action or method.
        name: &'static str,
        /// Its fixed risk.
        risk: Risk,
        /// The manifest's ceiling.
        ceiling: Risk,
    },
    /// External effects are not acknowledged (C4).
    #[error("must be \"acknowledged\" when browser.maxRisk is externalEffect")]
    NotAcknowledged,
    /// The purpose is missing (C4).
    #[error("must state a purpose when browser.maxRisk is externalEffect")]
    PurposeMissing,
    /// Uploads need a root (C5).
    #[error("must name at least one directory because {name} is allowed")]
    FileRootMissing {
        /// The action or method that uploads.
        name: &'static str,
    },
    /// Two artifact limits contradict each other (C6).
    #[error("is {value}, above browser.artifacts.{limit} which is {bound}; set both")]
    ArtifactOrder {
        /// The larger value.
        value: u64,
        /// The key that limits it.
        limit: &'static str,
        /// The value of that key.
        bound: u64,
    },
    /// An artifact limit is over what a recording can hold (C7).
    #[error("must be at most {max} when browser.recording is present")]
    RecordingCeiling {
        /// Largest legal value.
        max: u64,
    },
    /// The frame provider does not support the action (C8).
    #[error("{name} is not supported by the frame provider")]
    FrameAction {
        /// The action.
        name: &'static str,
    },
    /// The frame provider has no raw methods (C8).
    #[error("must be empty with the frame provider")]
    FrameMethods,

    // Recording.
    /// A replay needs its recording (C2).
    #[error("is required when browser.provider is replay")]
    RecordingMissing,
    /// The mode does not fit the provider (C2).
    #[error("must be {expected} with this browser.provider")]
    RecordingMode {
        /// The mode that fits.
        expected: RecordingMode,
    },
    /// A member belongs to the other mode.
    #[error("is not allowed in mode {mode}")]
    WrongModeMember {
        /// The manifest's mode.
        mode: RecordingMode,
    },
    /// A recording cannot be overwritten in replay.
    #[error("must not be true in mode replay")]
    ReplayOverwrite,
    /// A cursor needs its prefix digest.
    #[error("is required when startCursor is above 0")]
    PrefixMissing,
    /// A recording exists already.
    #[error("exists already; set overwrite to true to replace it")]
    RecordingExists,
    /// The record target cannot be a recording.
    #[error("exists and is not a regular file")]
    RecordingTarget,
    /// The replay file is not there.
    #[error("must be an existing regular file, not a link")]
    ReplayFile,
    /// Another writer or reader is at work.
    #[error("is in use: its lock or mutex file exists")]
    RecordingLocked,
    /// The sidecar directory exists already.
    #[error("has an artifact directory already; set overwrite to true to replace it")]
    SidecarExists,
    /// The sidecar directory is something else.
    #[error("has an artifact directory that is not a directory")]
    SidecarNotDirectory,

    // Machine.
    /// The guest's environment variable is reserved.
    #[error("must not start with PYPROC_")]
    ReservedVariable,

    // Operator plane.
    /// The operator token has no source.
    #[error("must have operator_token_file or operator_token_env")]
    TokenMissing,
    /// A token has two sources.
    #[error("cannot be used together with {other}")]
    TokenTwice {
        /// The other source.
        other: &'static str,
    },
    /// Both roles read the same token.
    #[error("is the same as {other}; the two tokens must differ")]
    SameToken {
        /// The key of the other token.
        other: &'static str,
    },
    /// A token is also forbidden.
    #[error("is also the source of {token}")]
    ForbiddenToken {
        /// The key of the token.
        token: &'static str,
    },
    /// TLS needs both files.
    #[error("is required together with {other}")]
    TlsPair {
        /// The key that is present.
        other: &'static str,
    },
    /// A remote listener needs TLS.
    #[error(
        "is not a loopback address; it requires remote_tls_certificate_der and remote_tls_private_key_der"
    )]
    TlsRequired,
}
