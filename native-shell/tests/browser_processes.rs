//! Starts real browsers and looks for what they leave behind.
//!
//! The program starts itself again in two roles, so it brings its own `main`: as the browser's
//! supervisor, exactly as the product does, and as a shell that can be killed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::future::Future;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Failed, Trial};
use pyproc_native_shell::browser::{
    BrowserProcess, EndingCause, LaunchError, LaunchOptions, SUPERVISE_ARGUMENT, find_browser,
    launch, supervise, sweep,
};
use rustix::process::{Pid, Signal, kill_process};

/// First argument of the program when it is to be a shell.
const OWNER_ARGUMENT: &str = "__owner";

/// Time in which everything of a killed shell must be gone.
const GONE: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    let mut arguments = env::args_os().skip(1);
    match arguments.next() {
        Some(role) if role == SUPERVISE_ARGUMENT => return supervise::main(arguments),
        Some(role) if role == OWNER_ARGUMENT => return owner(),
        _ => {}
    }
    macro_rules! trials {
        ($($name:ident),* $(,)?) => {
            vec![$(Trial::test(stringify!($name), || { $name(); Ok::<(), Failed>(()) })),*]
        };
    }
    let trials = trials![
        a_closed_browser_leaves_nothing,
        a_dropped_browser_leaves_nothing,
        a_browser_killed_during_its_start_leaves_nothing,
        a_process_that_left_the_browsers_session_is_found,
        a_killed_shell_leaves_nothing,
        a_killed_browser_is_reported_and_leaves_nothing,
        a_killed_supervisor_is_reported_and_leaves_nothing,
        a_shell_killed_with_its_supervisor_leaves_only_what_the_next_start_sweeps,
        a_failing_browser_is_reported_with_its_last_words,
        the_browser_gets_a_clean_environment_and_none_of_our_streams,
        the_browser_listens_nowhere_and_talks_to_nobody,
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// Role: a shell with a browser. Prints one line, `browser directory`, then waits.
fn owner() -> ExitCode {
    block_on(async {
        let browser = launch(&options()).await.unwrap();
        println!("{} {}", browser.pid(), browser.directory().display());
        browser.wait().await;
    });
    ExitCode::SUCCESS
}

fn a_closed_browser_leaves_nothing() {
    block_on(async {
        let mut browser = launch_running().await;
        let directory = browser.directory().to_owned();
        let mode = fs::metadata(&directory).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);

        let started = Instant::now();
        let ending = browser.kill().await;
        assert!(
            started.elapsed() < Duration::from_secs(3),
            "{:?}",
            started.elapsed()
        );
        assert_eq!(ending.cause, EndingCause::Killed(9));
        assert_nothing_left(&directory);
        assert_eq!(browser.wait().await, ending);
    });
}

fn a_dropped_browser_leaves_nothing() {
    block_on(async {
        let browser = launch_running().await;
        let directory = browser.directory().to_owned();
        drop(browser);
        assert_nothing_left(&directory);
    });
}

fn a_browser_killed_during_its_start_leaves_nothing() {
    block_on(async {
        let mut browser = launch(&options()).await.unwrap();
        let directory = browser.directory().to_owned();
        browser.kill().await;
        assert_nothing_left(&directory);
    });
}

fn a_process_that_left_the_browsers_session_is_found() {
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let note = dir.path().join("orphan");
        // The orphan has another parent, session and environment than the browser.
        let script = format!(
            "(env -i setsid sleep 300 & echo $! > {0}.new; mv {0}.new {0})\nexec sleep 300",
            note.display()
        );
        let mut browser = launch(&scripted(dir.path(), &script)).await.unwrap();
        wait_until("the orphan runs", || note.exists());
        let orphan = fs::read_to_string(&note).unwrap();
        let orphan = Path::new("/proc").join(orphan.trim());
        assert!(orphan.exists());
        browser.kill().await;
        assert!(!orphan.exists());
    });
}

fn a_killed_shell_leaves_nothing() {
    let mut owner = Owner::start();
    assert!(users_of(&owner.directory).len() > 2);
    owner.process.kill().unwrap();
    owner.process.wait().unwrap();
    wait_until("everything is gone", || {
        users_of(&owner.directory).is_empty() && !owner.directory.exists()
    });
}

