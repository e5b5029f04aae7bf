//! The supervisor: a small process between the shell and the browser.
//!
//! It is this program again, started with [`SUPERVISE_ARGUMENT`]. The shell writes one line, the
//! [`Order`], to its standard input and keeps the pipe open; the supervisor answers with
//! [`Report`] lines. It adopts what the browser's processes leave behind, so that each of them can
//! be found and killed, also those that started sessions of their own.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, WaitStatus};
use serde::{Deserialize, Serialize};

use super::{processes, profile};

/// First argument of the program when it is to be a supervisor.
pub const SUPERVISE_ARGUMENT: &str = "__supervise";

/// Second argument of the step that becomes the browser.
const BECOME_ARGUMENT: &str = "become";

/// Largest order, in bytes.
const ORDER_LIMIT: u64 = 256 * 1024;

/// Time that killed processes have to be gone.
const KILL_LIMIT: Duration = Duration::from_secs(4);

/// Pause between two rounds of killing.
const KILL_ROUND: Duration = Duration::from_millis(10);

/// Lines and bytes a line of the browser's standard error that are kept for a diagnosis.
const STDERR_LINES: usize = 8;
const STDERR_LINE: u64 = 400;

/// What the shell asks for.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    /// The browser.
    pub(super) program: PathBuf,
    /// Its arguments.
    pub(super) arguments: Vec<String>,
    /// Value of its `TZ` variable.
    pub(super) timezone: String,
    /// Directory for its temporary files.
    pub(super) temporary: PathBuf,
    /// Directory to remove when every process is gone.
    pub(super) directory: PathBuf,
    /// Text whose lines of standard error are not repeated, because it is a secret.
    pub(super) secret: Option<String>,
}

/// What the supervisor tells.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Report {
    /// The browser's process exists.
    Started {
        /// Its process number.
        pid: i32,
    },
    /// The browser and all its descendants are gone and the directory is removed.
    Ended(Ending),
}

/// How a browser ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// What ended it.
    pub cause: EndingCause,
    /// Last lines of its standard error.
    pub stderr: Vec<String>,
}

/// What ended a browser.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EndingCause {
    /// It ended by itself with this exit code.
    Exited(i32),
    /// A signal of this number killed it.
    Killed(i32),
    /// It could not be started, for the reason given.
    NotStarted(String),
    /// Its supervisor vanished; its processes were killed by the shell.
    SupervisorLost,
}

impl fmt::Display for Ending {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            EndingCause::Exited(code) => write!(out, "the browser ended with exit code {code}")?,
            EndingCause::Killed(signal) => {
                write!(out, "the browser was killed by signal {signal}")?;
            }
            EndingCause::NotStarted(reason) => {
                write!(out, "the browser could not be started: {reason}")?;
            }
            EndingCause::SupervisorLost => out.write_str("the browser's supervisor vanished")?,
        }
        match self.stderr.last() {
            Some(line) => write!(out, " (its last words: {line})"),
            None => Ok(()),
        }
    }
}

/// The whole life of a supervisor. `arguments` are those after [`SUPERVISE_ARGUMENT`].
///
/// Must be called on the main thread of the process, before any other thread exists.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut arguments = arguments.into_iter();
    match arguments.next() {
        None => supervise(),
        Some(step) if step == BECOME_ARGUMENT => become_browser(arguments),
        Some(_) => ExitCode::FAILURE,
    }
}

/// Replaces this process by the browser, such that it dies with the supervisor.
fn become_browser(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let (Some(parent), Some(program)) = (arguments.next(), arguments.next()) else {
        return ExitCode::FAILURE;
    };
    #[cfg(target_os = "linux")]
    if let Err(error) =
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
    {
        eprintln!("cannot bind the browser to its supervisor: {error}");
        return ExitCode::FAILURE;
    }
    // A supervisor that died before the line above sends no signal any more.
    let current = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().to_string());
    if current.is_none_or(|current| parent != *current) {
        return ExitCode::FAILURE;
    }
    let error = Command::new(&program).args(arguments).exec();
    eprintln!("{}: {error}", Path::new(&program).display());
    ExitCode::FAILURE
}

