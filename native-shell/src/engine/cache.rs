//! Where prepared things live: the engine directory and the boot images.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sha2::{Digest, Sha256};

use super::digests::{Sha256Digest, pinned};
use super::error::EngineError;
use super::files;

/// Largest boot image that is kept or read, in bytes. One is about 20 MB.
const IMAGE_LIMIT: u64 = 256 * 1024 * 1024;

/// Boot images that stay: of the running product and of the ones last used beside it.
const IMAGES_KEPT: usize = 3;

const IMAGE_EXTENSION: &str = "bim";
const SIDECAR_EXTENSION: &str = "sha256";

/// The product's directory in the user's cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheDir(PathBuf);

impl CacheDir {
    /// `pyproc` in `XDG_CACHE_HOME`, else in `.cache` of `HOME`; values that are not absolute
    /// paths do not count.
    ///
    /// # Errors
    /// Neither variable helps.
    pub fn from_env() -> Result<Self, EngineError> {
        Self::resolve(env::var_os("XDG_CACHE_HOME"), env::var_os("HOME"))
    }

    fn resolve(xdg: Option<OsString>, home: Option<OsString>) -> Result<Self, EngineError> {
        let absolute =
            |value: OsString| Some(PathBuf::from(value)).filter(|path| path.is_absolute());
        xdg.and_then(absolute)
            .or_else(|| home.and_then(absolute).map(|home| home.join(".cache")))
            .map(|cache| Self(cache.join("pyproc")))
            .ok_or(EngineError::NoCacheDir)
    }

    /// A cache in the directory `root`.
    #[must_use]
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self(root.into())
    }

    /// Where the pinned engine release is prepared when nothing else is said.
    #[must_use]
    pub fn engine_dir(&self) -> PathBuf {
        self.0.join("engine").join(pinned().version).join("pyodide")
    }

    /// The directory itself, there or not.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.0
    }

    /// Lines typed in interactive sessions, for the owner only.
    #[must_use]
    pub fn history(&self) -> PathBuf {
        self.0.join("history")
    }

    /// The store of boot images.
    #[must_use]
    pub fn boot_images(&self) -> BootImageCache {
        BootImageCache {
            dir: self.0.join("boot-image"),
        }
    }
}

/// What a boot image depends on (machine 5.1).
#[derive(Clone, Copy, Debug)]
pub struct BootImageKey {
    /// Digest of the engine.
    pub engine: Sha256Digest,
    /// Digest over the page assets that make and load the image: prelude, interposition, worker.
    pub assets: Sha256Digest,
}

impl BootImageKey {
    /// One digest over all parts; each part is preceded by its length, so no two keys meet.
    #[must_use]
    pub fn digest(&self) -> Sha256Digest {
        let mut hash = Sha256::new();
        let parts: [&[u8]; 2] = [&self.engine.0, &self.assets.0];
        for part in parts {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        Sha256Digest(hash.finalize().into())
    }
}

/// Answer of [`BootImageCache::load`].
#[derive(Debug, PartialEq, Eq)]
pub enum CachedImage {
    /// The image, equal to its recorded digest.
    Intact(Vec<u8>),
    /// Nothing is stored under the key.
    Absent,
    /// What was stored did not equal its recorded digest and was removed: make it again.
    Damaged,
}

/// Boot images by key, each with its digest in a file beside it.
///
/// A miss makes a start slow, never wrong, so callers report errors and go on without the cache.
#[derive(Clone, Debug)]
pub struct BootImageCache {
    dir: PathBuf,
}

impl BootImageCache {
    /// File of the image with that key, there or not.
    #[must_use]
    pub fn path(&self, key: &BootImageKey) -> PathBuf {
        self.dir
            .join(key.digest().to_string())
            .with_extension(IMAGE_EXTENSION)
    }

    /// Reads the image of `key` and checks it.
    ///
    /// # Errors
    /// The file system refuses to read or, for a damaged image, to remove.
    pub fn load(&self, key: &BootImageKey) -> Result<CachedImage, EngineError> {
        let path = self.path(key);
        let opened = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(CachedImage::Absent);
            }
            opened => opened,
        };
        let image = match opened.and_then(|file| files::read_bounded(file, IMAGE_LIMIT)) {
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => None,
            read => Some(read.map_err(EngineError::io("read the boot image", &path))?),
        };
        let recorded = fs::read_to_string(sidecar(&path)).ok();
        let recorded = recorded.and_then(|text| Sha256Digest::from_hex(text.trim_end()));
        match image {
            Some(image) if recorded == Some(Sha256Digest::of(&image)) => {
                mark_used(&path);
                Ok(CachedImage::Intact(image))
            }
            _ => {
                remove(&path).map_err(EngineError::io("remove the damaged boot image", &path))?;
                Ok(CachedImage::Damaged)
            }
        }
    }

    /// Stores `image` under `key`, readable by the owner only, and removes the images that were
    /// not used for longest beyond a small number. Returns the image's path.
    ///
    /// # Errors
    /// The image is larger than 256 MiB, or the file system refuses; a reader then sees the old
    /// image or none.
    pub fn store(&self, key: &BootImageKey, image: &[u8]) -> Result<PathBuf, EngineError> {
        let path = self.path(key);
        let write = EngineError::io("write the boot image", &path);
        if image.len() as u64 > IMAGE_LIMIT {
            return Err(write(io::ErrorKind::FileTooLarge.into()));
        }
        let digest = format!("{}\n", Sha256Digest::of(image));
        files::create_private_dir(&self.dir)
            .and_then(|()| files::write_atomic(&path, image))
            .and_then(|()| files::write_atomic(&sidecar(&path), digest.as_bytes()))
            .map_err(write)?;
        self.prune(&path)
            .map_err(EngineError::io("prune the boot images in", &self.dir))?;
        Ok(path)
    }

    /// Keeps `current` and the images used last.
    fn prune(&self, current: &Path) -> io::Result<()> {
        let mut others = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let path = entry?.path();
            if path != current && path.extension().is_some_and(|kind| kind == IMAGE_EXTENSION) {
                let used = fs::metadata(&path).and_then(|metadata| metadata.modified());
                others.push((used.unwrap_or(SystemTime::UNIX_EPOCH), path));
            }
        }
        others.sort_unstable_by(|a, b| b.cmp(a));
        others
            .iter()
            .skip(IMAGES_KEPT - 1)
            .try_for_each(|(_, path)| remove(path))
    }
}

