//! The file system as manifest validation sees it.

use std::fs;
use std::path::Path;

use pyproc_policy::{EntryKind, ManifestFiles};

/// The real file system.
pub struct RealFiles;

impl ManifestFiles for RealFiles {
    fn kind(&self, path: &str) -> EntryKind {
        match fs::symlink_metadata(path) {
            Err(_) => EntryKind::Missing,
            Ok(metadata) if metadata.is_symlink() => EntryKind::Symlink,
            Ok(metadata) if metadata.is_file() => EntryKind::File,
            Ok(metadata) if metadata.is_dir() => EntryKind::Directory,
            Ok(_) => EntryKind::Other,
        }
    }

    fn canonicalize(&self, path: &str) -> Option<String> {
        fs::canonicalize(Path::new(path))
            .ok()?
            .into_os_string()
            .into_string()
            .ok()
    }

    fn size(&self, path: &str) -> Option<u64> {
        let metadata = fs::metadata(path).ok()?;
        metadata.is_file().then_some(metadata.len())
    }

    #[cfg(unix)]
    fn is_exposed(&self, path: &str) -> bool {
        use std::os::unix::fs::PermissionsExt;
        // A file that cannot be looked at is reported by the size check.
        fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0)
    }

    #[cfg(not(unix))]
    fn is_exposed(&self, _path: &str) -> bool {
        false
    }
}