enum Event {
    OwnerGone,
    BrowserGone(EndingCause),
    NoChildLeft,
}

fn supervise() -> ExitCode {
    let mut input = BufReader::new(io::stdin());
    let Some(order) = read_order(&mut input) else {
        return ExitCode::FAILURE;
    };
    // Signals of the shell's terminal are for the shell alone. An error means that this process
    // leads a session already, which is as good.
    let _ = rustix::process::setsid();
    let ending = match become_parent(&order) {
        Ok((pid, stderr)) => {
            report(&Report::Started {
                pid: pid.as_raw_nonzero().get(),
            });
            let (sender, events) = mpsc::channel();
            watch_owner(input, sender.clone());
            reap(pid, sender);
            let cause = end_all(&events);
            Ending {
                cause,
                stderr: stderr.lines(),
            }
        }
        Err(error) => Ending {
            cause: EndingCause::NotStarted(error.to_string()),
            stderr: Vec::new(),
        },
    };
    let removed = profile::remove(&order.directory);
    report(&Report::Ended(ending));
    if removed.is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn read_order(input: &mut impl BufRead) -> Option<Order> {
    let mut line = String::new();
    input.take(ORDER_LIMIT).read_line(&mut line).ok()?;
    serde_json::from_str(&line).ok()
}

fn report(report: &Report) {
    // The shell may be gone: then nobody listens, and the work goes on.
    if let Ok(mut line) = serde_json::to_vec(report) {
        line.push(b'\n');
        let _ = io::stdout()
            .write_all(&line)
            .and_then(|()| io::stdout().flush());
    }
}

/// Starts the browser as a child, with every orphan among its descendants becoming one too.
fn become_parent(order: &Order) -> io::Result<(Pid, StderrTail)> {
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    // The death of the starting thread counts as the parent's: this is the main thread.
    let mut child = Command::new(own_program()?)
        .arg(SUPERVISE_ARGUMENT)
        .arg(BECOME_ARGUMENT)
        .arg(rustix::process::getpid().as_raw_nonzero().to_string())
        .arg(&order.program)
        .args(&order.arguments)
        .env("TZ", &order.timezone)
        .env("TMPDIR", &order.temporary)
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::other("the process number is out of range"))?;
    let pipe = child
        .stderr
        .take()
        .ok_or_else(|| io::Error::other("the pipe is missing"))?;
    Ok((pid, StderrTail::follow(pipe, order.secret.clone())))
}

/// The program of this process, also when its file was replaced meanwhile.
pub(super) fn own_program() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") {
        Ok(PathBuf::from("/proc/self/exe"))
    } else {
        std::env::current_exe()
    }
}

/// Reads to the end of the pipe that the shell holds.
fn watch_owner(mut input: impl Read + Send + 'static, events: Sender<Event>) {
    thread::spawn(move || {
        // An error of the pipe is its end as well.
        let _ = io::copy(&mut input, &mut io::sink());
        let _ = events.send(Event::OwnerGone);
    });
}

/// Collects every child that ends: the browser and the orphans this process adopted.
fn reap(browser: Pid, events: Sender<Event>) {
    thread::spawn(move || {
        loop {
            match rustix::process::wait(WaitOptions::empty()) {
                Ok(Some((pid, status))) if pid == browser => {
                    let _ = events.send(Event::BrowserGone(cause(status)));
                }
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => break,
            }
        }
        let _ = events.send(Event::NoChildLeft);
    });
}

fn cause(status: WaitStatus) -> EndingCause {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => EndingCause::Exited(code),
        (None, Some(signal)) => EndingCause::Killed(signal),
        // Only ends are waited for, and an end is one of the two.
        (None, None) => EndingCause::SupervisorLost,
    }
}

