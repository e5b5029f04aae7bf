//! The interactive session: at a terminal, and with a script.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use pyproc_tests::{Home, PATIENCE};
use rexpect::process::WaitStatus;
use rexpect::session::{PtySession, spawn_command};

const PROMPT: &str = ">>> ";

fn command(home: &Home) -> Command {
    let config = home.config();
    let planned = home.command(&["--config", config.to_str().unwrap(), "repl"]);
    let planned = planned.as_std();
    let mut command = Command::new(planned.get_program());
    let set = planned
        .get_envs()
        .filter_map(|(name, value)| Some((name, value?)));
    command
        .args(planned.get_args())
        .envs(set)
        .env("TERM", "xterm");
    command
}

/// Runs a script to its end.
fn script(home: &Home, text: &str) -> Output {
    let mut child = command(home)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(text.as_bytes()).unwrap();
    drop(input);
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn a_script_of_lines_prints_what_python_would() {
    let home = Home::default();
    let output = script(
        &home,
        "x = 40\nx + 2\n%save\nfor i in range(2):\n    print(i)\nx = '''a\nb'''\nx\n%restore\nx\n",
    );
    let expected = "42\n0\n1\n'a\\nb'\nback at checkpoint 1\n40\n";
    let printed = text(&output.stdout);
    let (saved, rest): (Vec<_>, Vec<_>) = printed
        .split_inclusive('\n')
        .partition(|line| line.starts_with("saved checkpoint 1, "));
    assert_eq!((saved.len(), rest.concat().as_str()), (1, expected));
    assert!(output.status.success(), "{}", text(&output.stderr));
    home.is_left_clean().await;
}

#[tokio::test]
async fn a_script_that_fails_goes_on_and_ends_with_one() {
    let home = Home::default();
    let output = script(&home, "def f():\n    1/0\nf()\n%restore 7\nprint('on')\n");
    assert_eq!(text(&output.stdout), "on\n");
    assert_eq!(output.status.code(), Some(1));
    let stderr = text(&output.stderr);
    assert!(
        stderr.contains("ZeroDivisionError: division by zero"),
        "{stderr}"
    );
    assert!(stderr.contains("in f\n"), "{stderr}");
}

#[tokio::test]
async fn python_that_exits_ends_the_session_with_its_code() {
    let home = Home::default();
    let output = script(&home, "import sys\nsys.exit(3)\nprint('not reached')\n");
    assert_eq!(text(&output.stdout), "");
    assert_eq!(output.status.code(), Some(3));
    assert!(!text(&output.stderr).contains("SystemExit"));
}

/// A session at a terminal, at its first prompt.
fn terminal(home: &Home) -> PtySession {
    let patience = u64::try_from(PATIENCE.as_millis()).unwrap();
    let mut session = spawn_command(command(home), Some(patience)).unwrap();
    session.exp_string("Python 3.14").unwrap();
    session.exp_string(PROMPT).unwrap();
    session
}

fn expect(session: &mut PtySession, lines: &[&str]) {
    for line in lines {
        session.exp_string(line).unwrap();
    }
    session.exp_string(PROMPT).unwrap();
}

#[tokio::test]
async fn a_terminal_takes_blocks_and_commands_and_ends_with_control_d() {
    let home = Home::default();
    let mut session = terminal(&home);
    session.send_line("21 * 2").unwrap();
    expect(&mut session, &["42"]);
    session.send_line("def double(n):").unwrap();
    session.send_line("    return n + n").unwrap();
    session.send_line("").unwrap();
    expect(&mut session, &[]);
    session.send_line("%save clean").unwrap();
    expect(&mut session, &["saved checkpoint 1"]);
    session.send_line("double = None").unwrap();
    expect(&mut session, &[]);
    session.send_line("%checkpoints").unwrap();
    expect(&mut session, &["*   1", "clean"]);
    session.send_line("%restore").unwrap();
    expect(&mut session, &["back at checkpoint 1"]);
    session.send_line("double(4321)").unwrap();
    expect(&mut session, &["8642"]);
    session.send_control('d').unwrap();
    session.exp_eof().unwrap();
    let status = session.process().wait().unwrap();
    assert!(matches!(status, WaitStatus::Exited(_, 0)), "{status:?}");
    home.is_left_clean().await;
}

#[tokio::test]
async fn control_c_interrupts_python_and_keeps_its_state() {
    let home = Home::default();
    let mut session = terminal(&home);
    session.send_line("n = 0").unwrap();
    expect(&mut session, &[]);
    session.send_line("while True: n += 1").unwrap();
    session.send_line("").unwrap();
    // The loop runs as soon as the editor has given the terminal back.
    session.exp_string("\n").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500));
    session.send_control('c').unwrap();
    expect(&mut session, &["KeyboardInterrupt"]);
    session.send_line("n > 1000").unwrap();
    expect(&mut session, &["True"]);
    session.send("n = 'never").unwrap();
    session.send_control('c').unwrap();
    expect(&mut session, &["KeyboardInterrupt"]);
    session.send_line("type(n)").unwrap();
    expect(&mut session, &["<class 'int'>"]);
    session.send_control('d').unwrap();
    session.exp_eof().unwrap();
    home.is_left_clean().await;
}

#[tokio::test]
async fn python_that_cannot_be_interrupted_is_replaced_and_that_is_said() {
    let home = Home::default();
    let mut session = terminal(&home);
    session.send_line("kept = 1").unwrap();
    expect(&mut session, &[]);
    session.send_line("sum(range(10**12))").unwrap();
    session.exp_string("\n").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500));
    session.send_control('c').unwrap();
    expect(
        &mut session,
        &["KeyboardInterrupt", "Python had to be replaced"],
    );
    session.send_line("kept").unwrap();
    expect(&mut session, &["1"]);
    session.send_control('d').unwrap();
    session.exp_eof().unwrap();
}

#[tokio::test]
async fn the_history_is_for_the_owner_only() {
    let home = Home::default();
    let mut session = terminal(&home);
    let line = format!("'remember {}'", home.path().display());
    session.send_line(&line).unwrap();
    expect(&mut session, &[]);
    session.send_control('d').unwrap();
    session.exp_eof().unwrap();
    let planned = command(&home);
    let cache = planned
        .get_envs()
        .find_map(|(name, value)| value.filter(|_| name == "XDG_CACHE_HOME"));
    let history = PathBuf::from(cache.unwrap()).join("pyproc/history");
    let kept = std::fs::read_to_string(&history).unwrap();
    assert!(kept.contains(&line), "{kept}");
    let mode = std::fs::metadata(&history).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}
