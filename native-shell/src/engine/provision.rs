//! Prepares an engine directory (control protocol 2.7 with the npm package as its source).

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::digests::{LOCK_FILE, RELEASES, Release};
use super::error::EngineError;
use super::verify::{Verified, verify_against};
use super::{archive, fetch, files, npm};

/// The npm package of the engine.
const PACKAGE: &str = "pyodide";

/// Time for the download. The archive is about 6.5 MB.
const DOWNLOAD_LIMIT: Duration = Duration::from_secs(600);

/// Where the core files come from.
enum Source<'a> {
    /// The npm package, through this client.
    Npm(&'a Path),
    /// The files below an address that ends in `/`.
    Address(&'a str),
}

/// A step of the preparation, with its text for a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The files, or the archive that holds them, are fetched.
    Download,
    /// The core files are unpacked.
    Unpack,
    /// The digests are checked.
    Verify,
    /// The directory gets its final name.
    Install,
}

impl fmt::Display for Phase {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Download => "downloading the engine",
            Self::Unpack => "unpacking the core files",
            Self::Verify => "checking the digests",
            Self::Install => "installing the directory",
        })
    }
}

/// A usable engine directory.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// What it holds.
    pub verified: Verified,
    /// Whether this call made it; `false` means that it was there and only checked.
    pub created: bool,
}

/// The directory that `--out` names (control protocol 2.7): relative paths start at
/// `working_dir`, and the last component must be `pyodide` in any letter case.
///
/// # Errors
/// Another last component.
pub fn destination(working_dir: &Path, out: &Path) -> Result<PathBuf, EngineError> {
    let path = working_dir.join(out);
    match path.file_name() {
        Some(name) if name.eq_ignore_ascii_case("pyodide") => Ok(path),
        _ => Err(EngineError::Destination {
            path,
            reason: "the last component of the engine directory must be `pyodide`; add `/pyodide`",
        }),
    }
}

/// Makes `out` a verified engine directory of the pinned release.
///
/// A directory that has a lock file counts as prepared: it is verified and nothing is downloaded.
/// Otherwise everything happens in a temporary sibling directory, which is renamed to `out` only
/// after verification and removed on every failure.
///
/// # Errors
/// See [`EngineError`]. `out` is then as it was.
pub fn provision(out: &Path, progress: &mut dyn FnMut(Phase)) -> Result<Prepared, EngineError> {
    let client = npm::default_client();
    provision_from(Source::Npm(&client), &RELEASES, out, progress)
}

/// Like [`provision`], with the core files fetched one by one from below `address`, an `http` or
/// `https` URL that ends in `/`.
///
/// # Errors
/// See [`EngineError`]. `out` is then as it was.
pub fn provision_from_address(
    address: &str,
    out: &Path,
    progress: &mut dyn FnMut(Phase),
) -> Result<Prepared, EngineError> {
    provision_from(Source::Address(address), &RELEASES, out, progress)
}

/// Reports the phases of a first preparation only: an engine that is there is verified in no time.
pub fn first_time(mut report: impl FnMut(Phase)) -> impl FnMut(Phase) {
    let mut begun = false;
    move |phase| {
        begun |= phase == Phase::Download;
        if begun {
            report(phase);
        }
    }
}

