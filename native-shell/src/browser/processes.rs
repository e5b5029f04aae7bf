//! Finding and killing process trees.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal, getpid, kill_process};

/// Kills every descendant of this process that exists now. New ones may appear meanwhile, so
/// callers repeat until there is no child.
pub(super) fn kill_descendants() {
    for pid in descendants(getpid(), &parents()) {
        // An error means that it is gone already.
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Kills every process that mentions `dir` in its command line or environment, which every
/// process of a browser on that profile does. For browsers whose supervisor is gone.
pub(super) fn kill_users_of(dir: &Path) {
    let own = getpid();
    for pid in all()
        .into_iter()
        .filter(|&pid| pid != own && mentions(pid, dir))
    {
        // An error means that it is gone already.
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Whether a process mentions `dir`, which must not be the prefix of a longer name there.
fn mentions(pid: Pid, dir: &Path) -> bool {
    ["cmdline", "environ"].iter().any(|file| {
        let bytes = fs::read(format!("/proc/{}/{file}", pid.as_raw_nonzero()));
        bytes.is_ok_and(|bytes| contains_path(&bytes, dir.as_os_str().as_encoded_bytes()))
    })
}

fn contains_path(text: &[u8], path: &[u8]) -> bool {
    let continues = |next: Option<&u8>| {
        next.is_some_and(|next| next.is_ascii_alphanumeric() || b"-_.".contains(next))
    };
    !path.is_empty()
        && text
            .windows(path.len())
            .enumerate()
            .any(|(at, window)| window == path && !continues(text.get(at + path.len())))
}

fn descendants(root: Pid, parents: &HashMap<Pid, Pid>) -> HashSet<Pid> {
    let mut found = HashSet::new();
    let mut added = HashSet::from([root]);
    while !added.is_empty() {
        let children = parents.iter().filter(|(pid, parent)| {
            added.contains(parent) && **pid != root && !found.contains(*pid)
        });
        added = children.map(|(pid, _)| *pid).collect();
        found.extend(&added);
    }
    found
}

/// Parent of each process.
fn parents() -> HashMap<Pid, Pid> {
    all()
        .into_iter()
        .filter_map(|pid| Some((pid, parent(pid)?)))
        .collect()
}

fn parent(pid: Pid) -> Option<Pid> {
    let stat = fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    parse_parent(&stat)
}

/// The parent is the second field after the name, which is in parentheses and may hold anything.
fn parse_parent(stat: &[u8]) -> Option<Pid> {
    let name_end = stat.iter().rposition(|&byte| byte == b')')?;
    let fields = std::str::from_utf8(&stat[name_end + 1..]).ok()?;
    Pid::from_raw(fields.split_ascii_whitespace().nth(1)?.parse().ok()?)
}

fn all() -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pid = |entry: fs::DirEntry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?);
    entries.flatten().filter_map(pid).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pid(raw: i32) -> Pid {
        Pid::from_raw(raw).unwrap()
    }

    #[test]
    fn descendants_are_the_whole_tree_without_its_root() {
        let parents = [(2, 1), (10, 2), (11, 10), (12, 11), (20, 1)];
        let parents = parents
            .map(|(child, parent)| (pid(child), pid(parent)))
            .into();
        assert_eq!(
            descendants(pid(2), &parents),
            [pid(10), pid(11), pid(12)].into()
        );
        assert_eq!(descendants(pid(12), &parents), HashSet::new());
    }

    #[test]
    fn the_parent_is_read_behind_any_name() {
        assert_eq!(parse_parent(b"7 (evil) R 1) S 42 7 7"), Some(pid(42)));
        assert_eq!(parse_parent(b"1 (init) S 0 1"), None);
        assert_eq!(parse_parent(b"7 (cut"), None);
    }

    #[test]
    fn a_longer_name_is_another_directory() {
        let dir = b"/tmp/pyproc-browser-a";
        assert!(contains_path(
            b"x\0--user-data-dir=/tmp/pyproc-browser-a\0y",
            dir
        ));
        assert!(contains_path(b"TMPDIR=/tmp/pyproc-browser-a/tmp", dir));
        assert!(contains_path(b"/tmp/pyproc-browser-a", dir));
        assert!(!contains_path(b"/tmp/pyproc-browser-ab/tmp", dir));
        assert!(!contains_path(b"/tmp/pyproc-browser", dir));
    }
}
