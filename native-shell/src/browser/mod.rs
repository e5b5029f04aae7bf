//! The browser as a process: finding it, starting it on a private profile, and ending it whole.
//!
//! The shell never starts Chromium itself. It starts a copy of its own program as a supervisor
//! ([`supervise`]), which starts the browser and holds the reading end of a pipe from the shell.
//! When the pipe closes, for whatever reason, the supervisor kills every descendant, removes the
//! profile and ends. So the browser cannot outlive a shell that was killed.

mod arguments;
pub mod discovery;
pub mod launch;
mod processes;
pub mod profile;
mod sandbox;
pub mod supervise;

pub use arguments::{ALWAYS, SHARED_MEMORY_WANTED, shared_memory_size};
pub use discovery::{BrowserNotFound, find_browser};
pub use launch::{BrowserProcess, LaunchError, LaunchOptions, launch};
pub use profile::{Profile, sweep};
pub use sandbox::{Sandbox, SandboxOff, SandboxRefused};
pub use supervise::{Ending, EndingCause, SUPERVISE_ARGUMENT};
