//! A running product, spoken to in lines.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::PATIENCE;

/// One running product, spoken to in lines.
pub struct Product {
    /// The process.
    pub child: Child,
    /// Its standard input; `None` once it was ended.
    pub input: Option<ChildStdin>,
    /// Its standard output; `None` once something else reads it.
    pub output: Option<BufReader<ChildStdout>>,
    said: watch::Receiver<String>,
    listening: JoinHandle<()>,
}

impl Product {
    /// Starts it; what it says on standard error is collected.
    pub fn spawn(mut command: Command) -> Self {
        let mut child = command.spawn().expect("the product starts");
        let stderr = child.stderr.take().expect("piped");
        let (sender, said) = watch::channel(String::new());
        Self {
            input: child.stdin.take(),
            output: child.stdout.take().map(BufReader::new),
            said,
            listening: tokio::spawn(listen(stderr, sender)),
            child,
        }
    }

    /// Writes one frame.
    pub async fn send(&mut self, frame: &Value) {
        self.write(format!("{frame}\n").as_bytes()).await;
    }

    /// Writes bytes as they are.
    pub async fn write(&mut self, bytes: &[u8]) {
        self.try_write(bytes).await.expect("the product reads");
    }

    /// Writes bytes to a product that may have stopped reading.
    pub async fn try_write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let input = self.input.as_mut().expect("standard input is open");
        let written = async {
            input.write_all(bytes).await?;
            input.flush().await
        };
        timeout(PATIENCE, written).await.expect("it reads or ends")
    }

    /// Ends the product's input.
    pub fn end_input(&mut self) {
        self.input = None;
    }

    /// The next line, without its terminator; `None` at the end of output.
    pub async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let output = self.output.as_mut().expect("not taken by a client");
        let length = timeout(PATIENCE, output.read_line(&mut line)).await;
        let length = length
            .expect("the product says something")
            .expect("UTF-8 output");
        (length > 0).then(|| line.trim_end_matches('\n').to_owned())
    }

    /// The next frame.
    pub async fn frame(&mut self) -> Value {
        let line = self.line().await.expect("a frame");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// Frames up to and including the terminal of `id`; the last is the terminal.
    pub async fn terminal(&mut self, id: &str) -> Value {
        loop {
            let frame = self.frame().await;
            if frame["requestId"] == id && (frame["type"] == "response" || frame["type"] == "error")
            {
                return frame;
            }
        }
    }

    /// Every frame until the output ends.
    pub async fn rest(&mut self) -> Vec<Value> {
        let mut frames = Vec::new();
        while let Some(line) = self.line().await {
            frames.push(
                serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}")),
            );
        }
        frames
    }

    /// Waits for a fatal end: one fatal frame as the last one, exit code 1.
    /// The result is its code and the frames before it.
    pub async fn fatal(mut self) -> (String, Vec<Value>) {
        let mut frames = self.rest().await;
        let last = frames.pop().expect("a fatal frame");
        assert_eq!(last["type"], "error", "{last}");
        assert_eq!(last["fatal"], true, "{last}");
        assert_eq!(last["error"]["outcome"], "notSent", "{last}");
        assert_eq!(last["error"]["retryable"], false, "{last}");
        assert!(last.get("requestId").is_none(), "{last}");
        let more = frames.iter().filter(|frame| frame.get("fatal").is_some());
        assert_eq!(more.count(), 0, "{frames:?}");
        let (status, stderr) = self.exited().await;
        assert_eq!(status.code(), Some(1), "{stderr}");
        let code = last["error"]["code"].as_str().expect("a code");
        (code.to_owned(), frames)
    }

    /// What it said on standard error until now.
    pub fn said(&self) -> String {
        self.said.borrow().clone()
    }

    /// Waits until standard error contains `text`; the result is all of it.
    pub async fn says(&self, text: &str) -> String {
        let mut said = self.said.clone();
        let heard = timeout(PATIENCE, said.wait_for(|said| said.contains(text))).await;
        match heard {
            Ok(Ok(said)) => said.clone(),
            _ => panic!("{text:?} was not said: {}", self.said()),
        }
    }

    /// Waits for the end of the process; the result is its exit status and
    /// what it wrote on standard error.
    pub async fn exited(self) -> (ExitStatus, String) {
        self.exited_within(PATIENCE).await
    }

    /// The same with a bound of its own.
    pub async fn exited_within(mut self, bound: Duration) -> (ExitStatus, String) {
        let Ok(status) = timeout(bound, self.child.wait()).await else {
            panic!("still running after {bound:?}: {}", self.said());
        };
        self.listening.await.expect("standard error");
        let said = self.said.borrow().clone();
        (status.expect("an exit status"), said)
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = self.child.id().expect("it runs");
        let pid = rustix::process::Pid::from_raw(pid.cast_signed()).expect("a pid");
        rustix::process::kill_process(pid, signal).expect("a signal");
    }
}

async fn listen(mut stderr: ChildStderr, said: watch::Sender<String>) {
    let mut all = Vec::new();
    let mut chunk = [0; 4096];
    while let Ok(length @ 1..) = stderr.read(&mut chunk).await {
        all.extend_from_slice(&chunk[..length]);
        said.send_replace(String::from_utf8_lossy(&all).into_owned());
    }
}
