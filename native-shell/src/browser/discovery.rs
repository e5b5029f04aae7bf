//! Finds an installed browser of the Chromium family (control protocol 2.6).

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// No usable browser.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BrowserNotFound {
    /// The configured executable is not one.
    #[error("browser.executable {} is not an executable file", .0.display())]
    NotExecutable(PathBuf),
    /// Nothing at the known places.
    #[error(
        "no browser of the Chromium family was found; install Chromium, or set browser.executable to the path of one"
    )]
    None,
}

/// The browser to start: `configured` when given, else the first that is installed.
///
/// # Errors
/// `configured` is not an executable regular file; or nothing is installed where browsers are
/// looked for.
pub fn find_browser(configured: Option<&Path>) -> Result<PathBuf, BrowserNotFound> {
    match configured {
        Some(path) if is_executable(path) => Ok(path.to_owned()),
        Some(path) => Err(BrowserNotFound::NotExecutable(path.to_owned())),
        None => candidates(env::var_os("PATH").as_deref())
            .into_iter()
            .find(|path| is_executable(path))
            .ok_or(BrowserNotFound::None),
    }
}

/// Base names on Linux, most wanted first.
#[cfg(not(any(target_os = "macos", windows)))]
const NAMES: [&str; 5] = [
    "google-chrome",
    "google-chrome-stable",
    "chromium-browser",
    "chromium",
    "microsoft-edge",
];

/// `/usr/bin` first, then the folders of `PATH`. Relative folders are skipped: what is found must
/// not depend on the working directory.
#[cfg(not(any(target_os = "macos", windows)))]
fn candidates(path: Option<&OsStr>) -> Vec<PathBuf> {
    let folders = path.map(|path| env::split_paths(path).collect::<Vec<_>>());
    let folders = folders
        .unwrap_or_default()
        .into_iter()
        .filter(|folder| folder.is_absolute());
    [PathBuf::from("/usr/bin")]
        .into_iter()
        .chain(folders)
        .flat_map(|folder| NAMES.map(|name| folder.join(name)))
        .collect()
}

#[cfg(target_os = "macos")]
fn candidates(_path: Option<&OsStr>) -> Vec<PathBuf> {
    [
        "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
        "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
    ]
    .map(PathBuf::from)
    .into()
}

#[cfg(windows)]
fn candidates(_path: Option<&OsStr>) -> Vec<PathBuf> {
    const EDGE: &str = "Microsoft/Edge/Application/msedge.exe";
    const CHROME: &str = "Google/Chrome/Application/chrome.exe";
    let mut paths = vec![
        Path::new("C:/Program Files (x86)").join(EDGE),
        Path::new("C:/Program Files").join(EDGE),
        Path::new("C:/Program Files").join(CHROME),
        Path::new("C:/Program Files (x86)").join(CHROME),
    ];
    paths.extend(env::var_os("LOCALAPPDATA").map(|user| Path::new(&user).join(CHROME)));
    paths
}

fn is_executable(path: &Path) -> bool {
    let Ok(metadata) = path.metadata() else {
        return false;
    };
    #[cfg(unix)]
    let permitted = {
        use std::os::unix::fs::PermissionsExt;
        metadata.permissions().mode() & 0o111 != 0
    };
    #[cfg(not(unix))]
    let permitted = true;
    metadata.is_file() && permitted
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn system_places_come_before_the_path_and_chrome_before_chromium() {
        let found = candidates(Some(OsStr::new("/opt/bin:relative::/usr/local/bin")));
        assert_eq!(found[0], Path::new("/usr/bin/google-chrome"));
        assert_eq!(found[3], Path::new("/usr/bin/chromium"));
        assert_eq!(found[5], Path::new("/opt/bin/google-chrome"));
        assert_eq!(found[10], Path::new("/usr/local/bin/google-chrome"));
        assert_eq!(found.len(), 15);
        assert_eq!(candidates(None).len(), 5);
    }

    #[test]
    fn a_configured_browser_must_be_an_executable_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("browser");
        let refused = |path: &Path| Err(BrowserNotFound::NotExecutable(path.to_owned()));
        assert_eq!(find_browser(Some(&path)), refused(&path));
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(find_browser(Some(&path)), refused(&path));
        assert_eq!(find_browser(Some(dir.path())), refused(dir.path()));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(find_browser(Some(&path)), Ok(path));
    }

    #[test]
    fn the_failure_tells_what_to_set() {
        assert!(
            BrowserNotFound::None
                .to_string()
                .contains("browser.executable")
        );
    }
}