/// [`provision`] with another source and digest table; the first release is prepared.
fn provision_from(
    source: Source<'_>,
    releases: &'static [Release; 1],
    out: &Path,
    progress: &mut dyn FnMut(Phase),
) -> Result<Prepared, EngineError> {
    let release = &releases[0];
    if out.join(LOCK_FILE).exists() {
        progress(Phase::Verify);
        return Ok(Prepared {
            verified: verify_against(releases, out)?,
            created: false,
        });
    }
    let parent = out.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    refuse_foreign_content(out)?;
    fs::create_dir_all(parent).map_err(EngineError::io("create", parent))?;
    let workspace = tempfile::Builder::new()
        .prefix(files::TEMPORARY_PREFIX)
        .tempdir_in(parent)
        .map_err(EngineError::io("create a temporary directory in", parent))?;

    let staged = workspace.path().join("engine");
    fs::create_dir(&staged).map_err(EngineError::io("create", &staged))?;
    progress(Phase::Download);
    match source {
        Source::Npm(client) => {
            let download = workspace.path().join("download");
            fs::create_dir(&download).map_err(EngineError::io("create", &download))?;
            let package = format!("{PACKAGE}@{}", release.version);
            let archive = npm::pack(client, &package, &download, DOWNLOAD_LIMIT)?;
            progress(Phase::Unpack);
            archive::unpack(&archive, &release.files.map(|file| file.name), &staged)?;
        }
        Source::Address(address) => fetch::files(address, release, &staged, DOWNLOAD_LIMIT)?,
    }

    progress(Phase::Verify);
    verify_against(releases, &staged)?;

    progress(Phase::Install);
    files::sync_dir(&staged).map_err(EngineError::io("write", &staged))?;
    let created = match fs::rename(&staged, out) {
        Ok(()) => true,
        // Another process finished the same preparation first.
        Err(_) if out.join(LOCK_FILE).exists() => false,
        Err(source) => return Err(EngineError::io("install the engine as", out)(source)),
    };
    files::sync_dir(parent).map_err(EngineError::io("write", parent))?;
    Ok(Prepared {
        verified: verify_against(releases, out)?,
        created,
    })
}

