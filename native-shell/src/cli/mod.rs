//! The command line: reads arguments, makes a plan, and runs it.

mod args;
mod check;
mod doctor;
mod engine;
mod files;
mod init;
mod pictures;
mod profile;
mod repl;
mod run;
mod session;
mod stdio;

use std::env;
use std::process::ExitCode;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use crate::browser::{SUPERVISE_ARGUMENT, supervise};
use crate::diagnostics;
use crate::serve::{self, ServeError};
use args::{Arguments, Command};
pub use files::RealFiles;
use pictures::Pictures;
pub use profile::{Profile, ProfileError};

/// A command failed; it is one line on standard error and exit code 1.
#[derive(Debug, thiserror::Error)]
enum CommandError {
    #[error("{0}")]
    Arguments(String),
    #[error(transparent)]
    Profile(Box<ProfileError>),
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error(transparent)]
    Run(Box<run::RunError>),
    #[error(transparent)]
    Repl(Box<repl::ReplError>),
    #[error(transparent)]
    Engine(Box<engine::CommandError>),
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl From<ProfileError> for CommandError {
    fn from(error: ProfileError) -> Self {
        Self::Profile(Box::new(error))
    }
}

impl From<run::RunError> for CommandError {
    fn from(error: run::RunError) -> Self {
        Self::Run(Box::new(error))
    }
}

impl From<repl::ReplError> for CommandError {
    fn from(error: repl::ReplError) -> Self {
        Self::Repl(Box::new(error))
    }
}

impl From<engine::CommandError> for CommandError {
    fn from(error: engine::CommandError) -> Self {
        Self::Engine(Box::new(error))
    }
}

/// `pyproc-control`.
pub fn control() -> ExitCode {
    program("pyproc-control", control_command)
}

/// `pyproc-engine`.
pub fn engine() -> ExitCode {
    program("pyproc-engine", || Ok(engine::engine(env::args_os())?))
}

/// A program of the product. Each is also the supervisor of the browsers that
/// it starts.
fn program(name: &'static str, command: fn() -> Result<ExitCode, CommandError>) -> ExitCode {
    let mut arguments = env::args_os();
    if arguments
        .nth(1)
        .is_some_and(|first| first == SUPERVISE_ARGUMENT)
    {
        return supervise::main(arguments);
    }
    diagnostics::set_command(name);
    match command() {
        Ok(code) => code,
        Err(error) => {
            diagnostics::line(&error.to_string());
            ExitCode::from(1)
        }
    }
}

fn control_command() -> Result<ExitCode, CommandError> {
    let arguments: Arguments = args::read(env::args_os()).map_err(CommandError::Arguments)?;
    if arguments.common.help {
        print!("{}", args::help(&arguments));
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.common.version {
        println!("{}", env!("CARGO_PKG_VERSION"));
        return Ok(ExitCode::SUCCESS);
    }
    let Arguments {
        common,
        check,
        command,
    } = arguments;
    let config = common.config.as_deref();
    match command {
        None if check => {
            let report = check::control(&Profile::load(config)?)?;
            println!("{report:#}");
            Ok(ExitCode::SUCCESS)
        }
        None => serve_stdio(&Profile::load(config)?),
        Some(Command::Init(init)) => Ok(init::init(&init)?),
        Some(Command::Run(run)) => Ok(block_on(run::run(run, config))??),
        Some(Command::Doctor(doctor)) => Ok(block_on(doctor::doctor(doctor, config))??),
        Some(Command::Repl(repl)) => {
            let pictures = Pictures::into_dir(repl.pictures.dir)?;
            Ok(block_on(repl::repl(config, pictures))??)
        }
    }
}

/// Serves the agent on standard input and output.
fn serve_stdio(profile: &Profile) -> Result<ExitCode, CommandError> {
    let (host, page) = profile.plan()?;
    let ended = block_on(async {
        let stop = stop_signal()?;
        let (reader, writer) = (stdio::reader(), stdio::writer());
        serve::serve(host, page, reader, writer, stop).await
    })??;
    Ok(ExitCode::from(ended.code))
}

/// Runs on one thread; what still blocks afterwards (a read of standard input)
/// ends with the process.
fn block_on<T>(future: impl Future<Output = T>) -> std::io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let result = runtime.block_on(future);
    runtime.shutdown_background();
    Ok(result)
}

/// Resolves with the reason when the process is asked to end.
fn stop_signal() -> std::io::Result<oneshot::Receiver<String>> {
    let (sender, stop) = oneshot::channel();
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        let name = tokio::select! {
            _ = interrupt.recv() => "SIGINT",
            _ = terminate.recv() => "SIGTERM",
            _ = hangup.recv() => "SIGHUP",
        };
        // The run may have ended by itself.
        let _ = sender.send(format!("the host was stopped by {name}"));
    });
    Ok(stop)
}
