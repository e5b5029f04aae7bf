//! Starts a browser under a supervisor and ends it.

use std::env;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;
use tokio::time::timeout;

use super::sandbox::{Sandbox, SandboxRefused};
use super::supervise::{self, Ending, EndingCause, Order, Report, SUPERVISE_ARGUMENT};
use super::{Profile, arguments, processes, sweep};

/// Variables with this prefix are the product's own and never reach a child
/// (control protocol 2.5).
const PRIVATE_VARIABLES: &[u8] = b"PYPROC_";

/// Time that the supervisor has to start the browser.
const START_LIMIT: Duration = Duration::from_secs(10);

/// Time that the supervisor has to end everything, longer than its own limit.
const END_LIMIT: Duration = Duration::from_secs(5);

/// Pause between two looks while a dropped browser ends.
const DROP_POLL: Duration = Duration::from_millis(5);

/// What to start.
#[derive(Clone, Debug)]
pub struct LaunchOptions {
    /// The browser.
    pub executable: PathBuf,
    /// The address it opens. Its query is treated as a secret.
    pub url: String,
    /// Whether it shows a window.
    pub headed: bool,
    /// Whether it renders with the software GPU instead of none; only without a window.
    pub gpu: bool,
    /// Whether to refuse when the browser's sandbox would be off.
    pub sandbox_required: bool,
    /// Its time zone, an IANA name; UTC when absent.
    pub timezone: Option<String>,
}

impl LaunchOptions {
    /// A browser without a window and with every option at its default.
    #[must_use]
    pub fn new(executable: impl Into<PathBuf>, url: impl Into<String>) -> Self {
        Self {
            executable: executable.into(),
            url: url.into(),
            headed: false,
            gpu: false,
            sandbox_required: false,
            timezone: None,
        }
    }
}

