//! The user's npm client, as a child process with a deadline.
//!
//! The registry, its credentials and its proxies are the user's npm configuration: no host name
//! is known here.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::error::EngineError;

/// How much of npm's standard error is kept for the message, in bytes.
const STDERR_TAIL: usize = 2048;

/// Pause between two looks at the child.
const POLL: Duration = Duration::from_millis(25);

/// Downloads the package archive of `package` (`name@version`) into `dir` with `npm pack` and
/// returns its path. Install scripts are not run.
///
/// # Errors
/// npm is absent, fails, leaves no single archive, or is not done within `limit`; then it and its
/// children have been stopped.
pub(super) fn pack(
    client: &Path,
    package: &str,
    dir: &Path,
    limit: Duration,
) -> Result<PathBuf, EngineError> {
    let command_line = format!("npm pack {package}");
    let mut command = Command::new(client);
    command
        .args([
            "pack",
            package,
            "--ignore-scripts",
            "--silent",
            "--pack-destination",
        ])
        .arg(dir)
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);

    let mut child = command
        .spawn()
        .map_err(|source| EngineError::NpmMissing { source })?;
    let tail = child.stderr.take().map(collect_tail);
    let status = wait_until(&mut child, Instant::now() + limit)
        .map_err(EngineError::io("wait for npm", client))?;
    let Some(status) = status else {
        return Err(EngineError::NpmTimeout {
            command: command_line,
            limit,
        });
    };
    if !status.success() {
        // The reader ends with the last holder of the pipe; a child that npm left behind must not
        // delay the message.
        let stderr = tail.and_then(|tail| tail.recv_timeout(Duration::from_secs(1)).ok());
        return Err(EngineError::Npm {
            command: command_line,
            status: status.to_string(),
            stderr: one_line(&stderr.unwrap_or_default()),
        });
    }
    single_archive(dir)
}

/// The npm client's program name, found on `PATH`.
pub(super) fn default_client() -> PathBuf {
    PathBuf::from(if cfg!(windows) { "npm.cmd" } else { "npm" })
}

/// Waits for `child`; at the deadline it is stopped and `None` is returned.
fn wait_until(child: &mut Child, deadline: Instant) -> io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            kill_group(child);
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(POLL);
    }
}

#[cfg(unix)]
fn kill_group(child: &mut Child) {
    use rustix::process::{Pid, Signal, kill_process_group};
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // An error means that the group is gone already.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

#[cfg(not(unix))]
fn kill_group(child: &mut Child) {
    // An error means that the child is gone already.
    let _ = child.kill();
}

/// Reads to the end on a thread of its own, so that the child never waits on a full pipe, and
/// keeps the last [`STDERR_TAIL`] bytes.
fn collect_tail(mut pipe: impl Read + Send + 'static) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut tail = Vec::new();
        let mut buffer = [0; 4096];
        while let Ok(read @ 1..) = pipe.read(&mut buffer) {
            tail.extend_from_slice(&buffer[..read]);
            tail.drain(..tail.len().saturating_sub(STDERR_TAIL));
        }
        // The receiver is gone when npm succeeded or timed out.
        let _ = sender.send(tail);
    });
    receiver
}

fn one_line(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let lines: Vec<_> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    if lines.is_empty() {
        "it printed nothing".to_owned()
    } else {
        lines.join("; ")
    }
}

fn single_archive(dir: &Path) -> Result<PathBuf, EngineError> {
    let mut archives = Vec::new();
    for entry in dir.read_dir().map_err(EngineError::io("list", dir))? {
        let path = entry.map_err(EngineError::io("list", dir))?.path();
        if path.extension().is_some_and(|extension| extension == "tgz") {
            archives.push(path);
        }
    }
    match archives.pop() {
        Some(archive) if archives.is_empty() => Ok(archive),
        _ => Err(EngineError::Archive {
            path: dir.to_owned(),
            reason: "npm did not leave exactly one package archive".to_owned(),
        }),
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn client(dir: &Path, script: &str) -> PathBuf {
        let path = dir.join("npm");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn the_archive_that_npm_leaves_is_returned() {
        let dir = tempfile::tempdir().unwrap();
        let out = tempfile::tempdir().unwrap();
        let npm = client(dir.path(), "touch pyodide-1.tgz");
        let archive = pack(&npm, "pyodide@1", out.path(), Duration::from_secs(10)).unwrap();
        assert_eq!(archive, out.path().join("pyodide-1.tgz"));
    }

    #[test]
    fn a_failure_carries_status_and_the_last_lines_of_stderr() {
        let dir = tempfile::tempdir().unwrap();
        let npm = client(dir.path(), "echo 'npm error code E404' >&2; exit 7");
        let error = pack(&npm, "pyodide@1", dir.path(), Duration::from_secs(10)).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("npm pack pyodide@1"), "{text}");
        assert!(text.contains("exit status: 7"), "{text}");
        assert!(text.contains("npm error code E404"), "{text}");
    }

    #[test]
    fn a_client_that_hangs_is_stopped_with_its_children() {
        let dir = tempfile::tempdir().unwrap();
        let npm = client(dir.path(), "sleep 60 & echo $! > child; wait");
        let started = Instant::now();
        let error = pack(&npm, "pyodide@1", dir.path(), Duration::from_secs(1)).unwrap_err();
        assert!(matches!(error, EngineError::NpmTimeout { .. }), "{error}");
        assert!(started.elapsed() < Duration::from_secs(20));
        let child = fs::read_to_string(dir.path().join("child")).unwrap();
        let gone = Instant::now() + Duration::from_secs(5);
        while is_running(child.trim()) {
            assert!(
                Instant::now() < gone,
                "the client's child {child} still runs"
            );
            thread::sleep(POLL);
        }
    }

    /// A killed orphan may stay a zombie until its new parent looks.
    fn is_running(pid: &str) -> bool {
        fs::read_to_string(format!("/proc/{pid}/stat"))
            .is_ok_and(|stat| !stat.contains(") Z ") && !stat.contains(") X "))
    }

    #[test]
    fn an_absent_client_says_what_to_install() {
        let dir = tempfile::tempdir().unwrap();
        let npm = dir.path().join("absent");
        let error = pack(&npm, "pyodide@1", dir.path(), Duration::from_secs(1)).unwrap_err();
        assert!(error.to_string().contains("install Node.js"), "{error}");
    }
}
