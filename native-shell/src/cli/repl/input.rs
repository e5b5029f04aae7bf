//! Where the session's lines come from: an editor on a terminal, or a script
//! on standard input.

use std::collections::VecDeque;
use std::fs::DirBuilder;
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc as blocking;
use std::thread;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Config, Editor, Helper};
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};
use tokio::sync::mpsc;

use super::source::{Script, is_whole};

const PROMPT: &str = ">>> ";

/// Entries that the history keeps.
const HISTORY: usize = 2000;

/// What came.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A whole piece of Python, or a command.
    Source(String),
    /// Ctrl-C at the prompt.
    Cleared,
    /// Ctrl-D, or the end of the script.
    End,
}

/// A line editor on a thread of its own: it blocks while the machine works on.
pub(super) struct Terminal {
    ask: blocking::Sender<()>,
    answers: mpsc::Receiver<Result<Event, ReadlineError>>,
    before: Option<Termios>,
}

impl Terminal {
    /// Takes the terminal. `history` is read and written, for the owner only.
    ///
    /// # Errors
    ///
    /// The terminal cannot be used.
    pub(super) fn open(history: Option<PathBuf>) -> io::Result<Self> {
        let before = tcgetattr(io::stdin()).ok();
        let config = Config::builder()
            .max_history_size(HISTORY)
            .map_err(io::Error::other)?
            .history_ignore_space(true)
            .indent_size(4)
            .build();
        let mut editor = Editor::with_config(config).map_err(io::Error::other)?;
        editor.set_helper(Some(Python));
        let (ask, asked) = blocking::channel();
        let (answer, answers) = mpsc::channel(1);
        thread::Builder::new()
            .name("line editor".to_owned())
            .spawn(move || edit(editor, history.as_deref(), &asked, &answer))?;
        Ok(Self {
            ask,
            answers,
            before,
        })
    }

    async fn next(&mut self) -> io::Result<Event> {
        // An editor that has ended also ends the answers.
        let _ = self.ask.send(());
        match self.answers.recv().await {
            Some(Ok(event)) => Ok(event),
            Some(Err(ReadlineError::Io(error))) => Err(error),
            Some(Err(error)) => Err(io::Error::other(error)),
            None => Ok(Event::End),
        }
    }
}

impl Drop for Terminal {
    /// The editor may still hold the terminal when the process is told to end.
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // A terminal that is gone needs no settings.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
            // Ends the bracketed paste.
            let _ = write!(io::stdout(), "\x1b[?2004l");
            let _ = io::stdout().flush();
        }
    }
}

/// Serves the editor until nobody asks any more.
fn edit(
    mut editor: Editor<Python, FileHistory>,
    history: Option<&Path>,
    asked: &blocking::Receiver<()>,
    answer: &mpsc::Sender<Result<Event, ReadlineError>>,
) {
    if let Some(history) = history {
        // The first session has none.
        let _ = editor.load_history(history);
    }
    while asked.recv().is_ok() {
        let event = match editor.readline(PROMPT) {
            Ok(source) => {
                if !source.trim().is_empty() {
                    remember(&mut editor, history, &source);
                }
                Ok(Event::Source(source))
            }
            Err(ReadlineError::Interrupted) => Ok(Event::Cleared),
            Err(ReadlineError::Eof) => Ok(Event::End),
            Err(error) => Err(error),
        };
        if answer.blocking_send(event).is_err() {
            return;
        }
    }
}

/// Keeps every line at once: a session may end in any way.
fn remember(editor: &mut Editor<Python, FileHistory>, history: Option<&Path>, source: &str) {
    // A history that cannot be kept does not disturb the work.
    let _ = editor.add_history_entry(source);
    if let Some(history) = history {
        if let Some(dir) = history.parent() {
            let _ = DirBuilder::new().recursive(true).mode(0o700).create(dir);
        }
        let _ = editor.append_history(history);
    }
}

/// Python as the editor knows it: Enter adds a line while the source is not
/// whole.
struct Python;

impl Completer for Python {
    type Candidate = String;
}

impl Hinter for Python {
    type Hint = String;
}

impl Highlighter for Python {}

impl Helper for Python {}

impl Validator for Python {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(if is_whole(context.input()) {
            ValidationResult::Valid(None)
        } else {
            ValidationResult::Incomplete
        })
    }
}

/// A script on standard input.
pub(super) struct Piped {
    lines: Lines<BufReader<Stdin>>,
    script: Option<Script>,
    ready: VecDeque<String>,
}

impl Piped {
    pub(super) fn open() -> Self {
        Self {
            lines: BufReader::new(tokio::io::stdin()).lines(),
            script: Some(Script::default()),
            ready: VecDeque::new(),
        }
    }

    async fn next(&mut self) -> io::Result<Event> {
        loop {
            if let Some(source) = self.ready.pop_front() {
                return Ok(Event::Source(source));
            }
            let Some(script) = &mut self.script else {
                return Ok(Event::End);
            };
            match self.lines.next_line().await? {
                Some(line) => self.ready.extend(script.line(&line)),
                None => {
                    let rest = self.script.take().map(Script::finish);
                    self.ready.extend(rest.filter(|rest| !rest.is_empty()));
                }
            }
        }
    }
}

/// Either of them.
pub(super) enum Input {
    Terminal(Terminal),
    Piped(Piped),
}

impl Input {
    /// The next event.
    ///
    /// # Errors
    ///
    /// The terminal or the script cannot be read, or is not UTF-8.
    pub(super) async fn next(&mut self) -> io::Result<Event> {
        match self {
            Self::Terminal(terminal) => terminal.next().await,
            Self::Piped(piped) => piped.next().await,
        }
    }
}
