//! `cargo xtask bench`: what things cost, next to what they cannot cost less than.

use clap::{Args, Subcommand};

use crate::project::Project;
use crate::run::engine;
use crate::step::{Result, Steps, execute, execute_as_is};

/// What to measure.
#[derive(Subcommand)]
pub(crate) enum Bench {
    /// The Python machine: start, runs, checkpoints, interrupts, memory.
    Machine(Machine),
}

#[derive(Args)]
pub(crate) struct Machine {
    /// Few samples: a look, not numbers to keep.
    #[arg(long)]
    quick: bool,
}

/// Measures and writes `report.json` and `report.md` below `target/bench`; the table goes to
/// standard output.
pub(crate) fn bench(project: &Project, steps: &mut Steps, what: &Bench) -> Result {
    let Bench::Machine(Machine { quick }) = what;
    steps.step("engine", || engine(project))?;
    steps.step("build", || {
        let programs = ["--bin", "pyproc-control", "--bin", "bench"];
        let packages = ["-p", "pyproc-native-shell", "-p", "pyproc-tests"];
        execute(project.cargo().arg("build").args(packages).args(programs))
    })?;
    steps.step("measures", || {
        let mut cargo = project.cargo();
        cargo
            .args(["run", "--quiet", "-p", "pyproc-tests", "--bin", "bench"])
            .args(["--", "machine"])
            .args(quick.then_some("--quick"))
            .arg(project.built("bench"))
            .env("PYPROC_TEST_ENGINE", project.engine_dir()?);
        execute_as_is(&mut cargo)
    })
}
