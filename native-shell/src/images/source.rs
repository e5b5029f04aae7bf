//! Images that come from files.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Component, Path};

use super::IMAGE_LIMIT;
use super::seal::{self, ImageKey, SEAL_BYTES};

/// Why a file is not imported.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The path is not one that may be named.
    #[error("{0}")]
    Place(&'static str),
    /// The file cannot be read.
    #[error("the image cannot be read: {0}")]
    Read(#[from] io::Error),
    /// There is more in it than an image may have.
    #[error("the file has {0} bytes, an image at most {IMAGE_LIMIT}")]
    TooLarge(u64),
    /// Another installation made it, or none.
    #[error(
        "the image does not carry the seal of this installation; import it with trusted: true if \
         you know who made it"
    )]
    Foreign,
}

impl SourceError {
    /// The request is wrong, not the image.
    pub(super) fn is_of_request(&self) -> bool {
        matches!(self, Self::Place(_) | Self::Read(_))
    }
}

/// Reads the image that a client names: a regular file at an absolute path
/// without links, sealed by this installation unless it is `trusted`. The
/// result is without its seal.
pub(super) fn read(path: &str, trusted: bool) -> Result<Vec<u8>, SourceError> {
    let path = Path::new(path);
    if !path.is_absolute() || path.components().any(|part| part == Component::ParentDir) {
        return Err(SourceError::Place("path must be absolute, without `..`"));
    }
    for part in path.ancestors() {
        if fs::symlink_metadata(part)?.is_symlink() {
            return Err(SourceError::Place("path must not lead through a link"));
        }
    }
    let (image, sealed) = read_file(path, trusted)?;
    match sealed || trusted {
        true => Ok(image),
        false => Err(SourceError::Foreign),
    }
}

/// Reads an image that the manifest names, which trusts it.
///
/// # Errors
///
/// It is not a regular file, cannot be read, or is too large.
pub fn read_trusted(path: &Path) -> Result<Vec<u8>, SourceError> {
    read_file(path, true).map(|(image, _)| image)
}

/// The image without its seal, and whether this installation made it, which
/// is looked at only when it is not trusted.
fn read_file(path: &Path, trusted: bool) -> Result<(Vec<u8>, bool), SourceError> {
    // Before it is opened: opening a pipe would wait for its other end.
    let found = fs::metadata(path)?;
    if !found.is_file() {
        return Err(SourceError::Place("path must name a regular file"));
    }
    let limit = IMAGE_LIMIT + SEAL_BYTES as u64;
    let length = found.len();
    if length > limit {
        return Err(SourceError::TooLarge(length));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    let Some(found) = seal::find(&bytes) else {
        return Ok((bytes, false));
    };
    // Without a key this installation has made none.
    let made = |key: ImageKey| key.made(found.digest, found.seal);
    let sealed = !trusted && ImageKey::of_user().is_ok_and(made);
    let length = found.length;
    bytes.truncate(length);
    Ok((bytes, sealed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_at_plain_absolute_paths_may_be_named() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let file = dir.join("a");
        fs::write(&file, b"image").unwrap();
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        assert_eq!(read(&text(&file), true).unwrap(), b"image");
        let mut refused = vec![
            text(&dir),
            text(&dir.join("deeper/../a")),
            "a".to_owned(),
            String::new(),
            "/".to_owned(),
        ];
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(&file, dir.join("link")).unwrap();
            std::os::unix::fs::symlink(&dir, dir.join("around")).unwrap();
            refused.extend([text(&dir.join("link")), text(&dir.join("around/a"))]);
        }
        for path in refused {
            let error = read(&path, true).unwrap_err();
            let place = matches!(error, SourceError::Place(_));
            assert!(place && error.is_of_request(), "{path}: {error}");
        }
        let error = read(&text(&dir.join("missing")), true).unwrap_err();
        let unreadable = matches!(error, SourceError::Read(_));
        assert!(unreadable && error.is_of_request(), "{error}");
        let error = read(&text(&file), false).unwrap_err();
        let foreign = matches!(error, SourceError::Foreign);
        assert!(foreign && !error.is_of_request(), "{error}");
    }

    #[test]
    fn a_file_that_is_too_large_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("large");
        let file = File::create(&path).unwrap();
        // Nothing is written: the file is a hole.
        file.set_len(IMAGE_LIMIT + SEAL_BYTES as u64 + 1).unwrap();
        let error = read_trusted(&path).unwrap_err();
        assert!(matches!(error, SourceError::TooLarge(_)), "{error}");
    }
}
