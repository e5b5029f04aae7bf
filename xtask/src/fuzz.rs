//! `cargo xtask fuzz`: the core under coverage-guided random input.

use std::fs;
use std::path::Path;

use clap::{Args, ValueEnum};

use crate::project::Project;
use crate::step::{Failure, Result, Steps, execute, output};

/// Longest input, bytes: short inputs are found and mutated fastest.
const MAX_INPUT: u32 = 8192;

/// What is fuzzed, and for how long.
#[derive(Args)]
pub(crate) struct Fuzz {
    /// The target; all of them one after another when absent.
    target: Option<Target>,
    /// Minutes for each target.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_080))]
    minutes: u32,
}

/// A fuzz target of the crate in `fuzz/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Target {
    /// Lines of the control protocol and the server's conversation.
    Frame,
    /// Manifests.
    Manifest,
    /// Messages of the page bridge, and the page's core.
    Bridge,
    /// The host between an agent and pages.
    Host,
}

impl Target {
    fn name(self) -> &'static str {
        match self {
            Self::Frame => "frame",
            Self::Manifest => "manifest",
            Self::Bridge => "bridge",
            Self::Host => "host",
        }
    }
}

pub(crate) fn fuzz(project: &Project, steps: &mut Steps, what: &Fuzz) -> Result {
    steps.step("fuzzer", || installed(project))?;
    let targets = match &what.target {
        Some(target) => std::slice::from_ref(target),
        None => Target::value_variants(),
    };
    for target in targets {
        let title = format!("fuzz {}, {} min", target.name(), what.minutes);
        steps.step(&title, || run(project, *target, what.minutes))?;
    }
    Ok(())
}

/// The fuzzer instruments code in a way that only the nightly compiler offers.
fn installed(project: &Project) -> Result {
    let mut version = project.in_fuzz("rustup");
    let version = output(version.args(["run", "nightly", "cargo", "fuzz", "--version"]));
    let version = version.map_err(|failure| {
        Failure::new(format!(
            "{failure}; run `rustup toolchain install nightly` and \
             `cargo install cargo-fuzz --locked`"
        ))
    })?;
    eprintln!("    {}", version.trim());
    Ok(())
}

/// Starts from the seeds and from what earlier runs found.
fn run(project: &Project, target: Target, minutes: u32) -> Result {
    let name = target.name();
    let mut cargo = project.in_fuzz("rustup");
    let corpus = Path::new("corpus").join(name);
    let folder = project.fuzz().join(&corpus);
    fs::create_dir_all(&folder)
        .map_err(|error| Failure::new(format!("{}: {error}", folder.display())))?;
    cargo
        .args(["run", "nightly", "cargo", "fuzz", "run", name])
        .arg(corpus)
        .arg(Path::new("seeds").join(name))
        .arg("--")
        .arg(format!("-max_total_time={}", u64::from(minutes) * 60))
        .arg(format!("-max_len={MAX_INPUT}"))
        .arg("-timeout=10");
    execute(&mut cargo)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_a_program_and_seeds() {
        let fuzz = Project::locate().fuzz();
        for target in Target::value_variants() {
            let program = format!("fuzz_targets/{}.rs", target.name());
            assert!(fuzz.join(&program).is_file(), "{program}");
            let seeds = fuzz.join("seeds").join(target.name());
            assert!(fs::read_dir(&seeds).unwrap().count() > 5, "{seeds:?}");
        }
        let programs = fs::read_dir(fuzz.join("fuzz_targets")).unwrap().count();
        assert_eq!(programs, Target::value_variants().len());
    }
}
