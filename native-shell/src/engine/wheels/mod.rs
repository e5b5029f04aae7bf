//! Python wheels: which top-level name is in which file (machine 17.1).

mod contents;
mod copy;
mod name;
mod record;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub use contents::verify_wheel;
pub use copy::{Copied, CopyError, copy_wheels};
pub use name::{Tag, WheelName};

use super::digests::{Release, Sha256Digest};
use super::files;

/// Largest wheel, in bytes (machine 19).
pub const WHEEL_LIMIT: u64 = 64 * 1024 * 1024;

/// Largest unpacked wheel, in bytes (machine 19).
pub const UNPACKED_LIMIT: u64 = 256 * 1024 * 1024;

/// A wheel that the machine can load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wheel {
    /// The file.
    pub path: PathBuf,
    /// Name, version and tags of its file name.
    pub name: WheelName,
    /// Importable names at its top, sorted.
    pub top_level: Vec<String>,
}

/// Why a wheel is not usable.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct WheelError {
    /// The wheel.
    pub path: PathBuf,
    /// What is wrong with it.
    pub problem: Box<WheelProblem>,
}

/// What can be wrong with a wheel.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WheelProblem {
    /// The file name does not follow the wheel naming rules.
    #[error("not the name of a wheel")]
    Name,
    /// None of its tags fits the engine.
    #[error("built for another interpreter or platform")]
    Tags,
    /// Larger than the limit named, in bytes.
    #[error("{what} larger than {limit} bytes")]
    TooLarge {
        /// Which part is too large.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// An entry that would leave the site directory, or a link.
    #[error("unsafe entry {0:?}")]
    UnsafeEntry(String),
    /// The archive cannot be read.
    #[error("damaged archive ({0})")]
    Archive(#[from] zip::result::ZipError),
    /// RECORD is absent, ambiguous or malformed.
    #[error("{0}")]
    Record(String),
    /// An entry differs from what RECORD says of it.
    #[error("entry `{entry}` is not what RECORD says: expected SHA-256 {expected}, found {found}")]
    EntryDamaged {
        /// The entry.
        entry: String,
        /// Digest of RECORD.
        expected: Sha256Digest,
        /// Digest of the entry.
        found: Sha256Digest,
    },
    /// An entry that RECORD does not vouch for.
    #[error("entry `{0}` has no SHA-256 in RECORD")]
    EntryUnrecorded(String),
    /// An entry of RECORD that the archive lacks.
    #[error("entry `{0}` of RECORD is missing")]
    EntryMissing(String),
    /// Nothing can be imported from it.
    #[error("no importable top-level name")]
    Empty,
    /// The operating system refused.
    #[error("cannot be read ({0})")]
    Io(#[from] io::Error),
}

/// A failure of the index as a whole: the machine must not start.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// Two wheels offer the same name, so an import would be a matter of luck.
    #[error(
        "`{name}` is in two wheels, {} and {}; remove one of them",
        first.display(),
        second.display()
    )]
    Conflict {
        /// The top-level name.
        name: String,
        /// The wheel that was seen first.
        first: PathBuf,
        /// The other one.
        second: PathBuf,
    },
    /// A directory cannot be listed.
    #[error("{}: cannot list the wheels: {source}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
}

/// Top-level name to wheel, over one or more directories.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WheelIndex {
    wheels: Vec<Wheel>,
    by_name: BTreeMap<String, usize>,
    diagnostics: Vec<String>,
}

impl WheelIndex {
    /// Reads the wheels directly inside each of `dirs`, in the order of their file names.
    ///
    /// A wheel that the machine cannot load is left out with a line in
    /// [`diagnostics`](Self::diagnostics). The same file, byte for byte, in two directories counts
    /// once.
    ///
    /// # Errors
    /// Two different wheels with one top-level name; a directory that cannot be listed.
    pub fn scan(release: &Release, dirs: &[&Path]) -> Result<Self, IndexError> {
        let mut index = Self::default();
        for dir in dirs {
            for path in wheel_files(dir)? {
                match contents::read_wheel(release, &path) {
                    Ok(wheel) => index.add(wheel)?,
                    Err(problem) => {
                        let error = WheelError {
                            path,
                            problem: Box::new(problem),
                        };
                        index.diagnostics.push(format!("wheel ignored: {error}"));
                    }
                }
            }
        }
        Ok(index)
    }

