//! `pyproc-engine`: prepares an engine directory, or checks one
//! (control protocol 2.7).

use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{ArgAction, CommandFactory, Parser};
use pyproc_policy::{EngineSource, Manifest};

use super::files::RealFiles;
use super::profile::{Profile, ProfileError};
use super::{args, block_on};
use crate::diagnostics;
use crate::engine::wheels::CopyError;
use crate::engine::{EngineError, Verified, provision, verify, wheels};
use crate::page_host::{PageError, prepare_image};
use crate::progress::Progress;

const EXAMPLES: &str = "\
Examples:
  pyproc-engine                           prepare vendor/pyodide
  pyproc-engine --out /opt/pyodide        prepare another directory
  pyproc-engine --out /opt/pyodide --verify
                                          check it, fetch and change nothing
  pyproc-engine --wheels ~/wheels         prepare, and add the wheels of a directory

The engine is fetched with your npm client and its configuration, and refused
unless its files have the digests that this program was built with. A directory
that is prepared already is only checked.

Exit code 0: the directory is verified. 1: it is not; the file at fault is named.";

/// Prepares the Python engine for pyproc-control, or checks it.
#[derive(Debug, Parser)]
#[command(
    name = "pyproc-engine",
    after_help = EXAMPLES,
    disable_help_flag = true,
    disable_version_flag = true
)]
struct Arguments {
    /// Engine directory; its last component must be `pyodide`
    #[arg(
        long,
        value_name = "DIR",
        default_value = "vendor/pyodide",
        overrides_with = "out"
    )]
    out: PathBuf,

    /// Check the directory; fetch and change nothing
    #[arg(long)]
    verify: bool,

    /// Check the wheels of this directory and add them to the engine
    #[arg(long, value_name = "DIR", conflicts_with = "verify")]
    wheels: Option<PathBuf>,

    /// Print this help
    #[arg(long, short, action = ArgAction::SetTrue)]
    help: bool,

    /// Print the version
    #[arg(long, short = 'v', action = ArgAction::SetTrue)]
    version: bool,
}

/// The directory is not prepared.
#[derive(Debug, thiserror::Error)]
pub(super) enum CommandError {
    /// The command line.
    #[error("{0}")]
    Arguments(String),
    /// The engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The wheels.
    #[error(transparent)]
    Wheels(#[from] CopyError),
    /// The boot image.
    #[error(transparent)]
    Page(#[from] PageError),
    /// The plan of the browser that makes the boot image.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The system.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Does what the command line says.
pub(super) fn engine(
    arguments: impl IntoIterator<Item = OsString>,
) -> Result<ExitCode, CommandError> {
    let arguments: Arguments = args::read(arguments).map_err(CommandError::Arguments)?;
    if arguments.help {
        print!("{}", Arguments::command().render_long_help());
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.version {
        println!("{}", env!("CARGO_PKG_VERSION"));
        return Ok(ExitCode::SUCCESS);
    }
    let out = provision::destination(&env::current_dir()?, &arguments.out)?;
    if arguments.verify {
        print_summary(&verify(&out)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let verified = prepare(&out, arguments.wheels.as_deref())?;
    prepare_boot_image(&out)?;
    print_summary(&verified)?;
    Ok(ExitCode::SUCCESS)
}

/// The verified engine directory, with the wheels added.
fn prepare(out: &Path, wheels: Option<&Path>) -> Result<Verified, CommandError> {
    let mut progress = Progress::start("preparing the Python engine");
    let prepared = provision(out, &mut |phase| progress.phase(&phase.to_string()))?;
    progress.finish();
    let Some(from) = wheels else {
        return Ok(prepared.verified);
    };
    let copied = wheels::copy_wheels(prepared.verified.release, out, from)?;
    for line in &copied.ignored {
        diagnostics::line(line);
    }
    diagnostics::line(&format!(
        "{} wheels verified, {} added to {}",
        copied.verified,
        copied.copied,
        out.display()
    ));
    // What was added may be named by the lock file, with a digest.
    Ok(verify(out)?)
}

/// Makes the boot image now, where a browser can make it, so that the first
/// start of the machine does not have to.
fn prepare_boot_image(out: &Path) -> Result<(), CommandError> {
    let root = out.display().to_string();
    let engine = match EngineSource::root(&root, &RealFiles) {
        Ok(engine) => engine,
        // A directory whose name a manifest cannot hold.
        Err(reason) => {
            diagnostics::line(&format!(
                "the boot image is left to the first run: {reason}"
            ));
            return Ok(());
        }
    };
    let profile = Profile {
        path: None,
        manifest: Manifest::machine_only(engine),
    };
    let page = match profile.plan() {
        Ok((_, page)) => page,
        Err(ProfileError::Browser(reason)) => {
            diagnostics::line(&format!(
                "the boot image is left to the first run: {reason}"
            ));
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    Ok(block_on(async { prepare_image(&page).await })??)
}

fn print_summary(verified: &Verified) -> io::Result<()> {
    writeln!(
        io::stdout(),
        "{}: Pyodide {}, {} core files and {} packages verified",
        verified.root.display(),
        verified.release.version,
        verified.core_files,
        verified.packages
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(arguments: &[&str]) -> Result<ExitCode, CommandError> {
        let program = std::iter::once("pyproc-engine");
        engine(program.chain(arguments.iter().copied()).map(OsString::from))
    }

    #[test]
    fn a_directory_of_another_name_is_refused() {
        let error = run(&["--out", "./engine"]).unwrap_err();
        assert!(matches!(error, CommandError::Engine(_)), "{error}");
        assert!(error.to_string().contains("`pyodide`"), "{error}");
    }

    #[test]
    fn what_is_not_known_fails_in_one_line() {
        for arguments in [
            &["vendor/pyodide"][..],
            &["--out"],
            &["--help", "--bogus"],
            &["--verify", "--wheels", "w"],
        ] {
            let error = run(arguments).unwrap_err().to_string();
            assert!(error.ends_with("(see pyproc-engine --help)"), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn verification_fetches_nothing_and_names_what_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("pyodide");
        let error = run(&["--verify", "--out", out.to_str().unwrap()]).unwrap_err();
        assert!(error.to_string().contains("pyodide.mjs"), "{error}");
        assert!(!out.exists());
    }

    #[test]
    fn the_last_directory_wins() {
        let program = ["pyproc-engine", "--out", "a", "--out", "b/pyodide"];
        let arguments: Arguments = args::read(program.map(OsString::from)).unwrap();
        assert_eq!(arguments.out, Path::new("b/pyodide"));
    }
}
