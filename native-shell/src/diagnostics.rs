//! Lines for people on standard error. Standard output belongs to the protocol.

use std::io::Write;
use std::sync::OnceLock;

static COMMAND: OnceLock<&'static str> = OnceLock::new();

/// Names the command that every line starts with.
pub fn set_command(name: &'static str) {
    // Only the first name counts: a process is one command.
    let _ = COMMAND.set(name);
}

/// The command's name.
pub fn command() -> &'static str {
    COMMAND.get().copied().unwrap_or("pyproc-control")
}

/// Writes one line, prefixed with the command's name. Line breaks inside
/// become spaces, so that one event is one line.
pub fn line(text: &str) {
    let text = text.replace(['\n', '\r'], " ");
    // Nobody is left to tell when standard error is closed.
    let _ = writeln!(std::io::stderr().lock(), "{}: {text}", command());
}