    fn add(&mut self, wheel: Wheel) -> Result<(), IndexError> {
        for name in &wheel.top_level {
            let Some(&known) = self.by_name.get(name) else {
                continue;
            };
            let first = &self.wheels[known].path;
            if same_file_content(first, &wheel.path) {
                return Ok(());
            }
            return Err(IndexError::Conflict {
                name: name.clone(),
                first: first.clone(),
                second: wheel.path,
            });
        }
        let position = self.wheels.len();
        self.by_name
            .extend(wheel.top_level.iter().map(|name| (name.clone(), position)));
        self.wheels.push(wheel);
        Ok(())
    }

    /// The wheel to load for `import name`.
    #[must_use]
    pub fn wheel_for(&self, name: &str) -> Option<&Wheel> {
        self.by_name
            .get(name)
            .map(|&position| &self.wheels[position])
    }

    /// Every name with its wheel, sorted by name.
    pub fn names(&self) -> impl Iterator<Item = (&str, &Wheel)> {
        self.by_name
            .iter()
            .map(|(name, &position)| (name.as_str(), &self.wheels[position]))
    }

    /// Every wheel once.
    #[must_use]
    pub fn wheels(&self) -> &[Wheel] {
        &self.wheels
    }

    /// One line for each wheel that was left out, with its path and the reason.
    #[must_use]
    pub fn diagnostics(&self) -> &[String] {
        &self.diagnostics
    }
}

/// Files of `dir` with the extension of a wheel, sorted.
fn wheel_files(dir: &Path) -> Result<Vec<PathBuf>, IndexError> {
    let failed = |source| IndexError::Directory {
        path: dir.to_owned(),
        source,
    };
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "whl") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

