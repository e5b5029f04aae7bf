//! `machine`: limits and settings of the Python machine (machine 14, 17 to 19).

use std::collections::BTreeMap;
use std::fmt;

use super::read::At;
use super::{AbsolutePath, EntryKind, Fault, ManifestError, Timezone};
use crate::Bounded;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const GIB: u64 = 1024 * MIB;

/// Settings of the Python machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineSettings {
    /// Most bytes of the interpreter's memory; 512 MiB by default.
    pub heap_limit_bytes: Bounded<{ 64 * MIB }, { 2 * GIB }>,
    /// Most bytes of stored checkpoint pages; 1 GiB by default.
    pub store_limit_bytes: Bounded<{ 64 * MIB }, { 3 * GIB }>,
    /// Most listed checkpoints; 256 by default.
    pub max_checkpoints: Bounded<1, 4096>,
    /// Most bytes of all files in the in-memory file system; 256 MiB by default.
    pub file_limit_bytes: Bounded<MIB, GIB>,
    /// Bytes of the output block of one run; 1 MiB by default.
    pub output_bytes: Bounded<{ 64 * KIB }, { 8 * MIB }>,
    /// Milliseconds from the first interrupt to the kill; 2,000 by default, 0
    /// kills at once.
    pub interrupt_grace_ms: Bounded<0, 60_000>,
    /// Idle milliseconds before a guard is taken; 10 by default.
    pub guard_idle_ms: Bounded<0, 900_000>,
    /// Milliseconds that a boot may take; 30,000 by default.
    pub boot_timeout_ms: Bounded<1, 900_000>,
    /// Whether a second worker waits to replace a killed one; true by default.
    pub spare: bool,
    /// A directory of wheels, symlink-free.
    pub wheels: Option<AbsolutePath>,
    /// Top-level packages that are imported before the base checkpoint; at most 32.
    pub preload: Vec<String>,
    /// Environment variables of the guest.
    pub env: GuestEnvironment,
    /// The guest's timezone; UTC by default.
    pub timezone: Option<Timezone>,
    /// Durable images.
    pub image: ImageSettings,
}

impl Default for MachineSettings {
    fn default() -> Self {
        Self {
            heap_limit_bytes: Bounded::constant::<{ 512 * MIB }>(),
            store_limit_bytes: Bounded::constant::<GIB>(),
            max_checkpoints: Bounded::constant::<256>(),
            file_limit_bytes: Bounded::constant::<{ 256 * MIB }>(),
            output_bytes: Bounded::constant::<MIB>(),
            interrupt_grace_ms: Bounded::constant::<2_000>(),
            guard_idle_ms: Bounded::constant::<10>(),
            boot_timeout_ms: Bounded::constant::<30_000>(),
            spare: true,
            wheels: None,
            preload: Vec::new(),
            env: GuestEnvironment::default(),
            timezone: None,
            image: ImageSettings::default(),
        }
    }
}

/// Environment variables of the guest: at most 64, names `[A-Z_][A-Z0-9_]*`
/// without the prefix `PYPROC_`. `Debug` shows the names only.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct GuestEnvironment(BTreeMap<String, String>);

impl GuestEnvironment {
    /// Most variables.
    pub const MAX_VARIABLES: usize = 64;

    /// The variables in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    fn read(at: &At<'_>) -> Result<Self, ManifestError> {
        let members = at.open()?;
        let mut variables = BTreeMap::new();
        for (name, at) in members.entries() {
            let mut bytes = name.bytes();
            let starts_well = bytes
                .next()
                .is_some_and(|b| matches!(b, b'A'..=b'Z' | b'_'));
            if !starts_well || !bytes.all(|b| matches!(b, b'A'..=b'Z' | b'0'..=b'9' | b'_')) {
                return Err(at.fault(Fault::Form {
                    expected: "named with A-Z, 0-9 and _, not starting with a digit",
                }));
            }
            if name.starts_with("PYPROC_") {
                return Err(at.fault(Fault::ReservedVariable));
            }
            let value = at.string()?;
            if value.contains('\0') {
                return Err(at.fault(Fault::Form {
                    expected: "a string without U+0000",
                }));
            }
            variables.insert(name.to_owned(), value.to_owned());
        }
        if variables.len() > Self::MAX_VARIABLES {
            let max = Self::MAX_VARIABLES;
            return Err(at.fault(Fault::TooMany { max }));
        }
        Ok(Self(variables))
    }
}

