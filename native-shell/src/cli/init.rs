//! `pyproc-control init`: a starting manifest on standard output, what its keys
//! mean on standard error.

use std::io::{self, Write};
use std::process::ExitCode;

use pyproc_policy::templates;

use super::args::{Init, Recipe};
use super::profile::ProfileError;
use crate::engine::CacheDir;

/// Writes the recipe's manifest.
pub(super) fn init(arguments: &Init) -> Result<ExitCode, ProfileError> {
    let root = CacheDir::from_env()?.engine_dir();
    let root = root.to_string_lossy();
    let template = match arguments.recipe {
        Recipe::Python => templates::python(&root),
        Recipe::Browser => templates::browser(&root),
        Recipe::Frame => templates::frame(&root),
    };
    let wrote = writeln!(io::stdout(), "{}", template.manifest.trim_end());
    for line in template.explanation {
        // A reader of the explanations who is gone does not need them.
        let _ = writeln!(io::stderr(), "{line}");
    }
    Ok(ExitCode::from(u8::from(wrote.is_err())))
}
