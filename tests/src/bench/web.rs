//! A web server with nothing around it, for floors: a page, the engine's
//! files, and the moments at which it was asked.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Starts the engine the way its documentation says and reports a value.
const START: &str = "\
import { loadPyodide } from '/engine/pyodide.mjs';
const pyodide = await loadPyodide({ indexURL: '/engine/' });
await fetch(`/done?${pyodide.runPython('1+1')}`);
";

/// Compiles the engine's WebAssembly and nothing else.
const COMPILE: &str = "\
await WebAssembly.compileStreaming(fetch('/engine/pyodide.asm.wasm'));
await fetch('/done?compiled');
";

/// Hands every message of a WebSocket to a worker and sends what it returns. The worker works as
/// long as Python on a short run: threads that wait longer are woken later.
const ECHO: &str = "\
const program = new Blob([`onmessage = ({ data }) => {
  const end = performance.now() + 0.25;
  while (performance.now() < end);
  postMessage(data);
}`]);
const worker = new Worker(URL.createObjectURL(program));
const socket = new WebSocket(`ws://127.0.0.1:${location.search.slice(1)}`);
socket.onmessage = ({ data }) => worker.postMessage(data);
worker.onmessage = ({ data }) => socket.send(data);
";

/// Longest request.
const REQUEST_LIMIT: usize = 16 << 10;

/// A request that somebody waits for.
pub(super) struct Asked {
    /// Path and query.
    pub(super) target: String,
    /// When its head was complete.
    pub(super) at: Instant,
}

/// A running server; it ends when this is dropped.
pub(super) struct Server {
    address: SocketAddr,
    asked: mpsc::UnboundedReceiver<Asked>,
    task: JoinHandle<()>,
}

impl Server {
    /// Serves a blank page at `/blank`, one that starts the engine at `/engine`, one that compiles
    /// it at `/compile`, and one at `/echo?PORT` that answers a WebSocket server.
    pub(super) async fn start(engine: PathBuf) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (sender, asked) = mpsc::unbounded_channel();
        let engine = Arc::new(engine);
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.expect("a connection");
                tokio::spawn(converse(stream, engine.clone(), sender.clone()));
            }
        });
        Self {
            address,
            asked,
            task,
        }
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Waits for the first request whose target begins with `path`.
    pub(super) async fn is_asked(&mut self, path: &str) -> Asked {
        loop {
            let asked = self.asked.recv().await.expect("the server runs");
            if asked.target.starts_with(path) {
                return asked;
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Answers requests until the browser closes; a broken connection is its own
/// business.
async fn converse(
    mut stream: TcpStream,
    engine: Arc<PathBuf>,
    asked: mpsc::UnboundedSender<Asked>,
) {
    while let Some(target) = request(&mut stream).await {
        let at = Instant::now();
        let (media_type, body) = answer(&target, &engine).await;
        // Nobody may be interested any more.
        let _ = asked.send(Asked { target, at });
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {media_type}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        if stream.write_all(head.as_bytes()).await.is_err()
            || stream.write_all(&body).await.is_err()
        {
            return;
        }
    }
}

/// The target of the next request.
async fn request(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut chunk = [0; 4096];
        let length = stream.read(&mut chunk).await.ok()?;
        if length == 0 || head.len() > REQUEST_LIMIT {
            return None;
        }
        head.extend_from_slice(&chunk[..length]);
    }
    let head = String::from_utf8(head).ok()?;
    head.split(' ').nth(1).map(str::to_owned)
}

async fn answer(target: &str, engine: &Path) -> (&'static str, Vec<u8>) {
    const PAGE: &str = "<!doctype html><title>page</title><link rel=icon href=data:,>";
    if let Some(name) = target.strip_prefix("/engine/") {
        let media_type = match name.rsplit('.').next() {
            Some("wasm") => "application/wasm",
            Some("mjs") => "text/javascript",
            Some("json") => "application/json",
            _ => "application/octet-stream",
        };
        let bytes = tokio::fs::read(engine.join(name)).await;
        return (media_type, bytes.expect("a file of the engine"));
    }
    let (path, _) = target.split_once('?').unwrap_or((target, ""));
    match path {
        "/engine" | "/compile" | "/echo" => {
            let script = format!("<script type=module src={path}.js></script>");
            ("text/html", format!("{PAGE}{script}").into_bytes())
        }
        "/engine.js" => ("text/javascript", START.into()),
        "/compile.js" => ("text/javascript", COMPILE.into()),
        "/echo.js" => ("text/javascript", ECHO.into()),
        _ => ("text/html", PAGE.into()),
    }
}
