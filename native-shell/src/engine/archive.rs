//! Unpacks the wanted files of an npm package archive.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::path::{Component, Path};

use flate2::read::GzDecoder;
use tar::{Archive, Entry, EntryType};

use super::error::EngineError;

/// Largest package archive that is opened, in bytes.
const ARCHIVE_LIMIT: u64 = 64 * 1024 * 1024;

/// Largest unpacked archive, in bytes, headers included.
const UNPACKED_LIMIT: u64 = 256 * 1024 * 1024;

/// Most entries of an archive.
const ENTRY_LIMIT: usize = 10_000;

/// Folder of an npm package archive that holds the package's files.
const PACKAGE_FOLDER: &str = "package";

/// Unpacks the files `wanted` from the top folder of the archive at `path` into `dir`.
///
/// # Errors
/// Any entry of the archive, wanted or not, that is absolute, leaves its folder, or is neither a
/// regular file nor a directory; a wanted file that is absent or there twice; a limit.
pub(super) fn unpack(path: &Path, wanted: &[&str], dir: &Path) -> Result<(), EngineError> {
    let refuse = |reason: String| EngineError::Archive {
        path: path.to_owned(),
        reason,
    };
    let damaged = |error: io::Error| refuse(format!("the archive is damaged ({error})"));

    let file = File::open(path).map_err(EngineError::io("open the archive", path))?;
    let size = file
        .metadata()
        .map_err(EngineError::io("open the archive", path))?
        .len();
    if size > ARCHIVE_LIMIT {
        return Err(refuse(format!(
            "the archive is larger than {ARCHIVE_LIMIT} bytes"
        )));
    }
    // A stream that is cut at the limit ends in the middle of an entry, which is an error.
    let mut archive = Archive::new(GzDecoder::new(file).take(UNPACKED_LIMIT));
    let mut missing: BTreeSet<&str> = wanted.iter().copied().collect();
    for (count, entry) in archive.entries().map_err(damaged)?.enumerate() {
        if count == ENTRY_LIMIT {
            return Err(refuse(format!(
                "the archive has more than {ENTRY_LIMIT} entries"
            )));
        }
        let mut entry = entry.map_err(damaged)?;
        check(&entry).map_err(&refuse)?;
        let Some(name) = wanted_name(&entry, wanted) else {
            continue;
        };
        if !missing.remove(name) {
            return Err(refuse(format!("the archive has `{name}` twice")));
        }
        let target = dir.join(name);
        let mut output = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&target)
            .map_err(EngineError::io("create", &target))?;
        io::copy(&mut entry, &mut output).map_err(damaged)?;
        output
            .sync_all()
            .map_err(EngineError::io("write", &target))?;
    }
    match missing.first() {
        Some(name) => Err(refuse(format!("the archive lacks `{name}`"))),
        None => Ok(()),
    }
}

fn check(entry: &Entry<'_, impl Read>) -> Result<(), String> {
    let path = entry
        .path()
        .map_err(|error| format!("an entry has a malformed name ({error})"))?;
    let shown = path.display();
    let plain = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    if !path.components().all(plain) || path.to_string_lossy().contains('\\') {
        return Err(format!("entry `{shown}` leaves the archive"));
    }
    match entry.header().entry_type() {
        EntryType::Regular | EntryType::Directory => Ok(()),
        EntryType::Symlink | EntryType::Link => Err(format!("entry `{shown}` is a link")),
        _ => Err(format!("entry `{shown}` is not a regular file")),
    }
}

fn wanted_name<'a>(entry: &Entry<'_, impl Read>, wanted: &[&'a str]) -> Option<&'a str> {
    let path = entry.path().ok()?;
    let name = path.strip_prefix(PACKAGE_FOLDER).ok()?;
    let regular = entry.header().entry_type() == EntryType::Regular;
    wanted
        .iter()
        .copied()
        .find(|wanted| regular && name == Path::new(wanted))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use tar::{Builder, Header};

    use super::*;

    struct Case {
        _dir: tempfile::TempDir,
        archive: PathBuf,
        out: PathBuf,
    }

    /// An archive of `(raw name, type, content)`; the names are written unchecked.
    fn archive(entries: &[(&str, EntryType, &str)]) -> Case {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("package.tgz");
        let gzip = GzEncoder::new(File::create(&path).unwrap(), Compression::fast());
        let mut builder = Builder::new(gzip);
        for (name, kind, content) in entries {
            let mut header = Header::new_ustar();
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_entry_type(*kind);
            header.set_mode(0o644);
            header.set_size(content.len() as u64);
            if *kind == EntryType::Symlink {
                header.set_link_name("/etc/passwd").unwrap();
            }
            header.set_cksum();
            builder.append(&header, content.as_bytes()).unwrap();
        }
        builder.into_inner().unwrap().finish().unwrap();
        let out = dir.path().join("out");
        fs::create_dir(&out).unwrap();
        Case {
            _dir: dir,
            archive: path,
            out,
        }
    }

    fn refusal(entries: &[(&str, EntryType, &str)]) -> String {
        let case = archive(entries);
        unpack(&case.archive, &["a.js"], &case.out)
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn only_wanted_files_are_unpacked() {
        let case = archive(&[
            ("package/README.md", EntryType::Regular, "no"),
            ("package/a.js", EntryType::Regular, "yes"),
            ("package/sub/a.js", EntryType::Regular, "no"),
        ]);
        unpack(&case.archive, &["a.js"], &case.out).unwrap();
        assert_eq!(fs::read_to_string(case.out.join("a.js")).unwrap(), "yes");
        assert_eq!(fs::read_dir(&case.out).unwrap().count(), 1);
    }

    #[test]
    fn entries_that_leave_the_archive_are_refused() {
        let good = ("package/a.js", EntryType::Regular, "yes");
        for name in ["/etc/a.js", "package/../../a.js", "package\\..\\a.js"] {
            let text = refusal(&[(name, EntryType::Regular, "x"), good]);
            assert!(text.contains("leaves the archive"), "{name}: {text}");
        }
    }

    #[test]
    fn links_and_devices_are_refused() {
        let text = refusal(&[("package/a.js", EntryType::Symlink, "")]);
        assert!(text.contains("is a link"), "{text}");
        let text = refusal(&[("package/a.js", EntryType::Fifo, "")]);
        assert!(text.contains("not a regular file"), "{text}");
    }

    #[test]
    fn absent_and_repeated_files_are_refused() {
        let text = refusal(&[("package/b.js", EntryType::Regular, "x")]);
        assert!(text.contains("lacks `a.js`"), "{text}");
        let entry = ("package/a.js", EntryType::Regular, "x");
        let text = refusal(&[entry, entry]);
        assert!(text.contains("twice"), "{text}");
    }

    #[test]
    fn a_cut_archive_is_refused() {
        let case = archive(&[("package/a.js", EntryType::Regular, "content")]);
        let bytes = fs::read(&case.archive).unwrap();
        fs::write(&case.archive, &bytes[..bytes.len() / 2]).unwrap();
        let text = unpack(&case.archive, &["a.js"], &case.out)
            .unwrap_err()
            .to_string();
        assert!(text.contains("damaged"), "{text}");
    }
}
