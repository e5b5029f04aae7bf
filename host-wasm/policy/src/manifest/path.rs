//! Absolute paths of the manifest and the questions validation asks about them.

use std::fmt;

use super::{EntryKind, FileFault, ManifestFiles, PathStyle};

/// An absolute path in the platform's own form, as text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AbsolutePath(String);

impl AbsolutePath {
    /// Takes an absolute path as it stands.
    ///
    /// # Errors
    ///
    /// [`FileFault::NotAbsolute`] for a relative or empty path and for one with
    /// a NUL character.
    pub fn parse(text: &str, style: PathStyle) -> Result<Self, FileFault> {
        if is_absolute(text, style) && !text.contains('\0') {
            Ok(Self(text.to_owned()))
        } else {
            Err(FileFault::NotAbsolute)
        }
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Checks that a regular file is there, following links.
    pub(super) fn regular_file(self, files: &dyn ManifestFiles) -> Result<Self, FileFault> {
        match followed(&self.0, files)? {
            (_, EntryKind::File) => Ok(self),
            _ => Err(FileFault::NotRegular),
        }
    }

    /// The symlink-free form of a directory that must be there.
    pub(super) fn directory(self, files: &dyn ManifestFiles) -> Result<Self, FileFault> {
        match followed(&self.0, files)? {
            (canonical, EntryKind::Directory) => Ok(Self(canonical)),
            _ => Err(FileFault::NotDirectory),
        }
    }

    /// Checks a file that must be there, not be a link, and have at most `max` bytes.
    pub(super) fn bounded_file(
        self,
        max: u64,
        files: &dyn ManifestFiles,
    ) -> Result<Self, FileFault> {
        match files.kind(&self.0) {
            EntryKind::Missing => Err(FileFault::Missing),
            EntryKind::Symlink => Err(FileFault::Link),
            EntryKind::File if files.size(&self.0).is_some_and(|size| size <= max) => Ok(self),
            EntryKind::File => Err(FileFault::TooLarge { max }),
            EntryKind::Directory | EntryKind::Other => Err(FileFault::NotRegular),
        }
    }

    /// Checks that a file could be created here: the path has a file name and
    /// its directory exists and is not a link.
    pub(super) fn creatable(self, files: &dyn ManifestFiles) -> Result<Self, FileFault> {
        let (above, name) = split(&self.0, files.path_style());
        if matches!(name, "" | "." | "..") {
            return Err(FileFault::NoFileName);
        }
        match files.kind(above) {
            EntryKind::Directory => Ok(self),
            _ => Err(FileFault::Parent),
        }
    }

    /// Checks that the product can write a file here: [`Self::creatable`], and
    /// nothing but a regular file is there yet.
    pub(super) fn writable(self, files: &dyn ManifestFiles) -> Result<Self, FileFault> {
        let path = self.creatable(files)?;
        match files.kind(&path.0) {
            EntryKind::Missing | EntryKind::File => Ok(path),
            EntryKind::Symlink => Err(FileFault::Link),
            EntryKind::Directory | EntryKind::Other => Err(FileFault::NotRegular),
        }
    }

    /// The path of the entry `name` of this directory.
    pub(super) fn join(&self, name: &str, style: PathStyle) -> String {
        let separator = match style {
            PathStyle::Posix => '/',
            PathStyle::Windows => '\\',
        };
        let above = self.0.trim_end_matches(|c| is_separator(c, style));
        format!("{above}{separator}{name}")
    }
}

impl fmt::Display for AbsolutePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether the text is a list of absolute paths in the platform's `PATH` form.
pub(super) fn is_path_list(text: &str, style: PathStyle) -> bool {
    let separator = match style {
        PathStyle::Posix => ':',
        PathStyle::Windows => ';',
    };
    let mut parts = text.split(separator).filter(|part| !part.is_empty());
    parts.clone().count() > 1 && parts.all(|part| is_absolute(part, style))
}

/// Whether a symlink-free path is a descendant of a symlink-free directory.
pub(super) fn is_below(path: &str, root: &str, style: PathStyle) -> bool {
    let rest = path.strip_prefix(root);
    rest.is_some_and(|rest| {
        let separated = rest.starts_with(|c| is_separator(c, style));
        (separated || root.ends_with(|c| is_separator(c, style)))
            && rest.len() > usize::from(separated)
    })
}

/// Where the path leads after its links.
fn followed(path: &str, files: &dyn ManifestFiles) -> Result<(String, EntryKind), FileFault> {
    let canonical = files.canonicalize(path).ok_or(FileFault::Missing)?;
    let kind = files.kind(&canonical);
    Ok((canonical, kind))
}

fn is_absolute(text: &str, style: PathStyle) -> bool {
    match style {
        PathStyle::Posix => text.starts_with('/'),
        PathStyle::Windows => {
            let drive = matches!(
                text.as_bytes(),
                [letter, b':', b'/' | b'\\', ..] if letter.is_ascii_alphabetic()
            );
            drive || text.starts_with(r"\\")
        }
    }
}

fn is_separator(c: char, style: PathStyle) -> bool {
    c == '/' || (style == PathStyle::Windows && c == '\\')
}

/// The directory above the last part, and the last part. A root keeps its separator.
fn split(path: &str, style: PathStyle) -> (&str, &str) {
    match path.rfind(|c| is_separator(c, style)) {
        None => ("", path),
        Some(position) => {
            let above = path[..position].trim_end_matches(|c| is_separator(c, style));
            let is_root = above.is_empty() || above.ends_with(':');
            let above = if is_root { &path[..=position] } else { above };
            (above, &path[position + 1..])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ScriptedFiles;

    #[test]
    fn absolute_means_what_the_platform_means() {
        for (text, posix, windows) in [
            ("/opt/x", true, false),
            ("opt/x", false, false),
            ("", false, false),
            ("C:\\x", false, true),
            ("c:/x", false, true),
            ("C:x", false, false),
            (r"\\server\share", false, true),
            ("/a\0b", false, false),
        ] {
            let is = |style| AbsolutePath::parse(text, style).is_ok();
            assert_eq!(is(PathStyle::Posix), posix, "{text}");
            assert_eq!(is(PathStyle::Windows), windows, "{text}");
        }
    }

    #[test]
    fn a_path_splits_into_its_directory_and_its_name() {
        for (path, style, parts) in [
            ("/a/b", PathStyle::Posix, ("/a", "b")),
            ("/b", PathStyle::Posix, ("/", "b")),
            ("/a/b/", PathStyle::Posix, ("/a/b", "")),
            ("/a//b", PathStyle::Posix, ("/a", "b")),
            (r"/a/b\c", PathStyle::Posix, ("/a", r"b\c")),
            (r"C:\b", PathStyle::Windows, (r"C:\", "b")),
            (r"C:\a/b", PathStyle::Windows, (r"C:\a", "b")),
        ] {
            assert_eq!(split(path, style), parts, "{path}");
        }
    }

    #[test]
    fn a_file_can_be_written_where_nothing_but_a_file_is() {
        let files = ScriptedFiles::new()
            .file("/run/old", 1)
            .directory("/run/dir")
            .link("/run/link", "/run/old")
            .link("/linked", "/run");
        let writable = |text| {
            let path = AbsolutePath::parse(text, PathStyle::Posix);
            path.and_then(|path| path.writable(&files)).err()
        };
        assert_eq!(writable("/run/new"), None);
        assert_eq!(writable("/run/old"), None);
        assert_eq!(writable("/run/dir"), Some(FileFault::NotRegular));
        assert_eq!(writable("/run/link"), Some(FileFault::Link));
        assert_eq!(writable("/linked/new"), Some(FileFault::Parent));
        assert_eq!(writable("/none/new"), Some(FileFault::Parent));
        assert_eq!(writable("/run/new/"), Some(FileFault::NoFileName));
        assert_eq!(writable("/run/.."), Some(FileFault::NoFileName));
    }

    #[test]
    fn a_directory_holds_its_descendants_and_nothing_beside_it() {
        let below = |path, root| is_below(path, root, PathStyle::Posix);
        assert!(below("/up/a", "/up"));
        assert!(below("/up/a/b", "/up"));
        assert!(below("/up", "/"));
        assert!(!below("/upper/a", "/up"));
        assert!(!below("/up", "/up"));
        assert!(!below("/up/", "/up"));
        assert!(!below("/", "/"));
        assert!(!below(r"/up\a", "/up"));
        assert!(is_below(r"C:\up\a", r"C:\up", PathStyle::Windows));
    }

    #[test]
    fn only_several_absolute_paths_are_a_list() {
        assert!(is_path_list("/a:/b", PathStyle::Posix));
        assert!(!is_path_list("/a:b", PathStyle::Posix));
        assert!(!is_path_list("/a", PathStyle::Posix));
        assert!(is_path_list(r"C:\a;D:\b", PathStyle::Windows));
        assert!(!is_path_list(r"C:\a", PathStyle::Windows));
    }
}
