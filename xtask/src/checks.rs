//! `cargo xtask test`: everything that must hold, cheap checks first.

use std::fmt::Display;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::docs;
use crate::project::Project;
use crate::python;
use crate::run::engine;
use crate::setup::{TARGETS, find_browser, setup};
use crate::step::{Failure, Result, Steps, execute};
use crate::wheels::wheels;

/// The core's faces exist only for these targets; on the host they are neither linted nor tested.
const FACES: [&str; 2] = ["pyproc-web", "pyproc-wasi"];

pub(crate) fn test(project: &Project, steps: &mut Steps) -> Result {
    setup(project, steps)?;
    steps.step("format", || {
        execute(project.cargo().args(["fmt", "--all", "--check"]))
    })?;
    steps.step("types of the page", || {
        execute(project.in_page("npm").args(["run", "check"]))
    })?;
    steps.step("lints", || lints(project))?;
    steps.step("documentation", || docs::check(project))?;
    steps.step("engine", || engine(project))?;
    let wheels = steps.step("wheels", || wheels(project))?;
    let environment = Environment::prepare(project, wheels)?;
    // A fault in one half does not hide what is in the other.
    let rust = steps.step("tests", || {
        execute(environment.give(without_faces(project.cargo().args([
            "test",
            "--workspace",
            "--no-fail-fast",
        ]))))
    });
    let page = steps.step("tests of the page", || {
        let mut node = project.in_page("node");
        node.args(["--test", "--test-timeout=600000"]);
        node.args(page_tests(project)?);
        execute(environment.give(&mut node))
    });
    let client = steps.step("tests of the Python client", || {
        execute(
            project
                .cargo()
                .args(["build", "--package", "pyproc-native-shell", "--bins"]),
        )?;
        python::test(project, |command| environment.give(command))
    });
    rust.and(page).and(client)
}

/// The page's test files. They are named one by one because what Node.js makes of a folder
/// differs between its versions.
fn page_tests(project: &Project) -> Result<Vec<PathBuf>> {
    let folder = project.page().join("test");
    let fail = |reason: &dyn Display| Failure::new(format!("{}: {reason}", folder.display()));
    let entries = fs::read_dir(&folder).map_err(|error| fail(&error))?;
    let mut tests: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    tests.retain(|path| path.to_string_lossy().ends_with(".test.mjs"));
    tests.sort();
    if tests.is_empty() {
        Err(fail(&"there are no tests"))
    } else {
        Ok(tests)
    }
}

fn lints(project: &Project) -> Result {
    const STRICT: [&str; 3] = ["--", "-D", "warnings"];
    let mut host = project.cargo();
    without_faces(host.args(["clippy", "--workspace", "--all-targets"]));
    execute(host.args(STRICT))?;
    for (face, target) in FACES.iter().zip(TARGETS) {
        let mut cargo = project.cargo();
        cargo.args(["clippy", "--package", face, "--target", target]);
        execute(cargo.args(STRICT))?;
    }
    Ok(())
}

fn without_faces(cargo: &mut Command) -> &mut Command {
    cargo.args(FACES.iter().flat_map(|face| ["--exclude", face]))
}

/// What tests are told about the surroundings.
struct Environment {
    engine: PathBuf,
    kernel: PathBuf,
    browser: PathBuf,
    wheels: PathBuf,
}

impl Environment {
    fn prepare(project: &Project, wheels: PathBuf) -> Result<Self> {
        let browser = find_browser().ok_or_else(|| Failure::new("the browser is gone"))?;
        Ok(Self {
            engine: project.engine_dir()?,
            kernel: assemble_kernel(project)?,
            browser,
            wheels,
        })
    }

    fn give<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .env("PYPROC_TEST_ENGINE", &self.engine)
            .env("PYPROC_TEST_KERNEL", &self.kernel)
            .env("PYPROC_TEST_CHROMIUM", &self.browser)
            .env("PYPROC_TEST_WHEELS", &self.wheels)
    }
}

/// The page kernel as the page's tests load it without the product.
fn assemble_kernel(project: &Project) -> Result<PathBuf> {
    let source = project.page().join("worker/kernel.wat");
    let bytes = wat::parse_file(&source).map_err(|error| Failure::new(error.to_string()))?;
    let path = project.scratch("kernel.wasm");
    let folder = path.parent().unwrap_or(&path);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&path, bytes))
        .map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_assembles_to_a_module() {
        let path = assemble_kernel(&Project::locate()).unwrap();
        assert_eq!(fs::read(path).unwrap()[..8], *b"\0asm\x01\0\0\0");
    }

    #[test]
    fn test_files_are_found_and_support_files_are_not() {
        let tests = page_tests(&Project::locate()).unwrap();
        assert!(
            tests
                .iter()
                .any(|path| path.ends_with("test/boot.test.mjs"))
        );
        assert!(
            !tests
                .iter()
                .any(|path| path.ends_with("support/browser.mjs"))
        );
    }
}