/// A directory with content but without a lock file is somebody else's: it is never replaced.
fn refuse_foreign_content(out: &Path) -> Result<(), EngineError> {
    let reason = match fs::read_dir(out) {
        Ok(mut entries) => match entries.next() {
            None => return Ok(()),
            Some(_) => {
                "the directory has content but no engine; remove it or name another directory"
            }
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            "this is a file; remove it or name another directory"
        }
        Err(source) => return Err(EngineError::io("list", out)(source)),
    };
    Err(EngineError::Destination {
        path: out.to_owned(),
        reason,
    })
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::engine::Sha256Digest;

    const CONTENT: &str = r#"{"packages":{}}"#;

    /// A client that packs the files of `content`, changed by the shell code `damage`.
    fn client(dir: &Path, damage: &str) -> PathBuf {
        let names = RELEASES[0].files.map(|file| file.name).join(" ");
        let script = format!(
            "#!/bin/sh\nset -e\nmkdir package\nfor f in {names}; do printf %s '{CONTENT}' > package/$f; done\n\
             {damage}\ntar czf pyodide.tgz package\n"
        );
        let path = dir.join("npm");
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn the_destination_is_called_pyodide() {
        let base = Path::new("/base");
        let accepted = destination(base, Path::new("vendor/Pyodide/")).unwrap();
        assert_eq!(accepted, Path::new("/base/vendor/Pyodide/"));
        for refused in ["engine", "pyodide/..", "", "/"] {
            assert!(destination(base, Path::new(refused)).is_err(), "{refused}");
        }
    }

    /// A table whose every file is what [`client`] packs.
    fn small_release() -> &'static [Release; 1] {
        let mut release = RELEASES[0].clone();
        for file in &mut release.files {
            file.size = CONTENT.len() as u64;
            file.sha256 = Sha256Digest::of(CONTENT.as_bytes());
        }
        Box::leak(Box::new([release]))
    }

    #[test]
    fn a_verified_package_becomes_the_directory_and_is_then_only_checked() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("engines/pyodide");
        let npm = client(dir.path(), "echo more > package/README.md");
        let first = provision_from(Source::Npm(&npm), small_release(), &out, &mut |_| ()).unwrap();
        assert!(first.created);
        assert_eq!(first.verified.core_files, 6);
        let mut names: Vec<_> = fs::read_dir(&out)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        let mut expected = RELEASES[0].files.map(|file| file.name);
        expected.sort_unstable();
        assert_eq!(names, expected);
        assert_eq!(fs::read_dir(out.parent().unwrap()).unwrap().count(), 1);

        let absent = dir.path().join("no-npm");
        let second =
            provision_from(Source::Npm(&absent), small_release(), &out, &mut |_| ()).unwrap();
        assert!(!second.created);
    }

    #[test]
    fn a_failed_verification_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let npm = client(dir.path(), "true");
        let out = dir.path().join("engines/pyodide");
        let mut phases = Vec::new();
        let error = provision_from(Source::Npm(&npm), &RELEASES, &out, &mut |phase| {
            phases.push(phase)
        })
        .unwrap_err();
        assert!(error.to_string().contains("pyodide.mjs"), "{error}");
        assert_eq!(phases, [Phase::Download, Phase::Unpack, Phase::Verify]);
        assert_eq!(fs::read_dir(dir.path().join("engines")).unwrap().count(), 0);
    }

    #[test]
    fn an_incomplete_package_names_the_absent_file() {
        let dir = tempfile::tempdir().unwrap();
        let npm = client(dir.path(), "rm package/pyodide.asm.wasm");
        let out = dir.path().join("pyodide");
        let error = provision_from(Source::Npm(&npm), &RELEASES, &out, &mut |_| ()).unwrap_err();
        assert!(error.to_string().contains("pyodide.asm.wasm"), "{error}");
        assert!(!out.exists());
    }

    #[test]
    fn a_prepared_directory_is_verified_without_a_client() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("pyodide");
        fs::create_dir(&out).unwrap();
        fs::write(out.join(LOCK_FILE), "{}").unwrap();
        let mut phases = Vec::new();
        let absent = dir.path().join("no-npm");
        let error = provision_from(Source::Npm(&absent), &RELEASES, &out, &mut |phase| {
            phases.push(phase)
        })
        .unwrap_err();
        assert!(matches!(error, EngineError::Missing { .. }), "{error}");
        assert_eq!(phases, [Phase::Verify]);
    }

    #[test]
    fn only_a_first_preparation_is_reported() {
        let mut told = Vec::new();
        let mut report = first_time(|phase| told.push(phase));
        report(Phase::Verify);
        report(Phase::Download);
        report(Phase::Verify);
        drop(report);
        assert_eq!(told, [Phase::Download, Phase::Verify]);
    }

    #[test]
    fn a_directory_of_somebody_else_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("pyodide");
        fs::create_dir(&out).unwrap();
        fs::write(out.join("notes"), "mine").unwrap();
        let npm = client(dir.path(), "true");
        let error = provision_from(Source::Npm(&npm), &RELEASES, &out, &mut |_| ()).unwrap_err();
        assert!(matches!(error, EngineError::Destination { .. }), "{error}");
        assert_eq!(fs::read_to_string(out.join("notes")).unwrap(), "mine");
    }

    /// Answers every request with the same bytes until it is dropped.
    fn serve(body: &'static str) -> (String, std::thread::JoinHandle<()>) {
        use std::io::{Read, Write};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/", listener.local_addr().unwrap());
        let thread = std::thread::spawn(move || {
            for _ in 0..6 {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 4096];
                let _ = stream.read(&mut request).unwrap();
                let length = body.len();
                write!(
                    stream,
                    "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
                )
                .unwrap();
            }
        });
        (address, thread)
    }

    #[test]
    fn files_of_an_address_are_verified_like_a_package() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("pyodide");
        let (address, server) = serve(CONTENT);
        let source = Source::Address(&address);
        let prepared = provision_from(source, small_release(), &out, &mut |_| ()).unwrap();
        assert!(prepared.created);
        server.join().unwrap();
    }

    #[test]
    fn other_content_at_an_address_installs_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("pyodide");
        let (address, server) = serve("something else");
        let source = Source::Address(&address);
        let error = provision_from(source, small_release(), &out, &mut |_| ()).unwrap_err();
        assert!(matches!(error, EngineError::Damaged { .. }), "{error}");
        assert!(!out.exists());
        server.join().unwrap();
    }

    #[test]
    fn an_address_that_does_not_answer_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/", listener.local_addr().unwrap());
        drop(listener);
        let source = Source::Address(&address);
        let out = dir.path().join("pyodide");
        let error = provision_from(source, small_release(), &out, &mut |_| ()).unwrap_err();
        assert!(error.to_string().contains(&address), "{error}");
    }
}
