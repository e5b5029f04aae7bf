//! `cargo xtask setup`: installs what is missing, or says exactly what to install.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::project::Project;
use crate::step::{Failure, Result, Steps, execute, output};

/// Targets of the core's two faces.
pub(crate) const TARGETS: [&str; 2] = ["wasm32-unknown-unknown", "wasm32-wasip2"];

/// Oldest Node.js that runs the page's tests.
const NODE_MAJOR: u32 = 20;

/// Names of browsers, in the product's order.
const BROWSERS: [&str; 5] = [
    "google-chrome",
    "google-chrome-stable",
    "chromium-browser",
    "chromium",
    "microsoft-edge",
];

pub(crate) fn setup(project: &Project, steps: &mut Steps) -> Result {
    steps.step("compilation targets", || targets(project))?;
    steps.step("browser", browser)?;
    steps.step("Node.js and npm", node)?;
    steps.step("tools of the page", || page_tools(project))
}

/// rustup installs what `rust-toolchain.toml` lists, but not into a toolchain that it finds
/// already installed.
fn targets(project: &Project) -> Result {
    let mut missing = Vec::new();
    for target in TARGETS {
        let mut rustc = project.in_root("rustc");
        let libraries = output(rustc.args(["--print", "target-libdir", "--target", target]))?;
        if !Path::new(libraries.trim()).is_dir() {
            missing.push(target);
        }
    }
    if missing.is_empty() {
        eprintln!("    {} are installed", TARGETS.join(" and "));
        return Ok(());
    }
    execute(
        Command::new("rustup")
            .args(["target", "add"])
            .args(&missing),
    )
    .map_err(|failure| {
        Failure::new(format!(
            "{failure}; install the targets {} for the toolchain of rust-toolchain.toml",
            missing.join(" and ")
        ))
    })
}

fn browser() -> Result {
    if find_browser().is_none() {
        install_with_apt("chromium", "a browser of the Chromium family")?;
    }
    let path = find_browser().ok_or_else(|| {
        Failure::new("the package `chromium` was installed, but brought no browser")
    })?;
    eprintln!("    {}", path.display());
    Ok(())
}

/// The browser that the tests use: the one that the product finds.
pub(crate) fn find_browser() -> Option<PathBuf> {
    ["/usr/bin".into()]
        .into_iter()
        .chain(search_path())
        .find_map(|folder: PathBuf| {
            BROWSERS
                .iter()
                .map(|name| folder.join(name))
                .find(|path| path.is_file())
        })
}

fn search_path() -> Vec<PathBuf> {
    env::var_os("PATH")
        .map(|path| env::split_paths(&path).collect())
        .unwrap_or_default()
}

pub(crate) fn on_path(program: &str) -> bool {
    search_path()
        .iter()
        .any(|folder| folder.join(program).is_file())
}

/// Installs `package` as root on a Debian-like system; elsewhere says that `purpose` is missing.
pub(crate) fn install_with_apt(package: &str, purpose: &str) -> Result {
    let root = output(Command::new("id").arg("-u"))?.trim() == "0";
    if !root || !on_path("apt-get") {
        return Err(Failure::new(format!(
            "{purpose} is missing; install it, for example with `sudo apt-get install {package}`, \
             and run this again"
        )));
    }
    let apt = || {
        let mut apt = Command::new("apt-get");
        apt.env("DEBIAN_FRONTEND", "noninteractive");
        apt
    };
    execute(apt().arg("update"))?;
    execute(apt().args(["install", "--yes", "--no-install-recommends", package]))
}

fn node() -> Result {
    const ADVICE: &str = "install Node.js 20 or newer with npm";
    let advise = |failure: Failure| Failure::new(format!("{failure}; {ADVICE}"));
    let node = output(Command::new("node").arg("--version")).map_err(advise)?;
    let npm = output(Command::new("npm").arg("--version")).map_err(advise)?;
    eprintln!("    Node.js {}, npm {}", node.trim(), npm.trim());
    match major(&node) {
        Some(version) if version >= NODE_MAJOR => Ok(()),
        _ => Err(Failure::new(format!(
            "Node.js {} is too old; {ADVICE}",
            node.trim()
        ))),
    }
}

/// `v20.1.2` is 20.
fn major(version: &str) -> Option<u32> {
    version
        .trim()
        .strip_prefix('v')?
        .split('.')
        .next()?
        .parse()
        .ok()
}

fn page_tools(project: &Project) -> Result {
    let page = project.page();
    if is_installed(&page)? {
        eprintln!("    page/node_modules is as page/package.json says");
        return Ok(());
    }
    let mut npm = project.in_page("npm");
    if page.join("package-lock.json").is_file() {
        npm.arg("ci");
    } else {
        npm.args(["install", "--no-package-lock"]);
    }
    execute(npm.args(["--no-audit", "--no-fund"]))
}

/// Whether every tool of the page's manifest is there in exactly its version.
fn is_installed(page: &Path) -> Result<bool> {
    let manifest = read_json(&page.join("package.json"))?;
    let tools = manifest.get("devDependencies").and_then(Value::as_object);
    Ok(tools.into_iter().flatten().all(|(name, version)| {
        let installed = page.join("node_modules").join(name).join("package.json");
        read_json(&installed).is_ok_and(|installed| installed.get("version") == Some(version))
    }))
}

fn read_json(path: &Path) -> Result<Value> {
    let fail = |reason: String| Failure::new(format!("{}: {reason}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| fail(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| fail(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_major_version_is_read() {
        assert_eq!(major("v20.20.2\n"), Some(20));
        assert_eq!(major("20.20.2"), None);
    }

    #[test]
    fn tools_count_as_installed_only_in_their_version() {
        let page = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = page.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("package.json", r#"{"devDependencies":{"tool":"1.2.0"}}"#);
        assert!(!is_installed(page.path()).unwrap());
        write("node_modules/tool/package.json", r#"{"version":"1.1.0"}"#);
        assert!(!is_installed(page.path()).unwrap());
        write("node_modules/tool/package.json", r#"{"version":"1.2.0"}"#);
        assert!(is_installed(page.path()).unwrap());
    }
}
