//! The archive inside a wheel: its entries, its RECORD and its importable names.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use zip::ZipArchive;

use super::record::{self, RecordEntry};
use super::{UNPACKED_LIMIT, WHEEL_LIMIT, Wheel, WheelError, WheelName, WheelProblem};
use crate::engine::digests::Release;
use crate::engine::files;

/// Largest RECORD that is read, in bytes.
const RECORD_LIMIT: u64 = 8 * 1024 * 1024;

/// File type bits of a Unix mode, and their value for a symbolic link.
const MODE_TYPE: u32 = 0o170_000;
const MODE_LINK: u32 = 0o120_000;

/// Checks that every entry of the wheel is what its RECORD says.
///
/// # Errors
/// The wheel is not loadable by the machine, an entry differs, has no digest in RECORD, or is
/// named by RECORD and absent.
pub fn verify_wheel(release: &Release, path: &Path) -> Result<Wheel, WheelError> {
    let verified = open(release, path).and_then(|mut contents| {
        contents.verify()?;
        contents.into_wheel(path)
    });
    verified.map_err(|problem| WheelError {
        path: path.to_owned(),
        problem: Box::new(problem),
    })
}

/// Reads what the index needs of the wheel at `path`.
pub(super) fn read_wheel(release: &Release, path: &Path) -> Result<Wheel, WheelProblem> {
    open(release, path)?.into_wheel(path)
}

struct Contents {
    name: WheelName,
    archive: ZipArchive<BufReader<File>>,
    entries: BTreeSet<String>,
    record_name: String,
    record: Vec<RecordEntry>,
}

fn open(release: &Release, path: &Path) -> Result<Contents, WheelProblem> {
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.and_then(WheelName::parse).ok_or(WheelProblem::Name)?;
    if !name.fits(release) {
        return Err(WheelProblem::Tags);
    }
    let file = File::open(path)?;
    if file.metadata()?.len() > WHEEL_LIMIT {
        return Err(WheelProblem::TooLarge {
            what: "the wheel is",
            limit: WHEEL_LIMIT,
        });
    }
    let mut archive = ZipArchive::new(BufReader::new(file))?;
    let entries = list(&mut archive)?;

    let mut records = entries.iter().filter(|entry| is_record(entry));
    let record_name = match (records.next(), records.next()) {
        (Some(name), None) => name.clone(),
        _ => {
            return Err(WheelProblem::Record(
                "there is not exactly one RECORD".to_owned(),
            ));
        }
    };
    let bytes = files::read_bounded(archive.by_name(&record_name)?, RECORD_LIMIT)?;
    let text = String::from_utf8(bytes)
        .map_err(|_| WheelProblem::Record("RECORD is not UTF-8".to_owned()))?;
    let record = record::parse(&text).map_err(WheelProblem::Record)?;
    Ok(Contents {
        name,
        archive,
        entries,
        record_name,
        record,
    })
}

/// Names of the regular files of the archive.
fn list(archive: &mut ZipArchive<BufReader<File>>) -> Result<BTreeSet<String>, WheelProblem> {
    let mut names = BTreeSet::new();
    let mut unpacked = 0_u64;
    for position in 0..archive.len() {
        let entry = archive.by_index_raw(position)?;
        let name = entry.name()?;
        let link = entry
            .unix_mode()
            .is_some_and(|mode| mode & MODE_TYPE == MODE_LINK);
        if link || !is_safe(&name) {
            return Err(WheelProblem::UnsafeEntry(name.chars().take(200).collect()));
        }
        unpacked = unpacked.saturating_add(entry.size());
        if unpacked > UNPACKED_LIMIT {
            return Err(WheelProblem::TooLarge {
                what: "unpacked it is",
                limit: UNPACKED_LIMIT,
            });
        }
        if !name.ends_with('/') {
            names.insert(name.into_owned());
        }
    }
    Ok(names)
}

/// Whether unpacking an entry of that name stays inside the target directory, on any system.
fn is_safe(name: &str) -> bool {
    !name.contains(['\\', ':', '\0'])
        && name
            .strip_suffix('/')
            .unwrap_or(name)
            .split('/')
            .all(|part| !matches!(part, "" | "." | ".."))
}

fn is_record(entry: &str) -> bool {
    matches!(entry.split_once('/'), Some((dir, "RECORD")) if dir.ends_with(".dist-info"))
}