impl fmt::Debug for GuestEnvironment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Durable images of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ImageSettings {
    /// The image that the machine starts from: a regular file. It may be absent
    /// when it is also [`Self::save_on_exit`]; the machine then starts at its
    /// base and makes it.
    pub load: Option<AbsolutePath>,
    /// Where the machine is saved when the host ends.
    pub save_on_exit: Option<AbsolutePath>,
    /// Whether clients may export and import images.
    pub operations: bool,
}

impl ImageSettings {
    fn read(at: &At<'_>) -> Result<Self, ManifestError> {
        let members = at.closed(&["load", "saveOnExit", "operations"])?;
        let save_on_exit = members
            .optional("saveOnExit")
            .map(|at| at.checked_path(AbsolutePath::writable))
            .transpose()?;
        let load = members.optional("load").map(|at| {
            at.checked_path(|path, files| {
                let own = save_on_exit.as_ref() == Some(&path);
                match files.kind(path.as_str()) {
                    EntryKind::Missing if own => Ok(path),
                    _ => path.regular_file(files),
                }
            })
        });
        Ok(Self {
            load: load.transpose()?,
            save_on_exit,
            operations: members.flag("operations")?,
        })
    }
}

impl MachineSettings {
    /// Most packages in [`Self::preload`].
    pub const MAX_PRELOAD: usize = 32;

    pub(super) fn read(at: &At<'_>) -> Result<Self, ManifestError> {
        let members = at.closed(&[
            "heapLimitBytes",
            "storeLimitBytes",
            "maxCheckpoints",
            "fileLimitBytes",
            "outputBytes",
            "interruptGraceMs",
            "guardIdleMs",
            "bootTimeoutMs",
            "spare",
            "wheels",
            "preload",
            "env",
            "timezone",
            "image",
        ])?;
        let default = Self::default();
        Ok(Self {
            heap_limit_bytes: members.bounded_or("heapLimitBytes", default.heap_limit_bytes)?,
            store_limit_bytes: members.bounded_or("storeLimitBytes", default.store_limit_bytes)?,
            max_checkpoints: members.bounded_or("maxCheckpoints", default.max_checkpoints)?,
            file_limit_bytes: members.bounded_or("fileLimitBytes", default.file_limit_bytes)?,
            output_bytes: members.bounded_or("outputBytes", default.output_bytes)?,
            interrupt_grace_ms: members
                .bounded_or("interruptGraceMs", default.interrupt_grace_ms)?,
            guard_idle_ms: members.bounded_or("guardIdleMs", default.guard_idle_ms)?,
            boot_timeout_ms: members.bounded_or("bootTimeoutMs", default.boot_timeout_ms)?,
            spare: match members.optional("spare") {
                Some(at) => at.boolean()?,
                None => default.spare,
            },
            wheels: members
                .optional("wheels")
                .map(|at| at.checked_path(AbsolutePath::directory))
                .transpose()?,
            preload: match members.optional("preload") {
                Some(at) => preload(&at)?,
                None => default.preload,
            },
            env: match members.optional("env") {
                Some(at) => GuestEnvironment::read(&at)?,
                None => default.env,
            },
            timezone: members
                .optional("timezone")
                .map(|at| timezone(&at))
                .transpose()?,
            image: match members.optional("image") {
                Some(at) => ImageSettings::read(&at)?,
                None => default.image,
            },
        })
    }
}

fn preload(at: &At<'_>) -> Result<Vec<String>, ManifestError> {
    let names = at.distinct(|at, text| {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let starts_well = !text.starts_with(|c: char| c.is_ascii_digit());
        if starts_well && text.chars().all(is_word) {
            return Ok(text.to_owned());
        }
        Err(at.fault(Fault::Form {
            expected: "a top-level package name: letters, digits and _, no dot",
        }))
    })?;
    if names.len() > MachineSettings::MAX_PRELOAD {
        let max = MachineSettings::MAX_PRELOAD;
        return Err(at.fault(Fault::TooMany { max }));
    }
    Ok(names.into_iter().map(|(_, name)| name).collect())
}

fn timezone(at: &At<'_>) -> Result<Timezone, ManifestError> {
    Timezone::parse(at.string()?).ok_or_else(|| at.fault(Fault::UnknownTimezone))
}
