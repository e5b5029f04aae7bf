//! `pyproc-control repl`: a conversation with the machine, at a terminal or
//! from a script.

mod checkpoints;
mod command;
mod input;
mod recovered;
mod signals;
mod source;

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::ExitCode;
use std::time::Instant;

use serde_json::{Map, Value, json};

use super::pictures::Pictures;
use super::profile::{Profile, ProfileError};
use super::run::print_text;
use super::session::{Session, SessionError};
use crate::client::{Completed, ControlClient, Ending};
use crate::engine::CacheDir;
use checkpoints::{Checkpoints, size};
use command::Command;
use input::{Event, Input, Piped, Terminal};
use pyproc_protocol::{Code, ControlError, codes};
use signals::{Asked, Signals};

/// Codes after which no later request can succeed.
const FINAL: [Code; 5] = [
    codes::CONTROL_CONNECTION_LOST,
    codes::CONTROL_BRIDGE_CLOSED,
    codes::CONTROL_PAGE_REPLACED,
    codes::CONTROL_HOST_CLOSED,
    codes::PYPROC_BOOT_FAILED,
];

/// The session cannot begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum ReplError {
    /// The profile.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The session.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The terminal, the script or standard output.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Talks until the input ends. A script ends with 1 when any of it failed; a
/// session whose Python exits ends with the code that it gave.
pub(super) async fn repl(config: Option<&Path>, pictures: Pictures) -> Result<ExitCode, ReplError> {
    let profile = Profile::load(config)?;
    let interactive = io::stdin().is_terminal() && io::stdout().is_terminal();
    let mut signals = Signals::listen()?;
    let session = Session::open(&profile).await?;
    let mut repl = Repl {
        client: &session.client,
        signals: &mut signals,
        checkpoints: Checkpoints::default(),
        pictures,
        begun: Instant::now(),
        interactive,
        failed: false,
    };
    let result = repl.converse().await;
    session.close().await;
    result
}

/// Whether the session goes on.
enum Flow {
    Continue,
    End(u8),
}

struct Repl<'a> {
    client: &'a ControlClient,
    signals: &'a mut Signals,
    checkpoints: Checkpoints,
    pictures: Pictures,
    begun: Instant,
    interactive: bool,
    failed: bool,
}

/// How a request ended for the session.
enum Answer {
    Ended(Ending),
    /// Ctrl-C; the text tells what became of the machine, if anything.
    Interrupted(Option<String>),
    /// The process was asked to end, with this exit code.
    Stopped(u8),
}