/// Why there is no browser.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The sandbox is required and cannot be on.
    #[error(transparent)]
    Sandbox(#[from] SandboxRefused),
    /// The private profile directory cannot be made.
    #[error("cannot make a profile directory in the temporary directory: {0}")]
    Profile(#[source] io::Error),
    /// The temporary directory has a name that cannot be passed on.
    #[error("the name of the temporary directory {} is not UTF-8", .0.display())]
    ProfileName(PathBuf),
    /// The supervisor cannot be started or told what to do.
    #[error("cannot start the browser's supervisor: {0}")]
    Supervisor(#[source] io::Error),
    /// The supervisor did not answer in time.
    #[error("the browser's supervisor did not answer within {} s", START_LIMIT.as_secs())]
    SupervisorSilent,
    /// The browser ended before it had begun.
    #[error("{0}")]
    Ended(Ending),
}

/// A running browser on a profile of its own.
///
/// [`kill`](Self::kill) ends it; so does dropping it, which blocks until it is gone.
#[derive(Debug)]
pub struct BrowserProcess {
    pid: u32,
    sandbox: Sandbox,
    supervisor: Option<Pid>,
    /// The pipe whose closing ends the browser.
    order: Option<ChildStdin>,
    ended: watch::Receiver<Option<Ending>>,
    profile: Profile,
}

/// Starts a browser that hosts the machine page. It has no DevTools endpoint, none of this
/// process's standard streams and no `PYPROC_` variable. What killed shells left is swept first.
///
/// # Errors
/// See [`LaunchError`]; then no process and no profile is left.
pub async fn launch(options: &LaunchOptions) -> Result<BrowserProcess, LaunchError> {
    let sandbox = Sandbox::of_this_process(options.sandbox_required)?;
    // Leftovers that cannot be removed now do not keep this browser from starting.
    let _ = tokio::task::spawn_blocking(sweep).await;
    let profile = Profile::create().map_err(LaunchError::Profile)?;
    let order = order(options, sandbox, &profile)?;

    let mut child = supervisor().map_err(LaunchError::Supervisor)?;
    let supervisor = child
        .id()
        .and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
    let pipes = child.stdin.take().zip(child.stdout.take());
    let (mut input, output) =
        pipes.ok_or_else(|| LaunchError::Supervisor(io::Error::other("a pipe is missing")))?;
    let (sender, ended) = watch::channel(None);
    // Once this value exists, every way out of this function ends the supervisor.
    let mut browser = BrowserProcess {
        pid: 0,
        sandbox,
        supervisor,
        order: None,
        ended,
        profile,
    };
    let directory = browser.profile.dir().to_owned();
    let mut reports = BufReader::new(output).lines();

    let started = timeout(START_LIMIT, async {
        input.write_all(order.as_bytes()).await?;
        input.flush().await?;
        next_report(&mut reports).await
    })
    .await;
    browser.order = Some(input);
    let failure = match started {
        Ok(Ok(Some(Report::Started { pid }))) => {
            browser.pid = pid.unsigned_abs();
            tokio::spawn(watch(child, reports, directory, sender));
            return Ok(browser);
        }
        Ok(Ok(Some(Report::Ended(ending)))) => LaunchError::Ended(ending),
        Ok(Ok(None)) => LaunchError::Supervisor(io::ErrorKind::UnexpectedEof.into()),
        Ok(Err(error)) => LaunchError::Supervisor(error),
        Err(_) => LaunchError::SupervisorSilent,
    };
    tokio::spawn(watch(child, reports, directory, sender));
    browser.kill().await;
    Err(failure)
}

fn order(
    options: &LaunchOptions,
    sandbox: Sandbox,
    profile: &Profile,
) -> Result<String, LaunchError> {
    let unnameable = || LaunchError::ProfileName(profile.dir().to_owned());
    let user_data = profile.user_data();
    let user_data = user_data.to_str().ok_or_else(unnameable)?;
    let shared_memory = arguments::shared_memory_size();
    let order = Order {
        program: options.executable.clone(),
        arguments: arguments::machine_only(options, user_data, sandbox, shared_memory),
        timezone: options.timezone.clone().unwrap_or_else(|| "UTC".to_owned()),
        temporary: profile.temporary(),
        directory: profile.dir().to_owned(),
        secret: options
            .url
            .split_once('?')
            .map(|(_, query)| query.to_owned()),
    };
    let line = serde_json::to_string(&order).map_err(|error| {
        // Only a path that is not UTF-8 cannot be written.
        LaunchError::Supervisor(error.into())
    })?;
    Ok(line + "\n")
}

fn supervisor() -> io::Result<Child> {
    let mut command = Command::new(supervise::own_program()?);
    command
        .arg(SUPERVISE_ARGUMENT)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    for name in private_variables(env::vars_os().map(|(name, _)| name)) {
        command.env_remove(name);
    }
    command.spawn()
}

fn private_variables(names: impl Iterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    names.filter(|name| name.as_encoded_bytes().starts_with(PRIVATE_VARIABLES))
}

type Reports = Lines<BufReader<ChildStdout>>;

/// The next report; `None` at the end of the pipe.
async fn next_report(reports: &mut Reports) -> io::Result<Option<Report>> {
    match reports.next_line().await? {
        Some(line) => Ok(Some(serde_json::from_str(&line)?)),
        None => Ok(None),
    }
}

/// Waits for the supervisor's last report and its end. Publishes how the browser ended, after
/// which no process of it exists.
async fn watch(
    mut supervisor: Child,
    mut reports: Reports,
    directory: PathBuf,
    ended: watch::Sender<Option<Ending>>,
) {
    let mut ending = None;
    while let Ok(Some(report)) = next_report(&mut reports).await {
        if let Report::Ended(reported) = report {
            ending = Some(reported);
        }
    }
    // The supervisor ends right after its last report, or has been killed.
    let _ = supervisor.wait().await;
    let ending = ending.unwrap_or_else(|| {
        processes::kill_users_of(&directory);
        Ending {
            cause: EndingCause::SupervisorLost,
            stderr: Vec::new(),
        }
    });
    ended.send_replace(Some(ending));
}

impl BrowserProcess {
    /// Number of the browser's main process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// State of its sandbox.
    #[must_use]
    pub fn sandbox(&self) -> Sandbox {
        self.sandbox
    }

    /// The private directory with its profile, which vanishes with it.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.profile.dir()
    }

    /// Waits until the browser and all its processes are gone, for whatever reason. May be
    /// dropped and called again.
    pub async fn wait(&self) -> Ending {
        let mut ended = self.ended.clone();
        // The sender is dropped without a value only when the runtime shuts down.
        match ended.wait_for(Option::is_some).await {
            Ok(ending) => ending.clone().unwrap_or_else(lost),
            Err(_) => lost(),
        }
    }

    /// Ends the browser and all its processes and removes its profile; returns within about five
    /// seconds. Nothing happens when it is gone already.
    pub async fn kill(&mut self) -> Ending {
        drop(self.order.take());
        match timeout(END_LIMIT, self.wait()).await {
            Ok(ending) => ending,
            Err(_) => {
                self.kill_supervisor();
                self.wait().await
            }
        }
    }

    fn kill_supervisor(&self) {
        // While no ending is published, the supervisor has not been collected, so the number is
        // still its own.
        if let Some(pid) = self.supervisor.filter(|_| self.ended.borrow().is_none()) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

fn lost() -> Ending {
    Ending {
        cause: EndingCause::SupervisorLost,
        stderr: Vec::new(),
    }
}

impl Drop for BrowserProcess {
    fn drop(&mut self) {
        drop(self.order.take());
        if self.ended.borrow().is_some() {
            return;
        }
        // No runtime may be left to run the watching task. The supervisor removes the directory
        // when every process is gone.
        let deadline = Instant::now() + END_LIMIT;
        while self.profile.dir().exists() {
            if Instant::now() >= deadline {
                self.kill_supervisor();
                processes::kill_users_of(self.profile.dir());
                return;
            }
            std::thread::sleep(DROP_POLL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_products_own_variables_are_private() {
        let names = ["PYPROC_BROWSER", "PATH", "PYPROC_", "XPYPROC_A", "pyproc_b"];
        let removed: Vec<_> = private_variables(names.into_iter().map(OsString::from)).collect();
        assert_eq!(removed, ["PYPROC_BROWSER", "PYPROC_"]);
    }

    #[test]
    fn the_order_names_the_profile_and_hides_the_query() {
        let profile = Profile::create().unwrap();
        let mut options = LaunchOptions::new("/bin/true", "http://127.0.0.1:9/?nonce=1");
        options.timezone = Some("Europe/Berlin".to_owned());
        let line = order(&options, Sandbox::On, &profile).unwrap();
        assert!(line.ends_with('\n') && line.matches('\n').count() == 1);
        let order: Order = serde_json::from_str(&line).unwrap();
        assert_eq!(order.secret.as_deref(), Some("nonce=1"));
        assert_eq!(order.timezone, "Europe/Berlin");
        assert_eq!(order.directory, profile.dir());
        let user_data = format!("--user-data-dir={}", profile.user_data().display());
        assert!(order.arguments.contains(&user_data));
    }
}