fn a_killed_browser_is_reported_and_leaves_nothing() {
    block_on(async {
        let browser = launch_running().await;
        let directory = browser.directory().to_owned();
        kill(browser.pid());
        let ending = tokio::time::timeout(GONE, browser.wait()).await.unwrap();
        assert_eq!(ending.cause, EndingCause::Killed(9));
        assert_nothing_left(&directory);
    });
}

fn a_killed_supervisor_is_reported_and_leaves_nothing() {
    block_on(async {
        let browser = launch_running().await;
        let directory = browser.directory().to_owned();
        kill(parent(browser.pid()));
        let ending = tokio::time::timeout(GONE, browser.wait()).await.unwrap();
        assert_eq!(ending.cause, EndingCause::SupervisorLost);
        drop(browser);
        wait_until("the browser is gone", || users_of(&directory).is_empty());
        assert!(!directory.exists());
    });
}

fn a_shell_killed_with_its_supervisor_leaves_only_what_the_next_start_sweeps() {
    let mut owner = Owner::start();
    sweep().unwrap();
    assert!(
        owner.directory.exists(),
        "the profile of a living shell was swept"
    );

    let supervisor = parent(owner.browser);
    owner.process.kill().unwrap();
    kill(supervisor);
    owner.process.wait().unwrap();
    wait_until("the browser is gone", || {
        users_of(&owner.directory).is_empty()
    });
    block_on(async {
        let next = launch_running().await;
        assert!(!owner.directory.exists());
        drop(next);
    });
}

fn a_failing_browser_is_reported_with_its_last_words() {
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let failing = scripted(dir.path(), "echo first >&2\necho boom >&2\nexit 3");
        let browser = launch(&failing).await.unwrap();
        let directory = browser.directory().to_owned();
        let ending = tokio::time::timeout(GONE, browser.wait()).await.unwrap();
        assert_eq!(ending.cause, EndingCause::Exited(3));
        assert_eq!(ending.stderr, ["first", "boom"]);
        assert_nothing_left(&directory);

        let absent = LaunchOptions::new(dir.path().join("absent"), "about:blank");
        let ending = match launch(&absent).await {
            Ok(browser) => browser.wait().await,
            Err(LaunchError::Ended(ending)) => ending,
            Err(error) => panic!("{error}"),
        };
        assert!(ending.to_string().contains("absent"), "{ending}");
    });
}

fn the_browser_gets_a_clean_environment_and_none_of_our_streams() {
    let owner = Owner::start();
    let environment = fs::read(format!("/proc/{}/environ", owner.browser)).unwrap();
    let environment = String::from_utf8_lossy(&environment).into_owned();
    let variables: Vec<_> = environment.split('\0').collect();
    assert!(variables.contains(&"TZ=UTC"), "{variables:?}");
    assert!(
        variables
            .iter()
            .any(|variable| variable.starts_with("PATH="))
    );
    assert!(
        !variables
            .iter()
            .any(|variable| variable.starts_with("PYPROC_")),
        "{variables:?}"
    );

    let stream =
        |process: u32, number: u32| fs::read_link(format!("/proc/{process}/fd/{number}")).unwrap();
    for number in [0, 1] {
        assert_eq!(stream(owner.browser, number), Path::new("/dev/null"));
    }
    let ours: BTreeSet<_> = (0..3)
        .map(|number| stream(owner.process.id(), number))
        .collect();
    assert!(!ours.contains(&stream(owner.browser, 2)));
}

fn the_browser_listens_nowhere_and_talks_to_nobody() {
    block_on(async {
        let browser = launch_running().await;
        let command_line = fs::read(format!("/proc/{}/cmdline", browser.pid())).unwrap();
        assert!(!String::from_utf8_lossy(&command_line).contains("remote-debugging"));
        // The browser's background services begin within this time.
        let end = Instant::now() + Duration::from_secs(12);
        let mut looks = 0;
        while Instant::now() < end {
            let sockets = internet_sockets(&users_of(browser.directory()));
            assert!(sockets.is_empty(), "{sockets:#?}");
            looks += 1;
            sleep(Duration::from_millis(5));
        }
        assert!(
            looks > 100,
            "the machine was too slow for the test: {looks} looks"
        );
    });
}

