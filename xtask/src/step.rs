//! Steps with headings and times, and the commands inside them.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Why a task stopped: one line that names the command or the missing thing.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

pub(crate) type Result<T = ()> = std::result::Result<T, Failure>;

/// The steps of one task, told on standard error.
pub(crate) struct Steps {
    begun: Instant,
    count: usize,
}

impl Steps {
    pub(crate) fn start() -> Self {
        Self {
            begun: Instant::now(),
            count: 0,
        }
    }

    /// Runs one step under its heading.
    pub(crate) fn step<T>(&mut self, title: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.count += 1;
        eprintln!("\n==> {}. {title}", self.count);
        let begun = Instant::now();
        let result = work();
        let outcome = if result.is_ok() { "done" } else { "FAILED" };
        eprintln!("    {title}: {outcome} after {}", seconds(begun.elapsed()));
        result
    }

    pub(crate) fn finish(&self) {
        eprintln!("\n{} steps, {}", self.count, seconds(self.begun.elapsed()));
    }
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

/// Runs a command whose output is for the reader: all of it goes to standard error.
pub(crate) fn execute(command: &mut Command) -> Result {
    let stderr = io::stderr().as_fd().try_clone_to_owned();
    let stderr = stderr.map_err(|error| Failure::new(format!("standard error: {error}")))?;
    command.stdin(Stdio::null()).stdout(Stdio::from(stderr));
    execute_as_is(command)
}

/// Runs a command with the standard streams it was given.
pub(crate) fn execute_as_is(command: &mut Command) -> Result {
    let line = command_line(command);
    eprintln!("    $ {line}");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failure::new(format!("`{line}` ended with {status}"))),
        Err(error) => Err(Failure::new(format!("`{line}` cannot be started: {error}"))),
    }
}

/// Standard output of a command that succeeded; its standard error is for the reader.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let line = command_line(command);
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| Failure::new(format!("`{line}` cannot be started: {error}")))?;
    if !output.status.success() {
        return Err(Failure::new(format!(
            "`{line}` ended with {}",
            output.status
        )));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The command as one would type it.
fn command_line(command: &Command) -> String {
    let words = [command.get_program()]
        .into_iter()
        .chain(command.get_args());
    words.map(quoted).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:@,+%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_command_is_named_as_typed() {
        let mut command = Command::new("sh");
        let failure = execute(command.args(["-c", "exit 3"]))
            .unwrap_err()
            .to_string();
        assert_eq!(failure, "`sh -c 'exit 3'` ended with exit status: 3");
    }

    #[test]
    fn an_absent_command_is_named() {
        let failure = execute(&mut Command::new("/no/such/program"))
            .unwrap_err()
            .to_string();
        assert!(
            failure.starts_with("`/no/such/program` cannot be started"),
            "{failure}"
        );
    }

    #[test]
    fn output_is_returned_only_on_success() {
        assert_eq!(output(Command::new("echo").arg("42")).unwrap(), "42\n");
        assert!(output(&mut Command::new("false")).is_err());
    }
}
