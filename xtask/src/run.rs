//! `cargo xtask run`: from a fresh clone to the answer of the machine.

use std::process::Command;

use crate::project::Project;
use crate::setup::setup;
use crate::step::{Failure, Result, Steps, execute, execute_as_is, output};

/// Prepares everything and runs `code`; standard output carries only what the code printed.
pub(crate) fn run(project: &Project, steps: &mut Steps, code: &str) -> Result {
    setup(project, steps)?;
    steps.step("engine", || engine(project))?;
    steps.step("build", || {
        execute(project.cargo().args(["build", "--bin", "pyproc-control"]))
    })?;
    steps.step("run", || execute_as_is(&mut machine(project, code)))
}

/// Runs the code of the quick start and checks what it prints.
pub(crate) fn check_answer(project: &Project, steps: &mut Steps) -> Result {
    steps.step("answer of the machine", || {
        let answer = output(&mut machine(project, "print(40 + 2)"))?;
        if answer.trim_end() == "42" {
            eprintln!("    print(40 + 2) printed 42");
            Ok(())
        } else {
            Err(Failure::new(format!(
                "`print(40 + 2)` printed {answer:?} instead of 42"
            )))
        }
    })
}

/// Prepares the engine where the product looks for it, or checks the one that is there.
pub(crate) fn engine(project: &Project) -> Result {
    let out = project.engine_dir()?;
    let mut cargo = project.cargo();
    cargo.args(["run", "--quiet", "--bin", "pyproc-engine", "--", "--out"]);
    execute(cargo.arg(out))
}

fn machine(project: &Project, code: &str) -> Command {
    let mut cargo = project.cargo();
    cargo.args([
        "run",
        "--quiet",
        "--bin",
        "pyproc-control",
        "--",
        "run",
        "--code",
        code,
    ]);
    cargo
}
