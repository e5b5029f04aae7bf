//! `browser.recording`: what is recorded or replayed (control protocol 1.10,
//! recording 2).

use pyproc_protocol::Sha256Hex;
use std::fmt;

use serde_json::{Value, json};

use super::read::At;
use super::{AbsolutePath, EntryKind, Fault, ManifestError};
use crate::Bounded;

/// Whether a recording is made or played.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordingMode {
    /// A live provider is recorded.
    Record,
    /// A recording is the provider.
    Replay,
}

impl RecordingMode {
    const NAMES: &[&str] = &["record", "replay"];

    fn from_name(name: &str) -> Option<Self> {
        match name {
            "record" => Some(Self::Record),
            "replay" => Some(Self::Replay),
            _ => None,
        }
    }
}

impl fmt::Display for RecordingMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Record => "record",
            Self::Replay => "replay",
        })
    }
}

/// The id of a recording: a letter or digit, then up to 95 of
/// `A-Z a-z 0-9 . _ : -`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordingId(String);

impl RecordingId {
    /// Largest length in characters.
    pub const MAX_CHARS: usize = 96;

    /// The id, or `None` when the text has another form.
    pub fn parse(text: &str) -> Option<Self> {
        let rest_is_legal =
            |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | ':' | '-');
        let legal = text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.chars().all(rest_is_legal)
            && text.len() <= Self::MAX_CHARS;
        legal.then(|| Self(text.to_owned()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn read(at: &At<'_>) -> Result<Self, ManifestError> {
        Self::parse(at.string()?).ok_or_else(|| {
            at.fault(Fault::Form {
                expected: "a letter or digit, then at most 95 of A-Z a-z 0-9 . _ : -",
            })
        })
    }
}

fn read_sha256(at: &At<'_>) -> Result<Sha256Hex, ManifestError> {
    Sha256Hex::parse(at.string()?).map_err(|_| {
        at.fault(Fault::Form {
            expected: "64 lower-case hexadecimal digits",
        })
    })
}

/// Where a recording is written. At validation its directory existed, nothing
/// was there that may not be replaced, and no other writer held it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordTarget {
    file: AbsolutePath,
    overwrite: bool,
}

impl RecordTarget {
    /// The recording's file.
    pub fn file(&self) -> &AbsolutePath {
        &self.file
    }

    /// Whether an existing recording is replaced.
    pub fn overwrite(&self) -> bool {
        self.overwrite
    }

    /// The members as `--check` reports them.
    pub fn report(&self) -> Value {
        json!({"mode": "record", "file": self.file.as_str(), "overwrite": self.overwrite})
    }

    pub(super) fn read(at: &At<'_>) -> Result<Self, ManifestError> {
        let members = at.open()?;
        for key in ["recordingId", "finalSha256", "startCursor", "prefixSha256"] {
            if let Some(at) = members.optional(key) {
                let mode = RecordingMode::Record;
                return Err(at.fault(Fault::WrongModeMember { mode }));
            }
        }
        let overwrite = members.flag("overwrite")?;
        let at = members.required("file")?;
        let file = at.checked_path(AbsolutePath::creatable)?;
        let kind = |suffix: &str| at.files().kind(&format!("{file}{suffix}"));
        // In the order in which a writer would meet them (recording 8.1).
        let is_locked = [".lock", ".mutex"].map(kind) != [EntryKind::Missing; 2];
        let fault = match (kind(""), kind(".artifacts")) {
            _ if is_locked => Some(Fault::RecordingLocked),
            (EntryKind::File, _) if !overwrite => Some(Fault::RecordingExists),
            (EntryKind::Directory | EntryKind::Symlink | EntryKind::Other, _) => {
                Some(Fault::RecordingTarget)
            }
            (_, EntryKind::Directory) if !overwrite => Some(Fault::SidecarExists),
            (_, EntryKind::Missing | EntryKind::Directory) => None,
            _ => Some(Fault::SidecarNotDirectory),
        };
        match fault {
            Some(fault) => Err(at.fault(fault)),
            None => Ok(Self { file, overwrite }),
        }
    }
}

/// Which recording is replayed, and the pins that it must match (C9).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplaySource {
    file: AbsolutePath,
    recording_id: RecordingId,
    final_sha256: Sha256Hex,
    start_cursor: Option<Cursor>,
    prefix_sha256: Option<Sha256Hex>,
}

type Cursor = Bounded<0, 10_000_000>;

impl ReplaySource {
    /// The recording's file.
    pub fn file(&self) -> &AbsolutePath {
        &self.file
    }

    /// The id that the recording must have.
    pub fn recording_id(&self) -> &RecordingId {
        &self.recording_id
    }

    /// The final digest that the recording must have.
    pub fn final_sha256(&self) -> &Sha256Hex {
        &self.final_sha256
    }

    /// The first entry that is replayed, from 0; at most 10,000,000.
    pub fn start_cursor(&self) -> u64 {
        self.start_cursor.map_or(0, Bounded::value)
    }

    /// The digest of the entries before the cursor; always present when
    /// [`Self::start_cursor`] is above 0.
    pub fn prefix_sha256(&self) -> Option<&Sha256Hex> {
        self.prefix_sha256.as_ref()
    }

    /// The members as `--check` reports them: the optional ones only when given.
    pub fn report(&self) -> Value {
        let mut report = json!({
            "mode": "replay",
            "file": self.file.as_str(),
            "recordingId": self.recording_id.as_str(),
            "finalSha256": self.final_sha256.as_str(),
        });
        if let Some(cursor) = self.start_cursor {
            report["startCursor"] = cursor.value().into();
        }
        if let Some(prefix) = &self.prefix_sha256 {
            report["prefixSha256"] = prefix.as_str().into();
        }
        report
    }

    pub(super) fn read(at: &At<'_>) -> Result<Self, ManifestError> {
        let members = at.open()?;
        if members.flag("overwrite")? {
            return Err(members.fault("overwrite", Fault::ReplayOverwrite));
        }
        let file_at = members.required("file")?;
        let file = file_at.path()?;
        if file_at.files().kind(file.as_str()) != EntryKind::File {
            return Err(file_at.fault(Fault::ReplayFile));
        }
        let recording_id = RecordingId::read(&members.required("recordingId")?)?;
        let final_sha256 = read_sha256(&members.required("finalSha256")?)?;
        let start_cursor: Option<Cursor> = members
            .optional("startCursor")
            .map(|at| at.bounded())
            .transpose()?;
        let prefix_sha256 = members
            .optional("prefixSha256")
            .map(|at| read_sha256(&at))
            .transpose()?;
        if prefix_sha256.is_none() && start_cursor.is_some_and(|cursor| cursor.value() > 0) {
            return Err(members.fault("prefixSha256", Fault::PrefixMissing));
        }
        Ok(Self {
            file,
            recording_id,
            final_sha256,
            start_cursor,
            prefix_sha256,
        })
    }
}

/// Checks the closed shape of `recording` and that its mode is the one that the
/// provider needs (C2).
pub(super) fn check_mode(at: &At<'_>, expected: RecordingMode) -> Result<(), ManifestError> {
    let members = at.closed(&[
        "mode",
        "file",
        "overwrite",
        "recordingId",
        "finalSha256",
        "startCursor",
        "prefixSha256",
    ])?;
    let at = members.required("mode")?;
    let mode = at.choice(RecordingMode::NAMES, RecordingMode::from_name)?;
    if mode == expected {
        return Ok(());
    }
    Err(at.fault(Fault::RecordingMode { expected }))
}
