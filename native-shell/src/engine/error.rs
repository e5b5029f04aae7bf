//! What can go wrong with engine files, and what to do about it.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::digests::Sha256Digest;

/// A failure of engine preparation or verification.
///
/// Each text names the file at fault and the next step, on one line.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A core file is not there, or is not a regular file.
    #[error(
        "{}: the core file is missing; remove the directory and prepare it again with `pyproc-engine --out DIR`",
        path.display()
    )]
    Missing {
        /// The absent file.
        path: PathBuf,
    },

    /// A file has other content than the digest table says.
    #[error(
        "{}: the file is not what release {release} contains: expected {expected_bytes} bytes with SHA-256 {expected}, found {found_bytes} bytes with SHA-256 {found}; remove the directory and prepare it again with `pyproc-engine --out DIR`",
        path.display()
    )]
    Damaged {
        /// The damaged file.
        path: PathBuf,
        /// The release it was compared with: the one that most of the directory belongs to.
        release: &'static str,
        /// Size of the table, in bytes.
        expected_bytes: u64,
        /// Digest of the table.
        expected: Sha256Digest,
        /// Size of the file, in bytes.
        found_bytes: u64,
        /// Digest of the file.
        found: Sha256Digest,
    },

    /// A wheel has other content than the lock file says.
    #[error(
        "{}: the package is not what the lock file names: expected SHA-256 {expected}, found {found}; delete the file or fetch it again",
        path.display()
    )]
    PackageDamaged {
        /// The damaged package.
        path: PathBuf,
        /// Digest of the lock file.
        expected: Sha256Digest,
        /// Digest of the file.
        found: Sha256Digest,
    },

    /// The lock file cannot be read as one.
    #[error("{}: {reason}; prepare the engine again with `pyproc-engine --out DIR`", path.display())]
    Lock {
        /// The lock file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },

    /// The `--out` directory cannot be used.
    #[error("{}: {reason}", path.display())]
    Destination {
        /// The directory asked for.
        path: PathBuf,
        /// Why it is refused and what to do.
        reason: &'static str,
    },

    /// npm could not be started.
    #[error(
        "npm cannot be started ({source}); install Node.js with npm, or copy a prepared engine directory to this machine"
    )]
    NpmMissing {
        /// The operating system's reason.
        source: io::Error,
    },

    /// npm ended with a failure.
    #[error(
        "`{command}` failed ({status}): {stderr}; check the npm configuration and the network, then try again"
    )]
    Npm {
        /// The command line.
        command: String,
        /// Its exit status.
        status: String,
        /// The last lines of its standard error.
        stderr: String,
    },

    /// npm did not end in time.
    #[error("`{command}` did not end within {} s and was stopped; check the network, then try again", limit.as_secs())]
    NpmTimeout {
        /// The command line.
        command: String,
        /// The deadline that passed.
        limit: Duration,
    },

    /// A file of `engine.indexURL` could not be fetched.
    #[error(
        "{url}: the engine file cannot be fetched: {reason}; check engine.indexURL and the network, then try again"
    )]
    Fetch {
        /// The address of the file.
        url: String,
        /// What the client says.
        reason: String,
    },

    /// The package archive is not acceptable.
    #[error("{}: {reason}; nothing was installed", path.display())]
    Archive {
        /// The archive.
        path: PathBuf,
        /// The entry or limit at fault.
        reason: String,
    },

    /// No cache directory is known.
    #[error(
        "no cache directory: set XDG_CACHE_HOME or HOME to an absolute path, or name a directory with --out"
    )]
    NoCacheDir,

    /// The file system refused.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// The path at fault.
        path: PathBuf,
        /// What was attempted.
        action: &'static str,
        /// The operating system's reason.
        source: io::Error,
    },
}

impl EngineError {
    /// Attaches `path` and the attempted `action` to an operating system error.
    pub(super) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io {
            path,
            action,
            source,
        }
    }
}
