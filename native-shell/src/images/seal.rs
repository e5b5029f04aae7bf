//! The seal of this installation: a MAC over an image's digest, put behind the
//! image. It says who made the image, not what is in it.

use std::env;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use hmac::{Hmac, Mac};
use sha2::Sha256;

const KEY_BYTES: usize = 32;
const DIGEST_BYTES: usize = 32;
const MARK: [u8; 8] = *b"MIMGSEAL";

/// Bytes that a seal adds to an image.
pub const SEAL_BYTES: usize = MARK.len() + 32;

/// The key of this installation.
pub struct ImageKey([u8; KEY_BYTES]);

impl ImageKey {
    /// Reads the key in the user's data directory, and makes it on first use,
    /// readable by its owner only.
    ///
    /// # Errors
    ///
    /// There is no data directory, it cannot be used, or the file is not a key.
    pub fn of_user() -> io::Result<Self> {
        let absolute = |name| {
            let path = env::var_os(name).map(PathBuf::from);
            path.filter(|path| path.is_absolute())
        };
        let data = absolute("XDG_DATA_HOME")
            .or_else(|| absolute("HOME").map(|home| home.join(".local/share")))
            .ok_or_else(|| io::Error::other("neither XDG_DATA_HOME nor HOME names a directory"))?;
        Self::load_or_make(&data.join("pyproc"))
    }

    fn load_or_make(dir: &Path) -> io::Result<Self> {
        let path = dir.join("image.key");
        if !path.try_exists()? {
            make_key(dir, &path)?;
        }
        let mut key = Vec::new();
        File::open(&path)?
            .take(KEY_BYTES as u64 + 1)
            .read_to_end(&mut key)?;
        let key = <[u8; KEY_BYTES]>::try_from(key)
            .map_err(|_| io::Error::other(format!("{} is not an image key", path.display())))?;
        Ok(Self(key))
    }

    fn mac(&self, digest: &[u8]) -> Hmac<Sha256> {
        // What HMAC makes of a key that is shorter than a block.
        let mut block = [0; 64];
        block[..KEY_BYTES].copy_from_slice(&self.0);
        Hmac::new(&block.into())
            .chain_update(b"pyproc machine image 1\0")
            .chain_update(digest)
    }

    /// The seal of the image with this digest.
    pub fn seal(&self, digest: &[u8; DIGEST_BYTES]) -> [u8; SEAL_BYTES] {
        let mut seal = [0; SEAL_BYTES];
        seal[..MARK.len()].copy_from_slice(&MARK);
        seal[MARK.len()..].copy_from_slice(&self.mac(digest).finalize().into_bytes());
        seal
    }

    /// Whether this installation sealed the image, in a time that does not
    /// depend on where the seals differ.
    pub fn made(&self, digest: &[u8], seal: &[u8]) -> bool {
        let mac = seal.strip_prefix(&MARK);
        mac.is_some_and(|mac| self.mac(digest).verify_slice(mac).is_ok())
    }
}

impl std::fmt::Debug for ImageKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ImageKey")
    }
}

/// Two processes that make it at once agree on the one that was first.
fn make_key(dir: &Path, path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)?;
    let mut key = [0; KEY_BYTES];
    getrandom::fill(&mut key).map_err(io::Error::from)?;
    // Created with mode 0600.
    let mut file = tempfile::NamedTempFile::new_in(dir)?;
    file.write_all(&key)?;
    file.as_file().sync_all()?;
    match file.persist_noclobber(path) {
        Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => Err(error.error),
        _ => fs::metadata(path).map(|_| ()),
    }
}

/// A file that ends with a seal.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sealed<'a> {
    /// Length of the image before the seal.
    pub(super) length: usize,
    /// The image's digest, which ends it.
    pub(super) digest: &'a [u8],
    /// The seal.
    pub(super) seal: &'a [u8],
}

/// Finds the seal of a file, if it has one.
pub(super) fn find(bytes: &[u8]) -> Option<Sealed<'_>> {
    let length = bytes.len().checked_sub(SEAL_BYTES)?;
    let (image, seal) = bytes.split_at(length);
    let digest = &image[length.checked_sub(DIGEST_BYTES)?..];
    seal.starts_with(&MARK).then_some(Sealed {
        length,
        digest,
        seal,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_once_and_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("pyproc");
        let first = ImageKey::load_or_make(&home).unwrap();
        let second = ImageKey::load_or_make(&home).unwrap();
        assert_eq!(first.0, second.0);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(home.join("image.key")).unwrap().permissions();
            assert_eq!(mode.mode() & 0o777, 0o600);
        }
        fs::write(home.join("image.key"), b"short").unwrap();
        assert!(ImageKey::load_or_make(&home).is_err());
    }

    /// Images outlive builds: so must what seals them.
    #[test]
    fn the_seal_is_always_the_same() {
        let seal = ImageKey([1; 32]).seal(&[7; 32]);
        assert_eq!(seal[..MARK.len()], MARK);
        let mac: String = seal[MARK.len()..]
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect();
        let expected = "3b6afd13c613a4ba29c65e09f2faddb7f4039448eaa82189da24c987e43d3851";
        assert_eq!(mac, expected);
    }

    #[test]
    fn only_the_own_seal_over_the_same_digest_counts() {
        let (own, other) = (ImageKey([1; 32]), ImageKey([2; 32]));
        let seal = own.seal(&[7; 32]);
        assert!(own.made(&[7; 32], &seal));
        assert!(!own.made(&[8; 32], &seal));
        assert!(!other.made(&[7; 32], &seal));
        let mut image = vec![7; 40];
        assert_eq!(find(&image), None);
        image.extend(seal);
        let found = Sealed {
            length: 40,
            digest: &[7; 32],
            seal: &seal,
        };
        assert_eq!(find(&image), Some(found));
        assert_eq!(find(&image[40..]), None);
    }
}
