//! The seal of this installation: a MAC over an image's digest, put behind the
//! image. It says who made the image, not what is in it.

use std::env;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

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

    fn mac(&self, digest: &[u8]) -> [u8; 32] {
        hmac_sha256(&self.0, &[b"pyproc machine image 1\0", digest])
    }

    /// The seal of the image with this digest.
    pub fn seal(&self, digest: &[u8; DIGEST_BYTES]) -> [u8; SEAL_BYTES] {
        let mut seal = [0; SEAL_BYTES];
        seal[..MARK.len()].copy_from_slice(&MARK);
        seal[MARK.len()..].copy_from_slice(&self.mac(digest));
        seal
    }

    /// Whether this installation sealed the image, in a time that does not
    /// depend on where the seals differ.
    pub fn made(&self, digest: &[u8], seal: &[u8]) -> bool {
        let mac = seal.strip_prefix(&MARK);
        mac.is_some_and(|mac| self.mac(digest).ct_eq(mac).into())
    }
}

impl std::fmt::Debug for ImageKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ImageKey")
    }
}

/// HMAC-SHA256 (RFC 2104) of all `parts` together, with a key of at most one
/// block.
fn hmac_sha256(key: &[u8; KEY_BYTES], parts: &[&[u8]]) -> [u8; 32] {
    let pad = |byte: u8| {
        let mut block = [byte; 64];
        for (byte, key) in block.iter_mut().zip(key) {
            *byte ^= key;
        }
        block
    };
    let mut inner = Sha256::new_with_prefix(pad(0x36));
    for part in parts {
        inner.update(part);
    }
    let outer = Sha256::new_with_prefix(pad(0x5c));
    outer.chain_update(inner.finalize()).finalize().into()
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

    /// RFC 4231, test case 1: its key is this one with zeros behind it, which
    /// is what shorter keys are padded with.
    #[test]
    fn macs_are_those_of_the_standard() {
        let mut key = [0; KEY_BYTES];
        key[..20].fill(0x0b);
        let mac = hmac_sha256(&key, &[b"Hi ", b"There"]);
        let hex: String = mac.iter().map(|byte| format!("{byte:02x}")).collect();
        let expected = "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7";
        assert_eq!(hex, expected);
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
