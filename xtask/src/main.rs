//! Everything a person or CI runs: `cargo xtask <command>`.

mod bench;
mod checks;
mod docs;
mod fuzz;
mod project;
mod python;
mod run;
mod setup;
mod step;
mod wheels;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use project::Project;
use step::Steps;

/// Tasks of this repository. Each command says what it does and stops at the first failure.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install what is missing: compilation targets, the browser, the page's tools.
    Setup,
    /// Prepare everything and run Python code in the machine; only its output goes to stdout.
    Run {
        /// The Python code.
        #[arg(last = true, required = true)]
        code: String,
    },
    /// Measure the product and what cannot be faster.
    Bench {
        #[command(subcommand)]
        what: bench::Bench,
    },
    /// Give the core random input, guided by coverage.
    Fuzz(fuzz::Fuzz),
    /// Write the tables of the book in docs/ from the Rust types.
    Docs(docs::Docs),
    /// Format check, lints, types and all tests.
    Test,
    /// What has to pass before a merge: `test`, then `run` with its answer checked.
    Ci,
}

fn main() -> ExitCode {
    let task = Arguments::parse().task;
    let project = Project::locate();
    let mut steps = Steps::start();
    let result = match &task {
        Task::Setup => setup::setup(&project, &mut steps),
        Task::Run { code } => run::run(&project, &mut steps, code),
        Task::Bench { what } => bench::bench(&project, &mut steps, what),
        Task::Fuzz(what) => fuzz::fuzz(&project, &mut steps, what),
        Task::Docs(what) => docs::docs(&project, &mut steps, what),
        Task::Test => checks::test(&project, &mut steps),
        Task::Ci => checks::test(&project, &mut steps)
            .and_then(|()| run::check_answer(&project, &mut steps)),
    };
    match result {
        Ok(()) => {
            steps.finish();
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("\nxtask failed: {failure}");
            ExitCode::FAILURE
        }
    }
}