impl Contents {
    fn verify(&mut self) -> Result<(), WheelProblem> {
        let mut unrecorded = self.entries.clone();
        for RecordEntry { name, sha256 } in &self.record {
            if !self.entries.contains(name) {
                return Err(WheelProblem::EntryMissing(name.clone()));
            }
            let Some(expected) = *sha256 else {
                continue;
            };
            let (_, found) = files::digest(self.archive.by_name(name)?)?;
            if found != expected {
                return Err(WheelProblem::EntryDamaged {
                    entry: name.clone(),
                    expected,
                    found,
                });
            }
            unrecorded.remove(name);
        }
        // RECORD cannot hold its own digest, nor that of a signature over it.
        let exempt = |entry: &String| {
            let suffix = entry.strip_prefix(&self.record_name);
            suffix.is_some_and(|suffix| matches!(suffix, "" | ".jws" | ".p7s"))
        };
        match unrecorded.into_iter().find(|entry| !exempt(entry)) {
            Some(entry) => Err(WheelProblem::EntryUnrecorded(entry)),
            None => Ok(()),
        }
    }

    fn into_wheel(self, path: &Path) -> Result<Wheel, WheelProblem> {
        let names: BTreeSet<_> = self
            .record
            .iter()
            .filter_map(|entry| top_level_name(&entry.name))
            .collect();
        if names.is_empty() {
            return Err(WheelProblem::Empty);
        }
        Ok(Wheel {
            path: path.to_owned(),
            name: self.name,
            top_level: names.into_iter().map(str::to_owned).collect(),
        })
    }
}

/// The name that `import` can use because of this entry. A folder counts when it holds code.
fn top_level_name(entry: &str) -> Option<&str> {
    let (_, extension) = entry.rsplit_once('.')?;
    if !matches!(extension, "py" | "so") {
        return None;
    }
    // A library is `name.so` or `name.<interpreter and platform>.so`.
    let name = match entry.split_once('/') {
        Some((folder, _)) => folder,
        None => entry.split('.').next()?,
    };
    is_identifier(name).then_some(name)
}

fn is_identifier(name: &str) -> bool {
    let mut characters = name.chars();
    characters
        .next()
        .is_some_and(|first| first == '_' || first.is_alphabetic())
        && characters.all(|next| next == '_' || next.is_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{record_line, write_wheel, write_zip};
    use super::*;
    use crate::engine::digests::pinned;

    const RECORD: &str = "demo-1.dist-info/RECORD";

    fn verify(entries: &[(&str, &str)]) -> Result<Wheel, WheelError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("demo-1-py3-none-any.whl");
        write_zip(&path, entries);
        verify_wheel(pinned(), &path)
    }

    #[test]
    fn a_wheel_that_equals_its_record_is_verified() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("demo-1-py3-none-any.whl");
        write_wheel(
            &path,
            &[
                ("demo/__init__.py", "x = 1"),
                ("demo/big.txt", &"y".repeat(100_000)),
            ],
        );
        assert_eq!(verify_wheel(pinned(), &path).unwrap().top_level, ["demo"]);
    }

    #[test]
    fn a_changed_entry_is_named() {
        let record = record_line("demo.py", "x = 1");
        let error = verify(&[("demo.py", "x = 2"), (RECORD, &record)]).unwrap_err();
        assert!(matches!(
            &*error.problem,
            WheelProblem::EntryDamaged { entry, .. } if entry == "demo.py"
        ));
        assert!(
            error.to_string().contains("demo-1-py3-none-any.whl"),
            "{error}"
        );
    }

    #[test]
    fn entries_and_record_must_name_the_same_files() {
        let record = record_line("demo.py", "");
        let error = verify(&[("demo.py", ""), ("extra.py", ""), (RECORD, &record)]).unwrap_err();
        assert!(
            matches!(*error.problem, WheelProblem::EntryUnrecorded(entry) if entry == "extra.py")
        );

        let record = record + &record_line("gone.py", "");
        let error = verify(&[("demo.py", ""), (RECORD, &record)]).unwrap_err();
        assert!(matches!(*error.problem, WheelProblem::EntryMissing(entry) if entry == "gone.py"));

        let error = verify(&[("demo.py", ""), (RECORD, "demo.py,,\n")]).unwrap_err();
        assert!(
            matches!(*error.problem, WheelProblem::EntryUnrecorded(entry) if entry == "demo.py")
        );
    }

    #[test]
    fn names_that_could_leave_the_directory_are_unsafe() {
        for name in ["/a", "a/../b", "..", "./a", "a//b", "a\\b", "c:a", ""] {
            assert!(!is_safe(name), "{name}");
        }
        for name in ["a", "a/b.py", "a/", "..a/b..", "é.py"] {
            assert!(is_safe(name), "{name}");
        }
    }
}
