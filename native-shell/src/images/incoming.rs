//! What a page sends: collected in parts, and then handed over. An image is
//! checked against its own digest and sealed, and may be stored instead.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use super::seal::{ImageKey, SEAL_BYTES};
use crate::core::{Link, Purpose, Transfer};
use crate::diagnostics;
use crate::engine::files::{TEMPORARY_PREFIX, sync_dir};

const DIGEST_BYTES: usize = 32;

/// Bytes that are not complete yet. What cannot be kept is still taken to its
/// end: the page goes on sending, and its connection is good.
pub(super) struct Incoming {
    ticket: u64,
    link: Link,
    missing: u64,
    kept: Result<Kept, String>,
}

enum Kept {
    Display(Vec<u8>),
    Image(Image),
}

/// More came than the page announced.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Overrun;

struct Image {
    sink: Sink,
    hash: Sha256,
    /// The last bytes so far, which may be the digest.
    tail: Vec<u8>,
}

enum Sink {
    Memory(Vec<u8>),
    File { file: NamedTempFile, path: PathBuf },
}

impl Incoming {
    /// Nothing has arrived; with a `target` the image goes to that file.
    pub(super) fn begin(transfer: &Transfer, target: Option<PathBuf>) -> Self {
        let length = usize::try_from(transfer.byte_length).unwrap_or(0);
        let kept = match transfer.purpose {
            Purpose::Display => Ok(Kept::Display(Vec::with_capacity(length))),
            Purpose::Export | Purpose::Save => Image::begin(length, target).map(Kept::Image),
        };
        Self {
            ticket: transfer.ticket,
            link: transfer.link,
            missing: transfer.byte_length,
            kept: kept.map_err(|error| error.to_string()),
        }
    }

    pub(super) fn ticket(&self) -> u64 {
        self.ticket
    }

    pub(super) fn link(&self) -> Link {
        self.link
    }

    /// Takes a part; the result says whether it was the last one.
    pub(super) fn take(&mut self, part: &[u8]) -> Result<bool, Overrun> {
        self.missing = self.missing.checked_sub(part.len() as u64).ok_or(Overrun)?;
        if let Ok(kept) = &mut self.kept
            && let Err(error) = kept.take(part)
        {
            // The temporary file goes with what was kept.
            self.kept = Err(error.to_string());
        }
        Ok(self.missing == 0)
    }

    /// Checks and seals a complete image. The result is what was sent, or
    /// nothing when it is in its file now; else why there is none.
    pub(super) fn finish(self) -> Result<Vec<u8>, String> {
        match self.kept? {
            Kept::Display(bytes) => Ok(bytes),
            Kept::Image(image) => image.finish().map_err(|error| error.to_string()),
        }
    }
}

impl Kept {
    fn take(&mut self, part: &[u8]) -> io::Result<()> {
        match self {
            Self::Display(bytes) => {
                bytes.extend_from_slice(part);
                Ok(())
            }
            Self::Image(image) => image.take(part),
        }
    }
}

impl Image {
    fn begin(length: usize, target: Option<PathBuf>) -> io::Result<Self> {
        let sink = match target {
            Some(path) => Sink::file(path)?,
            None => Sink::Memory(Vec::with_capacity(length.saturating_add(SEAL_BYTES))),
        };
        Ok(Self {
            sink,
            hash: Sha256::new(),
            tail: Vec::new(),
        })
    }

    fn take(&mut self, part: &[u8]) -> io::Result<()> {
        self.sink.write(part)?;
        if part.len() >= DIGEST_BYTES {
            let end = part.len() - DIGEST_BYTES;
            self.hash.update(&self.tail);
            self.hash.update(&part[..end]);
            self.tail = part[end..].to_vec();
        } else {
            self.tail.extend_from_slice(part);
            let settled = self.tail.len().saturating_sub(DIGEST_BYTES);
            self.hash.update(&self.tail[..settled]);
            self.tail.drain(..settled);
        }
        Ok(())
    }

    fn finish(self) -> io::Result<Vec<u8>> {
        let digest: [u8; DIGEST_BYTES] = self.hash.finalize().into();
        if self.tail != digest {
            return Err(io::Error::other("the image was damaged on its way"));
        }
        let mut sink = self.sink;
        match ImageKey::of_user() {
            Ok(key) => sink.write(&key.seal(&digest))?,
            // It is still good for whoever is told to trust it.
            Err(error) => diagnostics::line(&format!("the image carries no seal: {error}")),
        }
        match sink {
            Sink::Memory(image) => Ok(image),
            Sink::File { file, path } => {
                let folder = folder_of(&path)?;
                file.as_file().sync_all()?;
                file.persist(&path).map_err(|error| error.error)?;
                sync_dir(&folder)?;
                Ok(Vec::new())
            }
        }
    }
}

impl Sink {
    /// A file beside `path`, with mode 0600, that is removed unless it is
    /// renamed.
    fn file(path: PathBuf) -> io::Result<Self> {
        let folder = folder_of(&path)?;
        let file = tempfile::Builder::new()
            .prefix(TEMPORARY_PREFIX)
            .tempfile_in(folder)?;
        Ok(Self::File { file, path })
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Memory(image) => {
                image.extend_from_slice(bytes);
                Ok(())
            }
            Self::File { file, .. } => file.write_all(bytes),
        }
    }
}

