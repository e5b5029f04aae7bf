//! `pyproc-control run`: Python once, from a text, a file or standard input.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Map, Value, json};

use super::args::Run;
use super::pictures::Pictures;
use super::profile::{Profile, ProfileError};
use super::session::{Session, SessionError};
use super::stop_signal;
use crate::client::Ending;

/// Longest source, bytes: more than a run may have is refused by the host with
/// the exact limit.
const SOURCE_LIMIT: u64 = 1 << 20;

/// `run` cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Neither source nor file.
    #[error("nothing to run: give --code SOURCE, a FILE, or - for standard input")]
    Nothing,
    /// The file cannot be read.
    #[error("cannot read {}: {reason}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: io::Error,
    },
    /// The profile.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The session.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The system.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Runs and prints; the exit code is 0 for a run that succeeded.
pub(super) async fn run(arguments: Run, config: Option<&Path>) -> Result<ExitCode, RunError> {
    let code = source(&arguments)?;
    let pictures = Pictures::into_dir(arguments.pictures.dir)?;
    let profile = Profile::load(config)?;
    let stop = stop_signal()?;
    let session = Session::open(&profile).await?;
    let input = Map::from_iter([("code".to_owned(), Value::from(code))]);
    let ending = tokio::select! {
        ending = session.client.request("machine.run", input) => Some(ending),
        _ = stop => None,
    };
    session.close().await;
    match ending {
        Some(ending) if arguments.json => print_json(&ending, &pictures),
        Some(ending) => {
            let code = print_text(&ending)?;
            if let Ok(done) = &ending {
                pictures.show(&done.attachments);
            }
            Ok(code)
        }
        // The shell's convention for a program that was interrupted.
        None => Ok(ExitCode::from(130)),
    }
}

fn source(arguments: &Run) -> Result<String, RunError> {
    if let Some(code) = &arguments.code {
        return Ok(code.clone());
    }
    let path = arguments.file.as_deref().ok_or(RunError::Nothing)?;
    let read = || -> io::Result<String> {
        if path == Path::new("-") {
            return bounded(io::stdin());
        }
        bounded(std::fs::File::open(path)?)
    };
    read().map_err(|reason| RunError::Read {
        path: path.to_owned(),
        reason,
    })
}

fn bounded(reader: impl io::Read) -> io::Result<String> {
    let mut text = String::new();
    io::Read::read_to_string(&mut reader.take(SOURCE_LIMIT), &mut text)?;
    Ok(text)
}

fn print_json(ending: &Ending, pictures: &Pictures) -> Result<ExitCode, RunError> {
    let (value, code) = match ending {
        Ok(done) => {
            let mut value = json!({"outcome": done.outcome, "output": done.output});
            if !done.attachments.is_empty() {
                value["attachments"] = pictures.describe(&done.attachments).into();
            }
            (value, 0)
        }
        Err(error) => (json!({ "error": error }), 1),
    };
    writeln!(io::stdout(), "{value}")?;
    Ok(ExitCode::from(code))
}

/// Prints what a run left as Python would: output and value on standard
/// output, a traceback on standard error. The result is the exit code.
pub(super) fn print_text(ending: &Ending) -> io::Result<ExitCode> {
    let mut out = io::stdout().lock();
    match ending {
        Ok(done) => {
            out.write_all(text(done.output.get("stdout")).as_bytes())?;
            if let Some(value) = done.output.get("value").and_then(Value::as_str) {
                writeln!(out, "{value}")?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            let detail = |name: &str| error.details().and_then(|details| details.get(name));
            out.write_all(text(detail("stdout")).as_bytes())?;
            out.flush()?;
            let code = detail("exitCode").and_then(Value::as_i64);
            let mut err = io::stderr().lock();
            match (code, detail("traceback").and_then(Value::as_str)) {
                (Some(code), _) => {
                    // `sys.exit` shows its argument unless it is a code.
                    let argument = text(detail("message"));
                    if argument != "None" && argument != code.to_string() {
                        writeln!(err, "{argument}")?;
                    }
                }
                (None, Some(traceback)) => writeln!(err, "{}", traceback.trim_end())?,
                (None, None) => writeln!(err, "{error} ({})", error.outcome())?,
            }
            let code = code.map_or(1, |code| u8::try_from(code).unwrap_or(1));
            Ok(ExitCode::from(code))
        }
    }
}

fn text(value: Option<&Value>) -> &str {
    value.and_then(Value::as_str).unwrap_or_default()
}
