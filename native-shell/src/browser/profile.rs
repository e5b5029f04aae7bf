//! Private directories for browser profiles.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::processes;

/// How every directory of ours in the system's temporary directory begins.
pub const PREFIX: &str = "pyproc-browser-";

/// File that the owner keeps locked for as long as it lives. The kernel drops the lock with the
/// owner, whatever ends it, so no process number can be mistaken for it.
const OWNER_FILE: &str = "owner";

/// A directory without an owner file may still be in the making for this long.
const MAKING: Duration = Duration::from_secs(60);

/// A fresh directory, mode 0700, for one browser: its profile and its temporary files.
///
/// Dropping it removes it; by then no process may use it any more.
#[derive(Debug)]
pub struct Profile {
    dir: tempfile::TempDir,
    _lock: File,
}

impl Profile {
    /// Creates one under the system's temporary directory.
    ///
    /// # Errors
    /// The directory cannot be made or locked.
    pub fn create() -> io::Result<Self> {
        Self::create_in(&std::env::temp_dir())
    }

    fn create_in(parent: &Path) -> io::Result<Self> {
        let dir = tempfile::Builder::new()
            .prefix(PREFIX)
            .permissions(fs::Permissions::from_mode(0o700))
            .tempdir_in(parent)?;
        // Locked before it has its name: an owner file without a lock is an abandoned one.
        let unnamed = dir.path().join("owner.new");
        let lock = File::create_new(&unnamed)?;
        lock.try_lock().map_err(io::Error::from)?;
        fs::rename(&unnamed, dir.path().join(OWNER_FILE))?;
        for part in [USER_DATA, TEMPORARY] {
            fs::create_dir(dir.path().join(part))?;
        }
        Ok(Self { dir, _lock: lock })
    }

    /// The whole directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The browser's user data directory.
    #[must_use]
    pub fn user_data(&self) -> PathBuf {
        self.dir().join(USER_DATA)
    }

    /// Where the browser puts temporary files, so that they vanish with the profile.
    #[must_use]
    pub fn temporary(&self) -> PathBuf {
        self.dir().join(TEMPORARY)
    }
}

const USER_DATA: &str = "profile";
const TEMPORARY: &str = "tmp";

/// Removes what dead owners left, after killing the processes that still use it. Returns how many
/// directories went. Directories of living owners, of other users, and links stay.
///
/// # Errors
/// The temporary directory cannot be listed. A leftover that cannot be removed now is left for
/// the next time.
pub fn sweep() -> io::Result<usize> {
    sweep_in(&std::env::temp_dir())
}

fn sweep_in(parent: &Path) -> io::Result<usize> {
    let mut swept = 0;
    for entry in fs::read_dir(parent)?.flatten() {
        let ours = entry
            .file_name()
            .as_encoded_bytes()
            .starts_with(PREFIX.as_bytes());
        if ours && is_abandoned(&entry.path()) {
            processes::kill_users_of(&entry.path());
            swept += usize::from(remove(&entry.path()).is_ok());
        }
    }
    Ok(swept)
}

/// Removes the directory of a profile; one that is gone already is fine.
pub(super) fn remove(dir: &Path) -> io::Result<()> {
    // A process that was killed a moment ago can still have been writing during the first pass.
    const PASSES: u32 = 5;
    let mut result = Ok(());
    for pass in 0..PASSES {
        result = fs::remove_dir_all(dir);
        match &result {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound && !dir.exists() => {
                return Ok(());
            }
            Err(_) => std::thread::sleep(Duration::from_millis(10) * pass),
        }
    }
    result
}

fn is_abandoned(dir: &Path) -> bool {
    let Ok(metadata) = fs::symlink_metadata(dir) else {
        return false;
    };
    if !metadata.is_dir() || metadata.uid() != rustix::process::geteuid().as_raw() {
        return false;
    }
    match File::open(dir.join(OWNER_FILE)) {
        // The lock is taken for a moment at most: it ends with `lock`.
        Ok(lock) => !matches!(lock.try_lock(), Err(TryLockError::WouldBlock)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let age = metadata
                .modified()
                .ok()
                .and_then(|made| made.elapsed().ok());
            age.is_some_and(|age| age > MAKING)
        }
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn a_profile_is_private_and_goes_with_its_owner() {
        let parent = tempfile::tempdir().unwrap();
        let profile = Profile::create_in(parent.path()).unwrap();
        let mode = fs::metadata(profile.dir()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        assert!(profile.user_data().is_dir() && profile.temporary().is_dir());
        fs::write(profile.user_data().join("Cookies"), "x").unwrap();
        drop(profile);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn only_what_dead_owners_left_is_swept() {
        let parent = tempfile::tempdir().unwrap();
        let alive = Profile::create_in(parent.path()).unwrap();
        let dead = parent.path().join("pyproc-browser-dead");
        fs::create_dir_all(dead.join(USER_DATA)).unwrap();
        fs::write(dead.join(OWNER_FILE), "").unwrap();
        let making = parent.path().join("pyproc-browser-making");
        fs::create_dir(&making).unwrap();
        let foreign = parent.path().join("other");
        fs::create_dir(&foreign).unwrap();
        let link = parent.path().join("pyproc-browser-link");
        symlink(&foreign, &link).unwrap();

        assert_eq!(sweep_in(parent.path()).unwrap(), 1);
        assert!(!dead.exists());
        for kept in [alive.dir(), &making, &foreign, &link] {
            assert!(kept.exists(), "{}", kept.display());
        }

        let long_ago = SystemTime::now() - 2 * MAKING;
        File::open(&making).unwrap().set_modified(long_ago).unwrap();
        assert_eq!(sweep_in(parent.path()).unwrap(), 1);
        assert!(!making.exists());
    }
}
