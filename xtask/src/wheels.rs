//! Wheels that tests of packages load: a native package and what it depends on.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::project::Project;
use crate::setup::{install_with_apt, on_path};
use crate::step::{Failure, Result, execute, output};

/// Distribution, version, and the file it comes in. The tags are those of the engine's release.
const WHEELS: [(&str, &str, &str); 5] = [
    (
        "pydantic-core",
        "2.50.5",
        "pydantic_core-2.50.5-cp314-cp314-pyemscripten_2026_0_wasm32.whl",
    ),
    ("pydantic", "2.14.4", "pydantic-2.14.4-py3-none-any.whl"),
    (
        "typing-extensions",
        "4.16.0",
        "typing_extensions-4.16.0-py3-none-any.whl",
    ),
    (
        "annotated-types",
        "0.8.0",
        "annotated_types-0.8.0-py3-none-any.whl",
    ),
    (
        "typing-inspection",
        "0.4.5",
        "typing_inspection-0.4.5-py3-none-any.whl",
    ),
];

/// The folder of the wheels, with all of them in it.
pub(crate) fn wheels(project: &Project) -> Result<PathBuf> {
    let folder = project.built("test-wheels");
    if missing(&folder).is_empty() {
        eprintln!("    {} wheels are in {}", WHEELS.len(), folder.display());
        return Ok(folder);
    }
    if !has_pip() {
        let programs = "python3 with pip";
        if !on_path("python3") {
            install_with_apt("python3", programs)?;
        }
        install_with_apt("python3-pip", programs)?;
    }
    download(project, &folder)?;
    match missing(&folder).as_slice() {
        [] => Ok(folder),
        absent => Err(Failure::new(format!(
            "pip did not bring {} into {}",
            absent.join(", "),
            folder.display()
        ))),
    }
}

fn missing(folder: &Path) -> Vec<&'static str> {
    let files = WHEELS.map(|(_, _, file)| file);
    let absent = files
        .into_iter()
        .filter(|file| !folder.join(file).is_file());
    absent.collect()
}

fn has_pip() -> bool {
    output(Command::new("python3").args(["-m", "pip", "--version"])).is_ok()
}

/// Fetches with the user's pip and its configuration. The folder gets exactly these wheels: the
/// product refuses two wheels with one name.
fn download(project: &Project, folder: &Path) -> Result {
    let fail = |error| Failure::new(format!("{}: {error}", folder.display()));
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(fail)?;
    }
    let mut pip = project.in_root("python3");
    pip.args(["-m", "pip", "download", "--no-deps"])
        .args(["--only-binary=:all:", "--python-version", "3.14"])
        .args(["--implementation", "cp", "--abi", "cp314", "--abi", "none"])
        .args(["--platform", "pyemscripten_2026_0_wasm32"])
        .args(["--progress-bar", "off", "--disable-pip-version-check"])
        .arg("--dest")
        .arg(folder)
        .args(WHEELS.map(|(name, version, _)| format!("{name}=={version}")));
    execute(&mut pip)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_are_those_of_the_pinned_versions() {
        for (name, version, file) in WHEELS {
            let prefix = format!("{}-{version}-", name.replace('-', "_"));
            assert!(file.starts_with(&prefix), "{file}");
        }
    }

    #[test]
    fn a_folder_without_wheels_misses_all_of_them() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(missing(folder.path()).len(), 5);
        fs::write(folder.path().join(WHEELS[1].2), "").unwrap();
        assert!(!missing(folder.path()).contains(&WHEELS[1].2));
        assert_eq!(missing(folder.path()).len(), 4);
    }
}