fn options() -> LaunchOptions {
    LaunchOptions::new(find_browser(None).unwrap(), "about:blank")
}

/// A shell script in the place of the browser.
fn scripted(dir: &Path, script: &str) -> LaunchOptions {
    let path = dir.join("browser");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    LaunchOptions::new(path, "about:blank")
}

/// A browser that has its helper processes.
async fn launch_running() -> BrowserProcess {
    let browser = launch(&options()).await.unwrap();
    wait_until("the browser has helpers", || {
        has_renderer(browser.directory())
    });
    browser
}

fn has_renderer(directory: &Path) -> bool {
    users_of(directory).iter().any(|pid| {
        let command_line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&command_line).contains("--type=renderer")
    })
}

/// A shell in a process of its own, which has a running browser.
struct Owner {
    process: Child,
    browser: u32,
    directory: PathBuf,
}

impl Owner {
    fn start() -> Self {
        let mut process = Command::new(env::current_exe().unwrap())
            .arg(OWNER_ARGUMENT)
            .env("PYPROC_BROWSER", "/nonexistent")
            .env("TZ", "Asia/Tokyo")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let (browser, directory) = line.trim().split_once(' ').unwrap();
        let owner = Self {
            process,
            browser: browser.parse().unwrap(),
            directory: directory.into(),
        };
        wait_until("the browser has helpers", || has_renderer(&owner.directory));
        owner
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn block_on(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(test);
}

fn kill(pid: u32) {
    let pid = Pid::from_raw(pid.try_into().unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
}

fn parent(pid: u32) -> u32 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("PPid:"))
        .unwrap();
    line.trim().parse().unwrap()
}

/// Waits at most [`GONE`], or twice that on a machine that is still starting a browser.
fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now()
        + if what.contains("gone") {
            GONE
        } else {
            4 * GONE
        };
    while !condition() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        sleep(Duration::from_millis(10));
    }
}

fn assert_nothing_left(directory: &Path) {
    assert_eq!(users_of(directory), BTreeSet::new());
    assert!(
        !directory.exists(),
        "{} is still there",
        directory.display()
    );
}

/// Processes whose command line or environment mentions the directory.
fn users_of(directory: &Path) -> BTreeSet<u32> {
    let directory = directory.to_str().unwrap();
    let mut users = BTreeSet::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else {
            continue;
        };
        let mentions = |file: &str| {
            let text = fs::read(entry.path().join(file)).unwrap_or_default();
            String::from_utf8_lossy(&text).contains(directory)
        };
        if mentions("cmdline") || mentions("environ") {
            users.insert(pid);
        }
    }
    users
}

/// Remote end of the datagram socket that Chromium connects, without sending anything, to learn
/// whether the machine has a route to IPv6 addresses: `[2001:4860:4860::8888]:443`.
const ROUTE_PROBE: &str = "60480120000060480000000088880000:01BB";

/// Internet sockets of the processes, as lines of the kernel's tables.
fn internet_sockets(processes: &BTreeSet<u32>) -> Vec<String> {
    let mut inodes = BTreeSet::new();
    for pid in processes {
        for entry in fs::read_dir(format!("/proc/{pid}/fd"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let target = fs::read_link(entry.path()).unwrap_or_default();
            let inode = target.to_string_lossy().into_owned();
            let inode = inode
                .strip_prefix("socket:[")
                .and_then(|rest| rest.strip_suffix(']'));
            inodes.extend(inode.map(str::to_owned));
        }
    }
    let mut sockets = Vec::new();
    for table in ["tcp", "tcp6", "udp", "udp6"] {
        let lines = fs::read_to_string(format!("/proc/net/{table}")).unwrap_or_default();
        for line in lines.lines().skip(1) {
            let inode = line.split_ascii_whitespace().nth(9);
            if inode.is_some_and(|inode| inodes.contains(inode)) && !line.contains(ROUTE_PROBE) {
                sockets.push(format!("{table} {}", line.trim()));
            }
        }
    }
    sockets
}
