//! Floors: the browser without the product.

use std::process::Stdio;
use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt};
use pyproc_native_shell::browser::ALWAYS;
use rustix::process::{Pid, Signal, geteuid, kill_process, kill_process_group};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::time::timeout;
use tokio_tungstenite::accept_async;

use super::samples::Samples;
use super::web::Server;
use crate::{Home, PATIENCE, browser, engine};

/// From the spawn of a browser to its first request of a blank page.
pub(super) async fn browser_start() -> Duration {
    visit("/blank", "/blank").await.0
}

/// From the spawn of a browser to the value of `1+1` in a page that starts the
/// engine without the product.
pub(super) async fn plain_engine() -> Duration {
    let (time, asked) = visit("/engine", "/done").await;
    assert_eq!(asked, "/done?2");
    time
}

/// From the spawn of a browser to the end of the compilation of the engine's
/// WebAssembly, which every start has to wait for.
pub(super) async fn compiled_engine() -> Duration {
    visit("/compile", "/done").await.0
}

/// Round trips of `message` from here to a worker of a page and back, through
/// nothing but a WebSocket and the page's thread: what every run goes through.
pub(super) async fn page_round_trips(message: &str, warm_up: usize, count: usize) -> Samples {
    let home = Home::default();
    let server = Server::start(engine()).await;
    let sockets = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = sockets.local_addr().expect("an address").port();
    let (child, _) = open(&home, &server.url(&format!("/echo?{port}")));
    let round_trips = async {
        let (stream, _) = sockets.accept().await.expect("a connection");
        stream.set_nodelay(true).expect("a socket");
        let mut socket = accept_async(stream).await.expect("a WebSocket");
        let mut samples = Samples::default();
        for round in 0..warm_up + count {
            let begun = Instant::now();
            socket.send(message.into()).await.expect("it is sent");
            let echo = socket.next().await.expect("an echo").expect("an echo");
            assert_eq!(echo.to_text().expect("a text"), message);
            if round >= warm_up {
                samples.push(begun.elapsed());
            }
        }
        samples
    };
    let samples = timeout(PATIENCE, round_trips).await.expect("an answer");
    end(child, &home).await;
    samples
}

/// From the spawn of a browser that opens `page` to its request of `awaited`,
/// and the target of that request.
async fn visit(page: &str, awaited: &str) -> (Duration, String) {
    let home = Home::default();
    let mut server = Server::start(engine()).await;
    let (child, spawned) = open(&home, &server.url(page));
    let asked = timeout(PATIENCE, server.is_asked(awaited)).await;
    let asked = asked.expect("the page is loaded");
    end(child, &home).await;
    (asked.at - spawned, asked.target)
}

/// Starts a browser that opens `url`, and the moment of it.
fn open(home: &Home, url: &str) -> (Child, Instant) {
    let mut command = Command::new(browser());
    command
        // As the product starts its own.
        .args(ALWAYS)
        .arg("--disable-gpu")
        .arg("--headless=new")
        .arg(format!("--user-data-dir={}", home.path().display()))
        .args(geteuid().is_root().then_some("--no-sandbox"))
        .arg(url)
        .env("TMPDIR", home.temporary())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(true);
    let spawned = Instant::now();
    let child = command.spawn().expect("the browser starts");
    (child, spawned)
}

/// Ends a browser with all its processes.
async fn end(mut child: Child, home: &Home) {
    if let Some(group) = child.id().and_then(|id| Pid::from_raw(id.cast_signed())) {
        // It may have ended by itself.
        let _ = kill_process_group(group, Signal::KILL);
    }
    child.wait().await.expect("it ends");
    let gone = async {
        loop {
            let left = home.processes();
            if left.is_empty() {
                return;
            }
            for pid in left.into_iter().filter_map(Pid::from_raw) {
                // As above.
                let _ = kill_process(pid, Signal::KILL);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, gone).await.expect("every process ends");
}
