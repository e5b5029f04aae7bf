//! Measures the product; `cargo xtask bench` starts it. It is also the
//! supervisor of the browsers that it starts in its own process.

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

use pyproc_native_shell::browser::{SUPERVISE_ARGUMENT, supervise};
use pyproc_tests::bench::{self, Effort};

const USAGE: &str = "usage: bench machine [--quick] FOLDER";

fn main() -> ExitCode {
    let mut supervisor = env::args_os().skip(1);
    if supervisor
        .next()
        .is_some_and(|first| first == SUPERVISE_ARGUMENT)
    {
        return supervise::main(supervisor);
    }
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (effort, folder) = match arguments[..] {
        ["machine", folder] => (Effort::FULL, folder),
        ["machine", "--quick", folder] => (Effort::QUICK, folder),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match measure(effort, PathBuf::from(folder)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the report cannot be made: {error}");
            ExitCode::FAILURE
        }
    }
}

/// One thread, as the product has.
fn measure(effort: Effort, folder: PathBuf) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let report = runtime.block_on(bench::machine(effort));
    report.write(&folder)?;
    println!("{}", report.markdown());
    Ok(())
}