/// Waits until the owner or the browser is gone, then kills until no process is left.
fn end_all(events: &Receiver<Event>) -> EndingCause {
    // Reported if the browser cannot be collected in time.
    let mut cause = EndingCause::SupervisorLost;
    if let Ok(Event::BrowserGone(ended)) = events.recv() {
        cause = ended;
    }
    let deadline = Instant::now() + KILL_LIMIT;
    while Instant::now() < deadline {
        processes::kill_descendants();
        match events.recv_timeout(KILL_ROUND) {
            Ok(Event::BrowserGone(ended)) => cause = ended,
            Ok(Event::NoChildLeft) | Err(RecvTimeoutError::Disconnected) => break,
            Ok(Event::OwnerGone) | Err(RecvTimeoutError::Timeout) => {}
        }
    }
    cause
}

/// The last lines that the browser wrote to its standard error.
type Tail = Arc<Mutex<VecDeque<String>>>;

struct StderrTail {
    lines: Tail,
    finished: Receiver<()>,
}

impl StderrTail {
    /// Reads on a thread of its own, so that the browser never waits on a full pipe.
    fn follow(pipe: impl Read + Send + 'static, secret: Option<String>) -> Self {
        let lines = Tail::default();
        let (sender, finished) = mpsc::channel();
        let shared = Arc::clone(&lines);
        thread::spawn(move || {
            keep_tail(BufReader::new(pipe), secret.as_deref(), &shared);
            let _ = sender.send(());
        });
        Self { lines, finished }
    }

    /// What there is. The processes are gone, so the end of the pipe is near; a process that could
    /// not be killed must not hold up the report.
    fn lines(&self) -> Vec<String> {
        let _ = self.finished.recv_timeout(Duration::from_millis(200));
        self.lines
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .cloned()
            .collect()
    }
}

fn keep_tail(mut pipe: impl BufRead, secret: Option<&str>, tail: &Tail) {
    let mut line = Vec::new();
    loop {
        line.clear();
        // A longer line counts as several.
        let mut limited = (&mut pipe).take(STDERR_LINE);
        if !matches!(limited.read_until(b'\n', &mut line), Ok(1..)) {
            return;
        }
        let text = String::from_utf8_lossy(&line).trim().to_owned();
        if text.is_empty() || secret.is_some_and(|secret| text.contains(secret)) {
            continue;
        }
        let mut lines = tail.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == STDERR_LINES {
            lines.pop_front();
        }
        lines.push_back(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_keeps_the_last_lines_without_the_secret() {
        let mut text: String = (0..20).map(|number| format!("line {number}\n")).collect();
        text.push_str("opening http://127.0.0.1/?controlBootstrap=hidden\n\n");
        text.push_str(&"x".repeat(401));
        let secret = Some("controlBootstrap=hidden".to_owned());
        let lines = StderrTail::follow(io::Cursor::new(text), secret).lines();
        assert_eq!(lines.len(), STDERR_LINES);
        assert_eq!(lines[0], "line 14");
        assert_eq!(lines[STDERR_LINES - 3], "line 19");
        assert_eq!(lines[STDERR_LINES - 2], "x".repeat(400));
        assert_eq!(lines[STDERR_LINES - 1], "x");
    }

    #[test]
    fn an_order_without_its_end_is_none() {
        assert!(read_order(&mut &b""[..]).is_none());
        assert!(read_order(&mut &b"{\"program\":"[..]).is_none());
        assert_eq!(main(["unknown".into()]), ExitCode::FAILURE);
    }

    #[test]
    fn an_ending_tells_what_happened_and_the_last_words() {
        let ending = Ending {
            cause: EndingCause::Exited(3),
            stderr: vec!["boom".to_owned()],
        };
        assert_eq!(
            ending.to_string(),
            "the browser ended with exit code 3 (its last words: boom)"
        );
    }
}