impl Repl<'_> {
    async fn converse(&mut self) -> Result<ExitCode, ReplError> {
        let mut input = if self.interactive {
            if let Flow::End(code) = self.greet().await? {
                return Ok(ExitCode::from(code));
            }
            Input::Terminal(Terminal::open(history())?)
        } else {
            Input::Piped(Piped::open())
        };
        loop {
            let event = tokio::select! {
                event = input.next() => event?,
                asked = self.signals.next() => match asked {
                    Asked::End(code) => return Ok(ExitCode::from(code)),
                    // Nothing runs.
                    Asked::Interrupt => continue,
                },
            };
            let flow = match event {
                Event::Source(source) => self.source(&source).await?,
                Event::Cleared => {
                    writeln!(io::stdout(), "KeyboardInterrupt")?;
                    Flow::Continue
                }
                Event::End => Flow::End(u8::from(self.failed && !self.interactive)),
            };
            if let Flow::End(code) = flow {
                return Ok(ExitCode::from(code));
            }
        }
    }

    /// Waits for the machine, so that what keeps it from starting is said
    /// before anybody types.
    async fn greet(&mut self) -> Result<Flow, ReplError> {
        let answer = self.request("machine.run", json!({"code": VERSION})).await;
        match answer {
            Answer::Ended(Ok(done)) => {
                let version = done.output.get("stdout").and_then(Value::as_str);
                writeln!(
                    io::stdout(),
                    "Python {} in pyproc {}. %help lists the commands, Ctrl-D ends.",
                    version.unwrap_or_default().trim_end(),
                    env!("CARGO_PKG_VERSION"),
                )?;
                Ok(Flow::Continue)
            }
            other => self.show(other),
        }
    }

    async fn source(&mut self, source: &str) -> Result<Flow, ReplError> {
        let command = match Command::parse(source) {
            None if source.trim().is_empty() => return Ok(Flow::Continue),
            None => return self.python(source).await,
            Some(Err(problem)) => {
                self.fail(&problem);
                return Ok(Flow::Continue);
            }
            Some(Ok(command)) => command,
        };
        match command {
            Command::Save { note } => self.save(note).await,
            Command::Restore { index } => self.restore(index).await,
            Command::Reset { hard } => self.reset(hard).await,
            Command::Time { code } => self.time(code).await,
            Command::Checkpoints => {
                write!(io::stdout(), "{}", self.checkpoints)?;
                Ok(Flow::Continue)
            }
            Command::Help => {
                writeln!(io::stdout(), "{}", command::HELP)?;
                Ok(Flow::Continue)
            }
        }
    }

    async fn python(&mut self, code: &str) -> Result<Flow, ReplError> {
        let answer = self.request("machine.run", json!({"code": code})).await;
        self.show(answer)
    }

    async fn time(&mut self, code: &str) -> Result<Flow, ReplError> {
        let begun = Instant::now();
        let answer = self.request("machine.run", json!({"code": code})).await;
        let taken = begun.elapsed();
        let inside = match &answer {
            Answer::Ended(Ok(done)) => done.output.get("durationMs").and_then(Value::as_f64),
            _ => None,
        };
        let flow = self.show(answer)?;
        let inside = inside.map_or(String::new(), |ms| format!(", in Python {ms} ms"));
        let taken = taken.as_secs_f64() * 1000.0;
        writeln!(io::stdout(), "{taken:.1} ms{inside}")?;
        Ok(flow)
    }

    async fn save(&mut self, note: &str) -> Result<Flow, ReplError> {
        let answer = self.request("machine.checkpoint.save", json!({})).await;
        let Answer::Ended(Ok(done)) = answer else {
            return self.show(answer);
        };
        let at = self.begun.elapsed();
        self.checkpoints.saved(&done.output, at, note);
        let number = |name: &str| done.output.get(name).and_then(Value::as_u64).unwrap_or(0);
        let changed = size(number("changedPages") * number("pageBytes"));
        let index = number("index");
        writeln!(io::stdout(), "saved checkpoint {index}, {changed} changed")?;
        Ok(Flow::Continue)
    }

    async fn restore(&mut self, index: Option<u64>) -> Result<Flow, ReplError> {
        let input = index.map_or(json!({}), |index| json!({"index": index}));
        let answer = self.request("machine.checkpoint.restore", input).await;
        let Answer::Ended(Ok(done)) = answer else {
            return self.show(answer);
        };
        let index = done.output.get("index").and_then(Value::as_u64);
        let index = index.unwrap_or_default();
        self.checkpoints.restored(index);
        writeln!(io::stdout(), "back at checkpoint {index}")?;
        Ok(Flow::Continue)
    }

    async fn reset(&mut self, hard: bool) -> Result<Flow, ReplError> {
        let answer = self.request("machine.reset", json!({"hard": hard})).await;
        let Answer::Ended(Ok(_)) = answer else {
            return self.show(answer);
        };
        self.checkpoints.reset();
        writeln!(io::stdout(), "everything is forgotten")?;
        Ok(Flow::Continue)
    }

    /// Shows what came of a request, as Python would.
    fn show(&mut self, answer: Answer) -> Result<Flow, ReplError> {
        let ending = match answer {
            Answer::Stopped(code) => return Ok(Flow::End(code)),
            Answer::Interrupted(became) => {
                self.fail("KeyboardInterrupt");
                if let Some(became) = became {
                    self.fail(&became);
                }
                return Ok(Flow::Continue);
            }
            Answer::Ended(ending) => ending,
        };
        print_text(&ending)?;
        Ok(match &ending {
            Ok(done) => {
                self.pictures.show(&done.attachments);
                if let Some(recovery) = recovery(done) {
                    self.fail(&recovery);
                }
                Flow::Continue
            }
            Err(error) if *error.code() == codes::MACHINE_EXIT => Flow::End(exit_code(error)),
            Err(error) if FINAL.contains(error.code()) => Flow::End(1),
            Err(error) => {
                self.failed = true;
                if let Some(restored) = error.details().and_then(|details| details.get("restored"))
                {
                    self.fail(&recovered::describe(restored));
                }
                Flow::Continue
            }
        })
    }

    fn fail(&mut self, text: &str) {
        self.failed = true;
        // Nobody is left to tell when standard error is closed.
        let _ = writeln!(io::stderr(), "{text}");
    }

    /// Performs an operation; Ctrl-C cancels it.
    async fn request(&mut self, operation: &str, input: Value) -> Answer {
        let input = match input {
            Value::Object(input) => input,
            _ => Map::new(),
        };
        let pending = match self.client.start(operation, input) {
            Ok(pending) => pending,
            Err(error) => return Answer::Ended(Err(error)),
        };
        let id = pending.id.clone();
        let mut ending = pin!(pending.ending());
        let mut interrupted = false;
        let ending = loop {
            tokio::select! {
                ending = &mut ending => break ending,
                asked = self.signals.next() => match asked {
                    Asked::End(code) => return Answer::Stopped(code),
                    Asked::Interrupt => {
                        interrupted = true;
                        let reason = Some("interrupted at the keyboard");
                        if let Err(error) = self.client.cancel(&id, reason) {
                            return Answer::Ended(Err(error));
                        }
                    }
                },
            }
        };
        match ending {
            Err(error) if interrupted && *error.code() == codes::CONTROL_CANCELLED => {
                self.settled().await
            }
            ending => Answer::Ended(ending),
        }
    }

    /// Waits until the machine can work again after a cancel, and learns
    /// whether it had to be replaced.
    async fn settled(&mut self) -> Answer {
        let input = Map::from_iter([("code".to_owned(), Value::from(""))]);
        let pending = match self.client.start("machine.run", input) {
            Ok(pending) => pending,
            Err(error) => return Answer::Ended(Err(error)),
        };
        let mut ending = pin!(pending.ending());
        loop {
            tokio::select! {
                ending = &mut ending => return match ending {
                    Ok(done) => Answer::Interrupted(recovery(&done)),
                    Err(error) => Answer::Ended(Err(error)),
                },
                asked = self.signals.next() => match asked {
                    Asked::End(code) => return Answer::Stopped(code),
                    // Already on its way.
                    Asked::Interrupt => {}
                },
            }
        }
    }
}

/// Prints its version and leaves no name behind.
const VERSION: &str = "print(__import__('platform').python_version())";

/// The history, when there is a cache directory. It exists from the first line
/// on, readable by the owner only.
fn history() -> Option<PathBuf> {
    CacheDir::from_env().ok().map(|cache| cache.history())
}

/// What an earlier, cancelled run did to the machine.
fn recovery(done: &Completed) -> Option<String> {
    let restored = done.output.get("recovered")?.get("restored")?;
    Some(recovered::describe(restored))
}

fn exit_code(error: &ControlError) -> u8 {
    let code = error.details().and_then(|details| details.get("exitCode"));
    let code = code.and_then(Value::as_i64).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}
