//! `pyproc-control`: serves one agent over the control protocol.

use std::process::ExitCode;

fn main() -> ExitCode {
    pyproc_native_shell::cli::control()
}