fn sidecar(image: &Path) -> PathBuf {
    image.with_extension(SIDECAR_EXTENSION)
}

/// The modification time of an image is the time of its last use.
fn mark_used(image: &Path) {
    // A failure costs at most one rebuild later.
    let _ = File::open(image).and_then(|file| file.set_modified(SystemTime::now()));
}

fn remove(image: &Path) -> io::Result<()> {
    for path in [image, &sidecar(image)] {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn key(assets: &str) -> BootImageKey {
        BootImageKey {
            engine: pinned().engine_digest(),
            assets: Sha256Digest::of(assets.as_bytes()),
        }
    }

    fn cache() -> (tempfile::TempDir, BootImageCache) {
        let dir = tempfile::tempdir().unwrap();
        let cache = CacheDir::at(dir.path().join("pyproc")).boot_images();
        (dir, cache)
    }

    #[test]
    fn the_cache_directory_follows_the_environment() {
        let resolve = |xdg: Option<&str>, home: Option<&str>| {
            CacheDir::resolve(xdg.map(Into::into), home.map(Into::into))
        };
        let pinned = "engine/314.0.7/pyodide";
        let xdg = resolve(Some("/x"), Some("/h")).unwrap();
        assert_eq!(xdg.engine_dir(), Path::new("/x/pyproc").join(pinned));
        let home = resolve(Some("relative"), Some("/h")).unwrap();
        assert_eq!(
            home.engine_dir(),
            Path::new("/h/.cache/pyproc").join(pinned)
        );
        assert!(matches!(
            resolve(None, Some("")),
            Err(EngineError::NoCacheDir)
        ));
    }

    #[test]
    fn every_part_of_the_key_matters() {
        let base = key("1");
        let other_engine = BootImageKey {
            engine: Sha256Digest::of(b""),
            ..base
        };
        let mut digests = [base, key("2"), other_engine].map(|key| key.digest().to_string());
        digests.sort();
        assert!(digests.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn a_stored_image_is_read_back() {
        let (_dir, cache) = cache();
        assert_eq!(cache.load(&key("1")).unwrap(), CachedImage::Absent);
        cache.store(&key("1"), b"image").unwrap();
        assert_eq!(
            cache.load(&key("1")).unwrap(),
            CachedImage::Intact(b"image".to_vec())
        );
        assert_eq!(cache.load(&key("2")).unwrap(), CachedImage::Absent);
    }

    #[test]
    fn a_damaged_image_is_refused_and_removed() {
        let (_dir, cache) = cache();
        let path = cache.store(&key("1"), b"image").unwrap();
        fs::write(&path, b"imagE").unwrap();
        assert_eq!(cache.load(&key("1")).unwrap(), CachedImage::Damaged);
        assert_eq!(cache.load(&key("1")).unwrap(), CachedImage::Absent);

        let path = cache.store(&key("1"), b"image").unwrap();
        fs::remove_file(sidecar(&path)).unwrap();
        assert_eq!(cache.load(&key("1")).unwrap(), CachedImage::Damaged);
    }

    #[test]
    fn the_images_used_longest_ago_are_pruned() {
        let (_dir, cache) = cache();
        for (age, version) in [(50, "old"), (40, "used"), (30, "middle")] {
            let path = cache.store(&key(version), version.as_bytes()).unwrap();
            let then = SystemTime::now() - Duration::from_secs(age);
            File::open(path).unwrap().set_modified(then).unwrap();
        }
        cache.load(&key("used")).unwrap();
        cache.store(&key("new"), b"new").unwrap();
        assert_eq!(cache.load(&key("old")).unwrap(), CachedImage::Absent);
        for kept in ["used", "middle", "new"] {
            assert_eq!(
                cache.load(&key(kept)).unwrap(),
                CachedImage::Intact(kept.into())
            );
        }
        assert_eq!(fs::read_dir(&cache.dir).unwrap().count(), 2 * IMAGES_KEPT);
    }

    #[cfg(unix)]
    #[test]
    fn images_are_private() {
        use std::os::unix::fs::PermissionsExt;
        let (_dir, cache) = cache();
        let path = cache.store(&key("1"), b"image").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(&cache.dir), 0o700);
    }
}
