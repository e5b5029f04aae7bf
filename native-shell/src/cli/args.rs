//! The command line of `pyproc-control` (control protocol 2.1).

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgAction, Args, CommandFactory, Parser, Subcommand};

const EXAMPLES: &str = "\
Examples:
  pyproc-control run --code 'print(40 + 2)'     run Python once
  pyproc-control run script.py                  run a file
  pyproc-control repl                           talk to Python
  pyproc-control doctor                         check what the machine needs
  pyproc-control init python > machine.json     write a starting manifest
  pyproc-control --config machine.json --check  validate a manifest
  pyproc-control --config machine.json          serve one agent on standard input and output

Without --config the default profile is used: the Python machine alone, with the
engine in the user's cache directory.";

/// A persistent Python machine with checkpoints, for agents and people.
#[derive(Debug, Parser)]
#[command(
    name = "pyproc-control",
    after_help = EXAMPLES,
    disable_help_flag = true,
    disable_version_flag = true,
    disable_help_subcommand = true,
    subcommand_negates_reqs = true
)]
pub struct Arguments {
    #[command(flatten)]
    pub common: Common,

    /// Validate the manifest, print the report, and exit
    #[arg(long)]
    pub check: bool,

    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Arguments of every command.
#[derive(Clone, Debug, Args)]
pub struct Common {
    /// Manifest to use; the last one wins
    #[arg(long, value_name = "FILE", overrides_with = "config", global = true)]
    pub config: Option<PathBuf>,

    /// Print this help
    #[arg(long, short, action = ArgAction::SetTrue, global = true)]
    pub help: bool,

    /// Print the version
    #[arg(long, short, action = ArgAction::SetTrue, global = true)]
    pub version: bool,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run Python once and print what it printed and its value
    Run(Run),
    /// Talk to Python, at a terminal or with a script on standard input
    Repl(Repl),
    /// Check everything that the machine needs, and say what to do
    Doctor(Doctor),
    /// Write a starting manifest to standard output
    Init(Init),
}

#[derive(Debug, Args)]
pub struct Run {
    /// Python source to run
    #[arg(long, value_name = "SOURCE", conflicts_with = "file")]
    pub code: Option<String>,

    /// File to run; `-` is standard input
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,

    /// Print the result as one JSON object
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub pictures: PictureArguments,
}

#[derive(Debug, Args)]
pub struct Repl {
    #[command(flatten)]
    pub pictures: PictureArguments,
}

#[derive(Debug, Args)]
pub struct PictureArguments {
    /// Write what Python displays to files in this folder
    #[arg(long = "pictures", value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Doctor {
    /// Print the findings as one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Init {
    /// What the manifest is for
    #[arg(value_enum, default_value = "python")]
    pub recipe: Recipe,
}

/// Starting manifests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Recipe {
    /// The Python machine alone
    Python,
    /// Python and native browser automation
    Browser,
    /// Python and cooperative frames
    Frame,
}

/// Reads all arguments before any of them acts.
///
/// # Errors
///
/// One line that says what is wrong.
pub fn read<P: Parser>(arguments: impl IntoIterator<Item = OsString>) -> Result<P, String> {
    P::try_parse_from(arguments).map_err(|error| {
        let text = error.render().to_string();
        let first = text.lines().find(|line| !line.trim().is_empty());
        let first = first.unwrap_or("the arguments are not understood");
        let first = first.strip_prefix("error: ").unwrap_or(first);
        format!("{first} (see {} --help)", P::command().get_name())
    })
}

/// The help text of the command that the arguments name.
pub fn help(arguments: &Arguments) -> String {
    let mut command = Arguments::command();
    let name = match &arguments.command {
        None => return command.render_long_help().to_string(),
        Some(Command::Run(_)) => "run",
        Some(Command::Repl(_)) => "repl",
        Some(Command::Doctor(_)) => "doctor",
        Some(Command::Init(_)) => "init",
    };
    command.build();
    match command.find_subcommand_mut(name) {
        Some(subcommand) => subcommand.render_long_help().to_string(),
        None => command.render_long_help().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Arguments, String> {
        let program = std::iter::once("pyproc-control");
        read(program.chain(arguments.iter().copied()).map(OsString::from))
    }

    #[test]
    fn unknown_arguments_fail_even_next_to_help() {
        let error = parse(&["--help", "--bogus"]).unwrap_err();
        assert!(error.contains("--bogus"), "{error}");
        assert!(!error.contains('\n'));
        assert!(parse(&["-h"]).unwrap().common.help);
        assert!(parse(&["-v"]).unwrap().common.version);
    }

    #[test]
    fn the_last_manifest_wins_and_a_missing_value_fails() {
        let arguments = parse(&["--config", "a", "--config", "b", "--check"]).unwrap();
        assert_eq!(arguments.common.config, Some(PathBuf::from("b")));
        assert!(arguments.check);
        assert!(parse(&["--config"]).is_err());
    }

    #[test]
    fn a_command_takes_the_manifest_before_and_after_its_name() {
        for order in [["--config", "m", "init"], ["init", "--config", "m"]] {
            let arguments = parse(&order).unwrap();
            assert_eq!(arguments.common.config, Some(PathBuf::from("m")));
        }
    }

    #[test]
    fn every_command_has_help() {
        for command in ["run", "repl", "doctor", "init"] {
            let arguments = parse(&[command, "--help"]).unwrap();
            assert!(
                help(&arguments).contains("Usage: pyproc-control"),
                "{command}"
            );
        }
    }
}
