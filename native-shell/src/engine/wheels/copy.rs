//! Adds verified wheels to an engine directory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{IndexError, WheelError, WheelIndex, same_file_content, verify_wheel};
use crate::engine::digests::Release;
use crate::engine::files;

/// What [`copy_wheels`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Wheels whose every entry equals their RECORD.
    pub verified: usize,
    /// Those that were not in the engine directory yet.
    pub copied: usize,
    /// One line for each file that was left out, with the reason.
    pub ignored: Vec<String>,
}

/// Why no wheel was added.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The wheels together, or with those of the engine, are not acceptable.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// A wheel differs from its RECORD.
    #[error("{0}; fetch the wheel again")]
    Wheel(#[from] WheelError),
    /// A wheel cannot be written.
    #[error("{}: cannot copy the wheel: {source}", path.display())]
    Write {
        /// The copy.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
}

/// Verifies every loadable wheel of `from` against its RECORD and copies it into `engine`.
///
/// Nothing is copied unless all of them verify and no top-level name is in two wheels of both
/// directories together. Each copy appears whole or not at all.
///
/// # Errors
/// See [`CopyError`].
pub fn copy_wheels(release: &Release, engine: &Path, from: &Path) -> Result<Copied, CopyError> {
    let index = WheelIndex::scan(release, &[from])?;
    WheelIndex::scan(release, &[engine, from])?;
    for wheel in index.wheels() {
        verify_wheel(release, &wheel.path)?;
    }
    let mut result = Copied {
        verified: index.wheels().len(),
        copied: 0,
        ignored: index.diagnostics().to_vec(),
    };
    for wheel in index.wheels() {
        // The name was parsed from the last component of this path.
        let target = engine.join(wheel.path.file_name().unwrap_or_default());
        if same_file_content(&wheel.path, &target) {
            continue;
        }
        fs::read(&wheel.path)
            .and_then(|bytes| files::write_atomic(&target, &bytes))
            .map_err(|source| CopyError::Write {
                path: target,
                source,
            })?;
        result.copied += 1;
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{write_wheel, write_zip};
    use super::*;
    use crate::engine::digests::pinned;

    fn dirs() -> [tempfile::TempDir; 2] {
        [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()]
    }

    #[test]
    fn verified_wheels_are_copied_once() {
        let [engine, from] = dirs();
        write_wheel(&from.path().join("a-1-py3-none-any.whl"), &[("a.py", "")]);
        write_wheel(&from.path().join("b-1-cp39-none-any.whl"), &[("b.py", "")]);
        let first = copy_wheels(pinned(), engine.path(), from.path()).unwrap();
        assert_eq!(
            (first.verified, first.copied, first.ignored.len()),
            (1, 1, 1)
        );
        assert!(engine.path().join("a-1-py3-none-any.whl").is_file());
        let second = copy_wheels(pinned(), engine.path(), from.path()).unwrap();
        assert_eq!((second.verified, second.copied), (1, 0));
    }

    #[test]
    fn one_damaged_wheel_keeps_all_out() {
        let [engine, from] = dirs();
        write_wheel(&from.path().join("a-1-py3-none-any.whl"), &[("a.py", "")]);
        let unrecorded = [("b.py", ""), ("b-1.dist-info/RECORD", "b.py,,\n")];
        write_zip(&from.path().join("b-1-py3-none-any.whl"), &unrecorded);
        let error = copy_wheels(pinned(), engine.path(), from.path()).unwrap_err();
        assert!(
            error.to_string().contains("b-1-py3-none-any.whl"),
            "{error}"
        );
        assert_eq!(fs::read_dir(engine.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_name_that_the_engine_has_already_is_refused() {
        let [engine, from] = dirs();
        write_wheel(
            &engine.path().join("a-1-py3-none-any.whl"),
            &[("a.py", "1")],
        );
        write_wheel(&from.path().join("a-2-py3-none-any.whl"), &[("a.py", "2")]);
        let error = copy_wheels(pinned(), engine.path(), from.path()).unwrap_err();
        assert!(
            matches!(error, CopyError::Index(IndexError::Conflict { .. })),
            "{error}"
        );
    }
}