fn same_file_content(first: &Path, second: &Path) -> bool {
    first.file_name() == second.file_name()
        && matches!(
            (files::digest_file(first), files::digest_file(second)),
            (Ok(first), Ok(second)) if first == second
        )
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::Write;

    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    use super::*;
    use crate::engine::digests::pinned;

    /// The line of RECORD for an entry.
    pub(in crate::engine) fn record_line(name: &str, content: &str) -> String {
        let digest = URL_SAFE_NO_PAD.encode(Sha256Digest::of(content.as_bytes()).0);
        format!("{name},sha256={digest},{}\n", content.len())
    }

    /// Writes a wheel with exactly `entries`.
    pub(in crate::engine) fn write_zip(path: &Path, entries: &[(&str, &str)]) {
        let mut zip = ZipWriter::new(fs::File::create(path).unwrap());
        for (name, content) in entries {
            zip.start_file(*name, SimpleFileOptions::default()).unwrap();
            zip.write_all(content.as_bytes()).unwrap();
        }
        zip.finish().unwrap();
    }

    /// Writes a well-formed wheel with `entries` and a RECORD over them.
    pub(in crate::engine) fn write_wheel(path: &Path, entries: &[(&str, &str)]) {
        let record: String = entries
            .iter()
            .map(|(name, content)| record_line(name, content))
            .collect();
        let record = record + "demo-1.dist-info/RECORD,,\n";
        let mut entries = entries.to_vec();
        entries.push(("demo-1.dist-info/RECORD", &record));
        write_zip(path, &entries);
    }

    #[test]
    fn names_come_from_packages_modules_and_libraries() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir
            .path()
            .join("demo-1-cp314-cp314-pyemscripten_2026_0_wasm32.whl");
        write_wheel(
            &path,
            &[
                ("demo/__init__.py", ""),
                ("demo/data/table.csv", "1"),
                ("single.py", ""),
                ("_speed.cpython-314-wasm32-emscripten.so", "\0asm"),
                ("space/inner/deep.py", ""),
                ("share/readme.txt", ""),
                ("demo.libs/libx.so", "\0asm"),
                ("demo-1.data/purelib/hidden.py", ""),
                ("demo-1.dist-info/METADATA", "Name: demo"),
            ],
        );
        let index = WheelIndex::scan(pinned(), &[dir.path()]).unwrap();
        let names: Vec<_> = index.names().map(|(name, _)| name).collect();
        assert_eq!(names, ["_speed", "demo", "single", "space"]);
        assert_eq!(index.wheel_for("single").unwrap().path, path);
        assert_eq!(index.wheel_for("share"), None);
        assert!(index.diagnostics().is_empty());
    }

    #[test]
    fn two_wheels_with_one_name_are_a_failure() {
        let dir = tempfile::tempdir().unwrap();
        for version in ["1", "2"] {
            let path = dir.path().join(format!("demo-{version}-py3-none-any.whl"));
            write_wheel(&path, &[("demo/__init__.py", version)]);
        }
        let text = WheelIndex::scan(pinned(), &[dir.path()])
            .unwrap_err()
            .to_string();
        assert!(text.contains("`demo`"), "{text}");
        assert!(
            text.contains("demo-1-py3") && text.contains("demo-2-py3"),
            "{text}"
        );
    }

    #[test]
    fn the_same_file_in_two_directories_counts_once() {
        let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        for dir in &dirs {
            let path = dir.path().join("demo-1-py3-none-any.whl");
            write_wheel(&path, &[("demo.py", "same")]);
        }
        let index = WheelIndex::scan(pinned(), &[dirs[0].path(), dirs[1].path()]).unwrap();
        assert_eq!(index.wheels().len(), 1);
        assert!(index.wheels()[0].path.starts_with(dirs[0].path()));
    }

    #[test]
    fn unusable_wheels_are_left_out_with_a_reason() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, entries: &[(&str, &str)]| {
            write_wheel(&dir.path().join(name), entries);
        };
        write("a-1-cp314-cp314-manylinux_2_28_x86_64.whl", &[("a.py", "")]);
        write("b-1-py3-none-any.whl", &[("../b.py", "")]);
        write("c-1-py3-none-any.whl", &[("c/readme.txt", "")]);
        write("good-1-py3-none-any.whl", &[("good.py", "")]);
        fs::write(dir.path().join("d-1-py3-none-any.whl"), b"not a zip").unwrap();
        fs::write(dir.path().join("e.whl"), b"").unwrap();
        write_zip(&dir.path().join("f-1-py3-none-any.whl"), &[("f.py", "")]);
        fs::write(dir.path().join("notes.txt"), b"").unwrap();

        let index = WheelIndex::scan(pinned(), &[dir.path()]).unwrap();
        assert_eq!(
            index.names().map(|(name, _)| name).collect::<Vec<_>>(),
            ["good"]
        );
        let expected = [
            ("a-1-", "another interpreter or platform"),
            ("b-1-", "unsafe entry"),
            ("c-1-", "no importable"),
            ("d-1-", "damaged archive"),
            ("e.whl", "not the name of a wheel"),
            ("f-1-", "RECORD"),
        ];
        assert_eq!(index.diagnostics().len(), expected.len());
        for (line, (file, reason)) in index.diagnostics().iter().zip(expected) {
            assert!(line.contains(file) && line.contains(reason), "{line}");
        }
    }

    #[test]
    fn a_wheel_over_the_size_limit_is_left_out_unread() {
        let dir = tempfile::tempdir().unwrap();
        let file = fs::File::create(dir.path().join("big-1-py3-none-any.whl")).unwrap();
        file.set_len(WHEEL_LIMIT + 1).unwrap();
        let index = WheelIndex::scan(pinned(), &[dir.path()]).unwrap();
        assert!(index.diagnostics()[0].contains("larger than 67108864 bytes"));
    }
}