/// The folder that an image is stored in. What was true when the manifest was
/// read must still be: neither folder nor file is a link, and the file is a
/// regular one or not there.
fn folder_of(path: &Path) -> io::Result<PathBuf> {
    let refused = |what: &Path, why: &str| {
        let message = format!("{} {why}", what.display());
        io::Error::other(message)
    };
    let folder = path.parent().unwrap_or(Path::new("/"));
    if !fs::symlink_metadata(folder)?.is_dir() {
        return Err(refused(folder, "is not a directory, or is a link"));
    }
    match fs::symlink_metadata(path) {
        Ok(found) if !found.is_file() => Err(refused(path, "is not a regular file")),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(folder.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transfer(byte_length: usize) -> Transfer {
        Transfer {
            ticket: 1,
            link: 1,
            byte_length: byte_length as u64,
            purpose: Purpose::Export,
        }
    }

    fn kept_image(incoming: Incoming) -> Image {
        match incoming.kept.unwrap() {
            Kept::Image(image) => image,
            Kept::Display(_) => panic!("an image"),
        }
    }

    #[test]
    fn what_is_displayed_is_handed_over_as_it_is() {
        let transfer = Transfer {
            purpose: Purpose::Display,
            ..transfer(5)
        };
        let mut incoming = Incoming::begin(&transfer, None);
        assert_eq!(incoming.take(b"ab"), Ok(false));
        assert_eq!(incoming.take(b"cde"), Ok(true));
        assert_eq!(incoming.finish().unwrap(), b"abcde");
    }

    fn image() -> Vec<u8> {
        let mut image: Vec<u8> = (0..200).collect();
        let digest = Sha256::digest(&image);
        image.extend(digest);
        image
    }

    fn entries(dir: &Path) -> usize {
        fs::read_dir(dir).unwrap().count()
    }

    #[test]
    fn the_digest_is_checked_however_the_parts_are_cut() {
        for part in [1, 7, 31, 32, 33, 100, 232] {
            let mut incoming = Incoming::begin(&transfer(232), None);
            let image = image();
            let last = image.chunks(part).map(|part| incoming.take(part).unwrap());
            assert_eq!(last.last(), Some(true));
            let kept = kept_image(incoming);
            let digest: [u8; 32] = kept.hash.finalize().into();
            assert_eq!(kept.tail, digest, "parts of {part}");
        }
    }

    #[test]
    fn a_damaged_image_is_refused_and_leaves_the_file_of_before() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("image");
        fs::write(&target, b"before").unwrap();
        let mut image = image();
        image[5] ^= 1;
        let mut incoming = Incoming::begin(&transfer(232), Some(target.clone()));
        assert_eq!(incoming.take(&image), Ok(true));
        assert!(incoming.finish().is_err());
        assert_eq!(fs::read(&target).unwrap(), b"before");
        assert_eq!(entries(dir.path()), 1);
    }

    #[test]
    fn an_image_that_cannot_be_written_is_taken_to_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("gone/image");
        let mut incoming = Incoming::begin(&transfer(232), Some(target));
        let image = image();
        assert_eq!(incoming.take(&image[..100]), Ok(false));
        assert_eq!(incoming.take(&image[100..]), Ok(true));
        assert!(incoming.finish().is_err());
    }

    #[test]
    fn an_image_whose_writing_fails_midway_is_taken_to_its_end_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("image");
        let mut incoming = Incoming::begin(&transfer(232), Some(target));
        let image = image();
        assert_eq!(incoming.take(&image[..100]), Ok(false));
        if let Ok(Kept::Image(image)) = &mut incoming.kept
            && let Sink::File { file, .. } = &mut image.sink
        {
            // From now on every write fails.
            *file.as_file_mut() = fs::File::open(file.path()).unwrap();
        }
        assert_eq!(incoming.take(&image[100..200]), Ok(false));
        assert_eq!(entries(dir.path()), 0);
        assert_eq!(incoming.take(&image[200..]), Ok(true));
        assert!(incoming.finish().is_err());
    }

    #[test]
    fn an_image_that_is_abandoned_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("image");
        let mut incoming = Incoming::begin(&transfer(232), Some(target));
        assert_eq!(incoming.take(&image()[..100]), Ok(false));
        assert_eq!(entries(dir.path()), 1);
        drop(incoming);
        assert_eq!(entries(dir.path()), 0);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_not_written_to() {
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().unwrap();
        let (real, other) = (dir.path().join("real"), dir.path().join("other"));
        fs::create_dir(&real).unwrap();
        fs::write(&other, b"other").unwrap();
        symlink(&other, real.join("image")).unwrap();
        symlink(&real, dir.path().join("linked")).unwrap();
        for target in [real.join("image"), dir.path().join("linked/new")] {
            let mut incoming = Incoming::begin(&transfer(232), Some(target));
            assert_eq!(incoming.take(&image()), Ok(true));
            assert!(incoming.finish().is_err());
        }
        assert_eq!(fs::read(&other).unwrap(), b"other");
        assert_eq!(entries(&real), 1);
    }

    #[test]
    fn more_than_announced_is_refused() {
        let mut incoming = Incoming::begin(&transfer(10), None);
        assert_eq!(incoming.take(&[0; 9]), Ok(false));
        assert_eq!(incoming.take(&[0; 2]), Err(Overrun));
    }
}
