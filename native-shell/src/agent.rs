//! The agent's byte streams: bounded in both directions, so that a peer that
//! floods or does not read costs a fixed amount of memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

/// Bytes of one read.
const CHUNK: usize = 64 << 10;

/// Reads that the core has not taken yet.
const INBOX: usize = 4;

/// While more than this is unwritten, nothing that could make more is taken in.
const BACKLOG_LIMIT: usize = 16 << 20;

/// What the agent sent.
#[derive(Debug, PartialEq, Eq)]
pub enum AgentInput {
    /// Some bytes.
    Bytes(Vec<u8>),
    /// Its stream has ended.
    Eof,
}

/// Reads until the end; a read error counts as the end.
pub fn read(mut stream: impl AsyncRead + Unpin + Send + 'static) -> mpsc::Receiver<AgentInput> {
    let (sender, inbox) = mpsc::channel(INBOX);
    tokio::spawn(async move {
        let mut buffer = vec![0; CHUNK];
        loop {
            let input = match stream.read(&mut buffer).await {
                Ok(0) | Err(_) => AgentInput::Eof,
                Ok(length) => AgentInput::Bytes(buffer[..length].to_vec()),
            };
            let last = input == AgentInput::Eof;
            if sender.send(input).await.is_err() || last {
                return;
            }
        }
    });
    inbox
}

/// Writes lines in order without ever making the caller wait.
pub struct AgentWriter {
    lines: mpsc::UnboundedSender<String>,
    state: Arc<State>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct State {
    backlog: AtomicUsize,
    lost: AtomicBool,
    changed: Notify,
}

impl AgentWriter {
    /// Starts the writing task.
    pub fn start(mut stream: impl AsyncWrite + Unpin + Send + 'static) -> Self {
        let (sender, mut lines) = mpsc::unbounded_channel::<String>();
        let state = Arc::new(State::default());
        let shared = state.clone();
        let task = tokio::spawn(async move {
            while let Some(line) = lines.recv().await {
                let written = async {
                    stream.write_all(line.as_bytes()).await?;
                    stream.flush().await
                };
                let failed = written.await.is_err();
                shared.backlog.fetch_sub(line.len(), Ordering::Relaxed);
                shared.lost.fetch_or(failed, Ordering::Relaxed);
                shared.changed.notify_one();
                if failed {
                    return;
                }
            }
        });
        Self {
            lines: sender,
            state,
            task,
        }
    }

    /// Queues one line.
    pub fn write(&self, line: String) {
        self.state.backlog.fetch_add(line.len(), Ordering::Relaxed);
        // A closed queue means that the stream is lost, which `is_lost` says.
        let _ = self.lines.send(line);
    }

    /// Whether so much is unwritten that nothing more should be taken in.
    pub fn is_congested(&self) -> bool {
        self.state.backlog.load(Ordering::Relaxed) > BACKLOG_LIMIT
    }

    /// Whether the stream can no longer be written.
    pub fn is_lost(&self) -> bool {
        self.state.lost.load(Ordering::Relaxed)
    }

    /// Resolves when something was written or the stream was lost.
    pub async fn changed(&self) {
        self.state.changed.notified().await;
    }

    /// Waits until everything is written, at most `limit`.
    pub async fn finish(self, limit: Duration) {
        drop(self.lines);
        // What a reader does not take in time is lost with it.
        let _ = tokio::time::timeout(limit, self.task).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_reader_that_does_not_read_congests_and_then_gets_everything() {
        let (near, mut far) = tokio::io::duplex(1024);
        let writer = AgentWriter::start(near);
        let line = "x".repeat(1 << 20);
        for _ in 0..17 {
            writer.write(line.clone());
        }
        assert!(writer.is_congested());
        let reading = tokio::spawn(async move {
            let mut all = Vec::new();
            far.read_to_end(&mut all).await.map(|_| all.len())
        });
        writer.finish(Duration::from_secs(30)).await;
        assert_eq!(reading.await.unwrap().unwrap(), 17 << 20);
    }

    #[tokio::test]
    async fn a_closed_reader_is_noticed() {
        let (near, far) = tokio::io::duplex(16);
        drop(far);
        let writer = AgentWriter::start(near);
        writer.write("line\n".to_owned());
        writer.changed().await;
        assert!(writer.is_lost());
    }

    #[tokio::test]
    async fn input_ends_with_eof() {
        let mut inbox = read(&b"abc"[..]);
        assert_eq!(inbox.recv().await, Some(AgentInput::Bytes(b"abc".to_vec())));
        assert_eq!(inbox.recv().await, Some(AgentInput::Eof));
        assert_eq!(inbox.recv().await, None);
    }
}
