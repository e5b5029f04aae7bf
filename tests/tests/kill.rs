//! Whatever is killed, nothing stays behind and nobody waits for ever
//! (control protocol 6.6; the exit rules).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use pyproc_tests::python::setting;
use pyproc_tests::random::Random;
use pyproc_tests::{Home, Product, hello, request, run};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// After a kill of the shell everything is gone within this time.
const GONE: Duration = Duration::from_secs(5);

/// What is killed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Victim {
    Shell,
    Browser,
    Renderer,
}

/// Kills a process that may have ended already.
fn kill(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

fn arguments(pid: i32) -> Vec<String> {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    // Chromium's children write their arguments into one string.
    text.split(['\0', ' ']).map(str::to_owned).collect()
}

/// Processes of the browser of this home: its main process, or its renderers.
fn browser(home: &Home, renderers: bool) -> Vec<i32> {
    let pids = home.processes().into_iter();
    pids.filter(|pid| {
        let arguments = arguments(*pid);
        let has = |prefix: &str| arguments.iter().any(|a| a.starts_with(prefix));
        match renderers {
            true => has("--type=renderer"),
            false => has("--user-data-dir=") && !has("--type=") && !has("__supervise"),
        }
    })
    .collect()
}

async fn until(limit: Duration, what: &str, done: impl Fn() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < limit, "not within {limit:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Requests of one round, all sent at once.
const WORK: [&str; 4] = [
    "import time\ntime.sleep(0.3)",
    "sum(range(3_000_000))",
    "print('x' * 100_000)",
    "hold = [bytearray(100_000) for _ in range(50)]",
];

async fn send_work(product: &mut Product) -> Vec<String> {
    let mut ids = Vec::new();
    for (number, code) in WORK.iter().enumerate() {
        let id = format!("run:{number}");
        product.send(&run(&id, code)).await;
        ids.push(id);
        let id = format!("save:{number}");
        let save = request(&id, "machine.checkpoint.save", json!({}));
        product.send(&save).await;
        ids.push(id);
    }
    ids
}

/// Terminals by request id; none may come twice.
fn note(terminals: &mut BTreeMap<String, Value>, frame: Value) {
    if frame["type"] == "response" || frame["type"] == "error" {
        let id = frame["requestId"].as_str().expect("an id").to_owned();
        let before = terminals.insert(id, frame.clone());
        assert_eq!(before, None, "a second terminal: {frame}");
    }
}

/// An answer, or one of the errors that a lost page has.
fn is_known(frame: &Value, what: &str) {
    const LOST: [(&str, &str); 3] = [
        ("CONTROL_PAGE_REPLACED", "outcomeUnknown"),
        ("CONTROL_BRIDGE_CLOSED", "notSent"),
        ("PYPROC_BOOT_FAILED", "notSent"),
    ];
    let (code, outcome) = (&frame["error"]["code"], &frame["error"]["outcome"]);
    let lost = LOST.iter().any(|(c, o)| code == c && outcome == o);
    assert!(frame["type"] == "response" || lost, "{what}: {frame}");
}

#[tokio::test]
async fn kills_at_random_moments_leave_nothing_behind() {
    let rounds = setting("PYPROC_TEST_KILLS", 12);
    let mut random = Random::from_environment();
    for round in 0..rounds {
        let victim = [Victim::Shell, Victim::Browser, Victim::Renderer][(round % 3) as usize];
        let what = format!("round {round}, {victim:?}, seed {}", random.seed);
        let home = Home::default();
        let mut product = home.open().await;
        let ids = send_work(&mut product).await;
        // Some rounds strike while the browser and the engine are starting.
        let early = random.below(3) == 0;
        println!("{what}, early {early}");
        let mut terminals = BTreeMap::new();
        if !early {
            let first = product.terminal("run:0").await;
            note(&mut terminals, first);
        } else if victim != Victim::Shell {
            let there = || !browser(&home, victim == Victim::Renderer).is_empty();
            until(Duration::from_secs(60), &what, there).await;
        }
        tokio::time::sleep(Duration::from_millis(random.below(700) as u64)).await;

        println!("{} terminals before the kill", terminals.len());
        match victim {
            Victim::Shell => product.signal(Signal::KILL),
            Victim::Browser => browser(&home, false).into_iter().for_each(kill),
            Victim::Renderer => browser(&home, true).into_iter().for_each(kill),
        }
        let killed = Instant::now();
        if victim == Victim::Shell {
            // A terminal that came counts once. The last line may have been cut by the kill.
            while let Some(line) = product.line().await {
                match serde_json::from_str(&line) {
                    Ok(frame) => note(&mut terminals, frame),
                    Err(error) => assert!(product.line().await.is_none(), "{what}: {error}"),
                }
            }
            let clean = || home.processes().is_empty() && home.profiles().is_empty();
            until(GONE.saturating_sub(killed.elapsed()), &what, clean).await;
            continue;
        }
        while terminals.len() < ids.len() {
            let frame = product.frame().await;
            note(&mut terminals, frame);
        }
        let took = killed.elapsed();
        assert!(took < Duration::from_secs(30), "{what}: {took:?}");
        for (id, frame) in &terminals {
            assert!(ids.contains(id), "{what}: {frame}");
            is_known(frame, &what);
        }
        // A browser that was killed may answer for a moment; then the page is known to be lost. A
        // renderer that was killed early may not have been the page's.
        let mut later = 0;
        loop {
            let id = format!("later:{later}");
            product.send(&run(&id, "6 * 7")).await;
            let answer = product.terminal(&id).await;
            is_known(&answer, &what);
            let unharmed = early && victim == Victim::Renderer && answer["output"]["value"] == "42";
            if unharmed || answer["error"]["outcome"] == "notSent" {
                break;
            }
            assert!(killed.elapsed() < took + GONE, "{what}: {answer}");
            tokio::time::sleep(Duration::from_millis(50)).await;
            later += 1;
        }
        product.end_input();
        for frame in product.rest().await {
            note(&mut terminals, frame);
        }
        let (status, stderr) = product.exited().await;
        assert!(status.code().is_some(), "{what}: {stderr}");
        until(GONE, &what, || {
            home.processes().is_empty() && home.profiles().is_empty()
        })
        .await;
    }
}

#[tokio::test]
async fn the_end_of_the_input_ends_everything_in_time() {
    for busy in [false, true] {
        let home = Home::default();
        let mut product = home.open().await;
        product.send(&run("first", "6 * 7")).await;
        assert_eq!(product.terminal("first").await["output"]["value"], "42");
        if busy {
            product.send(&run("busy", "while True: pass")).await;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        product.end_input();
        let ended = Instant::now();
        let frames = product.rest().await;
        let (_, stderr) = product.exited().await;
        let limit = Duration::from_secs(if busy { 10 } else { 3 });
        assert!(ended.elapsed() < limit, "{:?}: {stderr}", ended.elapsed());
        let ids: Vec<_> = frames.iter().map(|frame| &frame["requestId"]).collect();
        match busy {
            true => assert_eq!(ids, ["busy"], "{frames:?}"),
            false => assert!(frames.is_empty(), "{frames:?}"),
        }
        assert!(home.processes().is_empty() && home.profiles().is_empty());
    }
}

#[tokio::test]
async fn a_kill_before_the_hello_leaves_nothing_behind() {
    let home = Home::default();
    for wait in [0, 20, 200] {
        let mut product = home.serve();
        if wait > 100 {
            product.send(&hello()).await;
        }
        tokio::time::sleep(Duration::from_millis(wait)).await;
        product.signal(Signal::KILL);
        let clean = || home.processes().is_empty() && home.profiles().is_empty();
        until(GONE, "clean", clean).await;
    }
}
