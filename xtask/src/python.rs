//! The Python client: its checks, and its tests with every interpreter that is there.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::project::Project;
use crate::setup::install_with_apt;
use crate::step::{Failure, Result, execute, output};

/// Minor versions of Python 3 that the client supports.
const MINORS: std::ops::RangeInclusive<u32> = 10..=14;

/// An interpreter that the client supports.
struct Interpreter {
    path: PathBuf,
    minor: u32,
}

/// An environment with the tools and the client of the working tree, and what runs in it.
struct Venv<'a> {
    project: &'a Project,
    python: PathBuf,
}

impl<'a> Venv<'a> {
    fn make(project: &'a Project, interpreter: &Interpreter) -> Result<Self> {
        let folder = project.scratch(&format!("python-client-3.{}", interpreter.minor));
        let python = folder.join("bin/python");
        if !python.is_file() {
            let mut make = Command::new(&interpreter.path);
            let made = execute(make.args(["-m", "venv", "--clear"]).arg(&folder));
            if made.is_err() {
                // Debian keeps this module in a package of its own.
                install_with_apt("python3-venv", "Python's venv module")?;
                execute(&mut make)?;
            }
        }
        let environment = Self { project, python };
        let mut pip = environment.run("pip");
        pip.args(["install", "--quiet", "--disable-pip-version-check"]);
        execute(pip.args(["--requirement", "requirements-dev.txt", "--editable", "."]))?;
        Ok(environment)
    }

    /// A module of the environment, in the client's folder.
    fn run(&self, module: &str) -> Command {
        let mut command = Command::new(&self.python);
        command.current_dir(self.project.path("clients/python"));
        command.args(["-m", module]);
        command
    }
}

/// Style and types, once; tests with the default interpreter and the newest other one. `give` adds
/// what the tests are told about the surroundings.
pub(crate) fn test(project: &Project, give: impl Fn(&mut Command) -> &mut Command) -> Result {
    let control = project.built("debug/pyproc-control");
    for (place, interpreter) in chosen()?.iter().enumerate() {
        let environment = Venv::make(project, interpreter)?;
        if place == 0 {
            execute(environment.run("ruff").arg("check"))?;
            execute(environment.run("ruff").args(["format", "--check"]))?;
            execute(&mut environment.run("mypy"))?;
        }
        let mut tests = environment.run("pytest");
        tests.env("PYPROC_TEST_CONTROL", &control).arg("--quiet");
        execute(give(&mut tests))?;
    }
    Ok(())
}

/// The default interpreter, and the newest of the others.
fn chosen() -> Result<Vec<Interpreter>> {
    let advice = "install Python 3.10 or newer with pip and venv";
    let default = interpreter(Path::new("python3"))
        .ok_or_else(|| Failure::new(format!("there is no usable python3; {advice}")))?;
    let others = MINORS
        .rev()
        .filter(|minor| *minor != default.minor)
        .flat_map(|minor| {
            [PathBuf::from(format!("python3.{minor}"))]
                .into_iter()
                .chain(managed(minor))
        })
        .find_map(|path| interpreter(&path));
    Ok([default].into_iter().chain(others).collect())
}

/// Interpreters that pyenv keeps, of which it puts only the chosen ones on the path.
fn managed(minor: u32) -> Vec<PathBuf> {
    let root = output(Command::new("pyenv").arg("root").stderr(Stdio::null()));
    let Ok(versions) = root.map(|root| Path::new(root.trim()).join("versions")) else {
        return Vec::new();
    };
    let entries = std::fs::read_dir(versions).into_iter().flatten().flatten();
    let prefix = format!("3.{minor}.");
    entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix))
        .map(|entry| entry.path().join("bin/python"))
        .collect()
}

/// The interpreter at a path, if it runs and is one that the client supports.
fn interpreter(path: &Path) -> Option<Interpreter> {
    let code = "import sys; print(sys.version_info[0], sys.version_info[1])";
    let mut command = Command::new(path);
    command
        .args(["-c", code])
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    let said = command
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let minor = supported(&String::from_utf8_lossy(&said.stdout))?;
    Some(Interpreter {
        path: path.to_owned(),
        minor,
    })
}

/// The minor version in `3 11`, if the client supports it.
fn supported(version: &str) -> Option<u32> {
    let minor = version.trim().strip_prefix("3 ")?.parse().ok()?;
    MINORS.contains(&minor).then_some(minor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_supported_versions_count() {
        assert_eq!(supported("3 11\n"), Some(11));
        assert_eq!(supported("3 9"), None);
        assert_eq!(supported("2 7"), None);
        assert_eq!(supported(""), None);
    }
}
