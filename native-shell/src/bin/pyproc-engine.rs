//! `pyproc-engine`: prepares and checks engine directories.

use std::process::ExitCode;

fn main() -> ExitCode {
    pyproc_native_shell::cli::engine()
}
