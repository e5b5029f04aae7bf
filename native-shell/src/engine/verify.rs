//! Checks an engine directory against the digest table.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::digests::{CoreFile, LOCK_FILE, RELEASES, Release, Sha256Digest, pinned};
use super::error::EngineError;
use super::files;

/// Largest lock file that is read, in bytes.
const LOCK_LIMIT: u64 = 8 * 1024 * 1024;

/// What a verified engine directory holds.
#[derive(Clone, Debug)]
pub struct Verified {
    /// The directory.
    pub root: PathBuf,
    /// The release that every core file belongs to.
    pub release: &'static Release,
    /// Core files checked.
    pub core_files: usize,
    /// Packages of the lock file that are present and checked.
    pub packages: usize,
}

/// Checks every core file of `root`, then the packages that the lock file names and that are
/// present (control protocol 2.7; packages are not required).
///
/// # Errors
/// The first file, in the order of the table, that is missing or differs; the first package that
/// differs from the lock file.
pub fn verify(root: &Path) -> Result<Verified, EngineError> {
    verify_against(&RELEASES, root)
}

/// [`verify`] with another digest table.
pub(super) fn verify_against(
    releases: &'static [Release],
    root: &Path,
) -> Result<Verified, EngineError> {
    let release = verify_core_against(releases, root)?;
    let packages = verify_packages(root)?;
    Ok(Verified {
        root: root.to_owned(),
        release,
        core_files: release.files.len(),
        packages,
    })
}

/// Checks the core files only. This is what a start of the machine needs.
///
/// # Errors
/// As [`verify`].
pub fn verify_core(root: &Path) -> Result<&'static Release, EngineError> {
    verify_core_against(&RELEASES, root)
}

fn verify_core_against(
    releases: &'static [Release],
    root: &Path,
) -> Result<&'static Release, EngineError> {
    let mut found = BTreeMap::new();
    for CoreFile { name, .. } in releases.iter().flat_map(|release| &release.files) {
        let path = root.join(name);
        if !path.is_file() {
            return Err(EngineError::Missing { path });
        }
        if !found.contains_key(name) {
            let read = files::digest_file(&path);
            found.insert(
                *name,
                read.map_err(EngineError::io("read the core file", &path))?,
            );
        }
    }
    // The first release wins a tie: it is the one that is prepared by default.
    let differences = |release: &&Release| {
        let differs = |file: &&CoreFile| found.get(file.name) != Some(&(file.size, file.sha256));
        release.files.iter().filter(differs).count()
    };
    let closest = releases.iter().min_by_key(differences).unwrap_or(pinned());
    for file in &closest.files {
        let (found_bytes, digest) = found[file.name];
        if (found_bytes, digest) != (file.size, file.sha256) {
            return Err(EngineError::Damaged {
                path: root.join(file.name),
                release: closest.version,
                expected_bytes: file.size,
                expected: file.sha256,
                found_bytes,
                found: digest,
            });
        }
    }
    Ok(closest)
}

fn verify_packages(root: &Path) -> Result<usize, EngineError> {
    let lock_path = root.join(LOCK_FILE);
    let mut verified = 0;
    for (name, expected) in locked_packages(&lock_path)? {
        let path = root.join(&name);
        if !path.is_file() {
            continue;
        }
        let (_, found) =
            files::digest_file(&path).map_err(EngineError::io("read the package", &path))?;
        if found != expected {
            return Err(EngineError::PackageDamaged {
                path,
                expected,
                found,
            });
        }
        verified += 1;
    }
    Ok(verified)
}

/// File names and digests of the packages that the lock file names.
fn locked_packages(lock_path: &Path) -> Result<Vec<(String, Sha256Digest)>, EngineError> {
    let malformed = |reason: String| EngineError::Lock {
        path: lock_path.to_owned(),
        reason,
    };
    let bytes = File::open(lock_path)
        .and_then(|file| files::read_bounded(file, LOCK_LIMIT))
        .map_err(EngineError::io("read the lock file", lock_path))?;
    let lock: Value = serde_json::from_slice(&bytes)
        .map_err(|error| malformed(format!("the lock file is not JSON ({error})")))?;
    let packages = lock
        .get("packages")
        .and_then(Value::as_object)
        .ok_or_else(|| malformed("the lock file has no object `packages`".to_owned()))?;
    let mut locked = Vec::with_capacity(packages.len());
    for (package, entry) in packages {
        let text = |key| entry.get(key).and_then(Value::as_str);
        let (Some(name), Some(digest)) = (text("file_name"), text("sha256")) else {
            continue;
        };
        if name.contains(['/', '\\']) || name == ".." {
            return Err(malformed(format!(
                "package `{package}` names a file outside the engine"
            )));
        }
        let digest = Sha256Digest::from_hex(digest)
            .ok_or_else(|| malformed(format!("package `{package}` has a malformed digest")))?;
        locked.push((name.to_owned(), digest));
    }
    Ok(locked)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_missing_core_file_is_named() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("pyodide.mjs"), b"x").unwrap();
        let error = verify(dir.path()).unwrap_err();
        assert!(
            matches!(&error, EngineError::Missing { path } if path.ends_with("pyodide.asm.mjs"))
        );
        assert!(error.to_string().contains("pyproc-engine --out"), "{error}");
    }

    #[test]
    fn a_changed_core_file_is_named_with_both_digests() {
        let dir = tempfile::tempdir().unwrap();
        for file in &pinned().files {
            fs::write(dir.path().join(file.name), b"changed").unwrap();
        }
        let text = verify(dir.path()).unwrap_err().to_string();
        let expected = pinned().files[0].sha256.to_string();
        assert!(text.contains("pyodide.mjs"), "{text}");
        assert!(text.contains(&expected), "{text}");
        assert!(
            text.contains(&Sha256Digest::of(b"changed").to_string()),
            "{text}"
        );
    }

    #[test]
    fn packages_are_checked_when_present_and_not_required() {
        let dir = tempfile::tempdir().unwrap();
        let lock = serde_json::json!({"packages": {
            "here": {"file_name": "here.whl", "sha256": Sha256Digest::of(b"here").to_string()},
            "absent": {"file_name": "absent.whl", "sha256": Sha256Digest::of(b"").to_string()},
            "virtual": {"name": "virtual"},
        }});
        fs::write(dir.path().join(LOCK_FILE), lock.to_string()).unwrap();
        fs::write(dir.path().join("here.whl"), b"here").unwrap();
        assert_eq!(verify_packages(dir.path()).unwrap(), 1);

        fs::write(dir.path().join("here.whl"), b"hero").unwrap();
        let text = verify_packages(dir.path()).unwrap_err().to_string();
        assert!(text.contains("here.whl"), "{text}");
        assert!(
            text.contains(&Sha256Digest::of(b"hero").to_string()),
            "{text}"
        );
    }

    #[test]
    fn a_lock_file_that_points_outside_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let lock = serde_json::json!({"packages": {
            "evil": {"file_name": "../evil.whl", "sha256": Sha256Digest::of(b"").to_string()},
        }});
        fs::write(dir.path().join(LOCK_FILE), lock.to_string()).unwrap();
        let text = verify_packages(dir.path()).unwrap_err().to_string();
        assert!(text.contains("evil"), "{text}");
    }
}
