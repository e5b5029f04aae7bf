//! The port through which validation sees the file system, and its scripted
//! and empty versions.

use std::collections::BTreeMap;

/// What a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EntryKind {
    /// Nothing.
    Missing,
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link; it is not followed.
    Symlink,
    /// A device, a socket, or something that cannot be inspected.
    Other,
}

/// How absolute paths are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum PathStyle {
    /// `/a/b`
    #[default]
    Posix,
    /// `C:\a\b`, `C:/a/b` or `\\server\share\a`
    Windows,
}

/// What validation asks about the file system. The answers are facts of the
/// moment: whoever opens a file later checks again what it opened.
pub trait ManifestFiles {
    /// How absolute paths are written; POSIX by default.
    fn path_style(&self) -> PathStyle {
        PathStyle::Posix
    }

    /// What the path leads to; a link as its last part is not followed.
    fn kind(&self, path: &str) -> EntryKind;

    /// The symlink-free absolute form of a path that leads to something, or
    /// `None` when it leads nowhere or cannot be written as text.
    fn canonicalize(&self, path: &str) -> Option<String>;

    /// Size of the regular file in bytes; `None` when there is none.
    fn size(&self, path: &str) -> Option<u64>;

    /// Whether anyone but the owner has a permission on the file (POSIX mode
    /// & 0o077). Platforms without such bits answer by their own means.
    fn is_exposed(&self, path: &str) -> bool;

    /// Whether the path leads to anything, a dangling link included.
    fn exists(&self, path: &str) -> bool {
        self.kind(path) != EntryKind::Missing
    }
}

/// An empty file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFiles;

impl ManifestFiles for NoFiles {
    fn kind(&self, _path: &str) -> EntryKind {
        EntryKind::Missing
    }

    fn canonicalize(&self, _path: &str) -> Option<String> {
        None
    }

    fn size(&self, _path: &str) -> Option<u64> {
        None
    }

    fn is_exposed(&self, _path: &str) -> bool {
        false
    }
}

/// A file system that exists only as a list of POSIX paths. Paths are exact:
/// neither `.` nor `..` nor doubled slashes are resolved.
#[derive(Clone, Debug, Default)]
pub struct ScriptedFiles {
    entries: BTreeMap<String, Entry>,
}

#[derive(Clone, Debug)]
enum Entry {
    File { size: u64, exposed: bool },
    Directory,
    Link(String),
    Other,
}

impl ScriptedFiles {
    /// Longest chain of links that is followed.
    const MAX_LINKS: usize = 40;

    /// An empty file system.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a private regular file and the directories above it.
    #[must_use]
    pub fn file(self, path: &str, size: u64) -> Self {
        let exposed = false;
        self.with(path, Entry::File { size, exposed })
    }

    /// Adds a regular file that others can read, and the directories above it.
    #[must_use]
    pub fn exposed_file(self, path: &str, size: u64) -> Self {
        let exposed = true;
        self.with(path, Entry::File { size, exposed })
    }

    /// Adds a directory and the directories above it.
    #[must_use]
    pub fn directory(self, path: &str) -> Self {
        self.with(path, Entry::Directory)
    }

    /// Adds a symbolic link to an absolute path, and the directories above it.
    #[must_use]
    pub fn link(self, path: &str, target: &str) -> Self {
        self.with(path, Entry::Link(target.to_owned()))
    }

    /// Adds something that is neither file, directory nor link.
    #[must_use]
    pub fn other(self, path: &str) -> Self {
        self.with(path, Entry::Other)
    }

    /// Adds a directory that passes for an engine (`engine.root`).
    #[must_use]
    pub fn engine(self, root: &str) -> Self {
        self.file(&format!("{root}/pyodide.js"), 1)
            .file(&format!("{root}/pyodide-lock.json"), 1)
    }

    fn with(mut self, path: &str, entry: Entry) -> Self {
        for (end, _) in path.match_indices('/').skip(1) {
            let above = self.entries.entry(path[..end].to_owned());
            above.or_insert(Entry::Directory);
        }
        self.entries.insert(path.to_owned(), entry);
        self
    }

    /// `path` with the links among the directories above its last part replaced.
    /// Every link costs one of `links`, so a loop ends.
    fn resolve_parents(&self, path: &str, links: &mut usize) -> Option<String> {
        match path.rsplit_once('/') {
            Some(("", _)) | None => Some(path.to_owned()),
            Some((above, name)) => Some(format!("{}/{name}", self.resolve(above, links)?)),
        }
    }

    fn resolve(&self, path: &str, links: &mut usize) -> Option<String> {
        let path = self.resolve_parents(path, links)?;
        match self.entries.get(&path)? {
            Entry::Link(target) => {
                *links = links.checked_sub(1)?;
                self.resolve(target, links)
            }
            _ => Some(path),
        }
    }

    fn entry(&self, path: &str) -> Option<&Entry> {
        let path = self.resolve_parents(path, &mut { Self::MAX_LINKS })?;
        self.entries.get(&path)
    }
}

impl ManifestFiles for ScriptedFiles {
    fn kind(&self, path: &str) -> EntryKind {
        match self.entry(path) {
            None => EntryKind::Missing,
            Some(Entry::File { .. }) => EntryKind::File,
            Some(Entry::Directory) => EntryKind::Directory,
            Some(Entry::Link(_)) => EntryKind::Symlink,
            Some(Entry::Other) => EntryKind::Other,
        }
    }

    fn canonicalize(&self, path: &str) -> Option<String> {
        self.resolve(path, &mut { Self::MAX_LINKS })
    }

    fn size(&self, path: &str) -> Option<u64> {
        match self.entry(path)? {
            Entry::File { size, .. } => Some(*size),
            _ => None,
        }
    }

    fn is_exposed(&self, path: &str) -> bool {
        matches!(self.entry(path), Some(Entry::File { exposed: true, .. }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_reported_by_kind_and_followed_by_canonicalize() {
        let files = ScriptedFiles::new()
            .file("/opt/real/f", 7)
            .link("/opt/link", "/opt/real")
            .link("/opt/loop", "/opt/loop/below")
            .link("/opt/dangling", "/nowhere");
        assert_eq!(files.kind("/opt/link"), EntryKind::Symlink);
        assert_eq!(files.kind("/opt/link/f"), EntryKind::File);
        assert_eq!(files.size("/opt/link/f"), Some(7));
        let real = files.canonicalize("/opt/link/f");
        assert_eq!(real.as_deref(), Some("/opt/real/f"));
        assert_eq!(files.canonicalize("/opt/dangling"), None);
        assert_eq!(files.canonicalize("/opt/loop"), None);
        assert!(files.exists("/opt/dangling"));
        assert_eq!(files.kind("/opt"), EntryKind::Directory);
        assert_eq!(files.kind("/other"), EntryKind::Missing);
    }
}
