//! Looks at this computer.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use super::finding::Finding;
use crate::browser::{SHARED_MEMORY_WANTED, shared_memory_size};
use crate::engine::CacheDir;

/// A program has this long to tell its version.
const VERSION_LIMIT: Duration = Duration::from_secs(20);

/// Memory that a browser with a machine and its spare takes, in bytes.
const MEMORY_WANTED: u64 = 1 << 30;

/// A browser that tells its version can be started.
pub(super) async fn browser(path: &Path) -> Finding {
    match version(path).await {
        Ok(version) => Finding::good("browser", format!("{} ({version})", path.display()))
            .with("path", path.display().to_string().into())
            .with("version", version.into()),
        Err(error) => Finding::missing(
            "browser",
            format!("{} does not start: {error}", path.display()),
            "install the browser again, or set browser.executable to another",
        ),
    }
}

/// npm is needed to prepare an engine, and for nothing else.
pub(super) async fn npm(engine_is_there: bool) -> Finding {
    match version(Path::new("npm")).await {
        Ok(version) => Finding::good("npm", &version).with("version", version.into()),
        Err(_) if engine_is_there => {
            Finding::good("npm", "absent; not needed, because the engine is there")
        }
        Err(error) => Finding::missing(
            "npm",
            format!("npm cannot be started ({error})"),
            "install Node.js with npm, or copy a prepared engine directory to this computer",
        ),
    }
}

/// First line that `program --version` prints.
async fn version(program: &Path) -> io::Result<String> {
    let mut command = Command::new(program);
    command
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let output = timeout(VERSION_LIMIT, command.output())
        .await
        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    if !output.status.success() {
        return Err(io::Error::other(output.status.to_string()));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}

/// Engine, boot images and history are kept here.
pub(super) fn cache() -> Finding {
    const ADVICE: &str = "set XDG_CACHE_HOME or HOME to a directory that can be written; without \
                          it every start makes the boot image again";
    let root = match CacheDir::from_env() {
        Ok(cache) => cache.root().to_owned(),
        Err(error) => return Finding::note("cache", error, ADVICE),
    };
    // The first parent that exists decides whether the rest can be made.
    let existing = root.ancestors().find(|path| path.exists());
    let written = existing.map(tempfile::tempfile_in);
    match written {
        Some(Ok(_)) => Finding::good("cache", root.display()),
        Some(Err(error)) => {
            let text = format!("{} cannot be written: {error}", root.display());
            Finding::note("cache", text, ADVICE)
        }
        None => Finding::note(
            "cache",
            format!("{} cannot be made", root.display()),
            ADVICE,
        ),
    }
}

/// Chromium works without it, with files in the temporary directory instead.
pub(super) fn shared_memory() -> Finding {
    const ADVICE: &str = "give the container more, for example with `docker run --shm-size=1g`";
    match shared_memory_size() {
        Some(size) if size >= SHARED_MEMORY_WANTED => {
            Finding::good("shared memory", mebibytes(size)).with("bytes", size.into())
        }
        Some(size) => {
            let text = format!("{}; temporary files are used instead", mebibytes(size));
            Finding::note("shared memory", text, ADVICE).with("bytes", size.into())
        }
        None => Finding::note("shared memory", "/dev/shm is not there", ADVICE),
    }
}

/// Memory that is free, within the limit of the container.
pub(super) fn memory() -> Finding {
    const ADVICE: &str = "free some, or set machine.heapLimitBytes and machine.spare lower";
    let system = fs::read_to_string("/proc/meminfo").ok();
    let system = system.as_deref().and_then(available);
    let limit = fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let limit = limit.and_then(|text| text.trim().parse().ok());
    match [system, limit].into_iter().flatten().min() {
        Some(free) if free >= MEMORY_WANTED => {
            Finding::good("memory", format!("{} free", mebibytes(free))).with("bytes", free.into())
        }
        Some(free) => {
            let text = format!("{} free", mebibytes(free));
            Finding::note("memory", text, ADVICE).with("bytes", free.into())
        }
        None => Finding::note("memory", "unknown: /proc/meminfo cannot be read", ADVICE),
    }
}

/// `MemAvailable` of `/proc/meminfo`, in bytes.
fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_memory_is_read_in_bytes() {
        let text = "MemTotal:  100 kB\nMemFree: 1 kB\nMemAvailable:   2048 kB\n";
        assert_eq!(available(text), Some(2 << 20));
        assert_eq!(available("MemTotal: 1 kB\n"), None);
    }

    #[tokio::test]
    async fn a_program_that_is_absent_or_fails_has_no_version() {
        assert!(version(Path::new("/no/such/program")).await.is_err());
        assert!(version(Path::new("false")).await.is_err());
        assert!(
            version(Path::new("cargo"))
                .await
                .unwrap()
                .starts_with("cargo ")
        );
    }
}
