//! A client of the control protocol over any pair of byte streams
//! (control protocol 4): our command line and our tests talk to the product
//! the way everybody else does.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyproc_protocol::client::{ClientConfig, ClientEvent, ConnectionFailure, ReceivedAttachment};
use pyproc_protocol::frame::{Peer, Request};
use pyproc_protocol::{
    ClientConversation, ControlError, FatalError, LineReader, OperationName, RequestId,
    SuccessOutcome, codes, limits,
};
use serde_json::{Map, Value};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

/// Bytes of one read.
const CHUNK: usize = 64 << 10;

/// What a finished request left.
#[derive(Clone, Debug, PartialEq)]
pub struct Completed {
    /// `observed` or `applied`.
    pub outcome: SuccessOutcome,
    /// Output of the operation.
    pub output: Value,
    /// Verified attachments.
    pub attachments: Vec<ReceivedAttachment>,
}

/// How a request ended.
pub type Ending = Result<Completed, ControlError>;

/// The connection could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The hello cannot be written.
    #[error("the client's own hello cannot be written: {0}")]
    Hello(String),
    /// The connection ended before the server's hello.
    #[error("{0}")]
    Ended(String),
}

/// An open connection. Dropping it closes the stream to the server.
pub struct ControlClient {
    shared: Arc<Shared>,
    operations: Vec<OperationName>,
    next_id: std::sync::atomic::AtomicU64,
    tasks: [JoinHandle<()>; 2],
}

struct Shared {
    state: Mutex<State>,
    lines: mpsc::UnboundedSender<String>,
}

struct State {
    conversation: ClientConversation,
    waiting: BTreeMap<RequestId, oneshot::Sender<Ending>>,
    failure: Option<ConnectionFailure>,
}

/// A request that was sent.
pub struct Pending {
    /// Its id.
    pub id: RequestId,
    ending: oneshot::Receiver<Ending>,
}

impl Pending {
    /// Waits for the terminal.
    ///
    /// # Errors
    ///
    /// The terminal's error, or `CONTROL_CONNECTION_LOST`.
    pub async fn ending(self) -> Ending {
        match self.ending.await {
            Ok(ending) => ending,
            Err(_) => Err(lost("the client was closed")),
        }
    }
}

fn lost(reason: &str) -> ControlError {
    ControlError::outcome_unknown(codes::CONTROL_CONNECTION_LOST, reason)
}

impl ControlClient {
    /// Says hello and waits for the server's.
    ///
    /// # Errors
    ///
    /// [`ConnectError`].
    pub async fn connect(
        reader: impl AsyncRead + Unpin + Send + 'static,
        writer: impl AsyncWrite + Unpin + Send + 'static,
        peer: Peer,
    ) -> Result<Self, ConnectError> {
        let hello_id = RequestId::parse("hello:1");
        let hello_id = hello_id.map_err(|error| ConnectError::Hello(error.to_string()))?;
        let (conversation, hello) = ClientConversation::new(ClientConfig::new(hello_id, peer))
            .map_err(|error| ConnectError::Hello(error.to_string()))?;
        let (lines, outbox) = mpsc::unbounded_channel();
        let (opened_sender, mut opened) = watch::channel(None);
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                conversation,
                waiting: BTreeMap::new(),
                failure: None,
            }),
            lines,
        });
        shared.write(hello);
        let tasks = [
            tokio::spawn(write(shared.clone(), writer, outbox)),
            tokio::spawn(read(shared.clone(), reader, opened_sender)),
        ];
        let mut client = Self {
            shared,
            operations: Vec::new(),
            next_id: 1.into(),
            tasks,
        };
        match opened.wait_for(Option::is_some).await {
            Ok(operations) => client.operations = operations.clone().unwrap_or_default(),
            Err(_) => {
                let state = client.shared.lock();
                let reason = state.failure.as_ref().map(ToString::to_string);
                let reason = reason.unwrap_or_else(|| "the connection ended".to_owned());
                drop(state);
                return Err(ConnectError::Ended(reason));
            }
        }
        Ok(client)
    }

    /// Operations of the server's hello.
    pub fn operations(&self) -> &[OperationName] {
        &self.operations
    }

    /// Sends a request with a fresh id.
    ///
    /// # Errors
    ///
    /// What keeps the request from being sent; nothing was written.
    pub fn start(
        &self,
        operation: &str,
        input: Map<String, Value>,
    ) -> Result<Pending, ControlError> {
        use std::sync::atomic::Ordering;
        let number = self.next_id.fetch_add(1, Ordering::Relaxed);
        let invalid = |error: pyproc_protocol::types::InvalidText| {
            ControlError::not_sent(codes::CONTROL_INVALID_FRAME, error.to_string())
        };
        let request = Request {
            request_id: RequestId::parse(&format!("request:{number}")).map_err(invalid)?,
            operation: OperationName::parse(operation).map_err(invalid)?,
            input,
            space_id: None,
        };
        self.send(request)
    }

    /// Sends a request as it is.
    ///
    /// # Errors
    ///
    /// What keeps the request from being sent; nothing was written.
    pub fn send(&self, request: Request) -> Result<Pending, ControlError> {
        let id = request.request_id.clone();
        let mut state = self.shared.lock();
        let line = state.conversation.request(request)?;
        let (sender, ending) = oneshot::channel();
        state.waiting.insert(id.clone(), sender);
        self.shared.write(line);
        Ok(Pending { id, ending })
    }

    /// Sends a request and waits for its terminal.
    ///
    /// # Errors
    ///
    /// The terminal's error, or what kept the request from being sent.
    pub async fn request(&self, operation: &str, input: Map<String, Value>) -> Ending {
        self.start(operation, input)?.ending().await
    }

    /// Asks the server to stop a request; its terminal still comes.
    ///
    /// # Errors
    ///
    /// What keeps the cancel from being sent.
    pub fn cancel(&self, id: &RequestId, reason: Option<&str>) -> Result<(), ControlError> {
        let mut state = self.shared.lock();
        if let Some(line) = state.conversation.cancel(id, reason)? {
            self.shared.write(line);
        }
        Ok(())
    }
}

impl Drop for ControlClient {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, line: String) {
        // A stream that is lost ends every request where that is noticed.
        let _ = self.lines.send(line);
    }

    /// Takes one line of the server; the result is false when the connection
    /// is over.
    fn line(&self, line: &[u8], opened: &watch::Sender<Option<Vec<OperationName>>>) -> bool {
        let mut state = self.lock();
        match state.conversation.handle_line(line) {
            Ok(Some(ClientEvent::Opened { operations, .. })) => {
                opened.send_replace(Some(operations));
            }
            Ok(Some(ClientEvent::Finished {
                request_id,
                result,
                attachments,
            })) => {
                let ending = result.map(|(outcome, output)| Completed {
                    outcome,
                    output,
                    attachments,
                });
                if let Some(waiter) = state.waiting.remove(&request_id) {
                    // The caller may have stopped waiting.
                    let _ = waiter.send(ending);
                }
            }
            Ok(Some(ClientEvent::Event(_)) | None) => {}
            Err(failure) => {
                state.fail(failure);
                return false;
            }
        }
        true
    }

    fn lose(&self, reason: &str) {
        let mut state = self.lock();
        let failure = state.conversation.connection_lost(reason);
        state.fail(failure);
    }
}

impl State {
    fn fail(&mut self, failure: ConnectionFailure) {
        let error = failure.request_error();
        for (_, waiter) in std::mem::take(&mut self.waiting) {
            // The caller may have stopped waiting.
            let _ = waiter.send(Err(error.clone()));
        }
        self.failure.get_or_insert(failure);
    }
}

async fn write(
    shared: Arc<Shared>,
    mut writer: impl AsyncWrite + Unpin,
    mut lines: mpsc::UnboundedReceiver<String>,
) {
    while let Some(line) = lines.recv().await {
        let written = async {
            writer.write_all(line.as_bytes()).await?;
            writer.write_all(b"\n").await?;
            writer.flush().await
        };
        if let Err(error) = written.await {
            shared.lose(&error.to_string());
            return;
        }
    }
}

async fn read(
    shared: Arc<Shared>,
    mut reader: impl AsyncRead + Unpin,
    opened: watch::Sender<Option<Vec<OperationName>>>,
) {
    let mut lines = LineReader::new(limits::MAX_INBOUND_FRAME);
    let mut buffer = vec![0; CHUNK];
    loop {
        let length = match reader.read(&mut buffer).await {
            Ok(0) => return shared.lose("the server closed the connection"),
            Ok(length) => length,
            Err(error) => return shared.lose(&error.to_string()),
        };
        let mut bytes = &buffer[..length];
        loop {
            match lines.next_line(&mut bytes) {
                Ok(Some(line)) => {
                    if !shared.line(&line, &opened) {
                        return;
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    let mut state = shared.lock();
                    let violation = FatalError::frame_too_large(error.limit);
                    let failure = state.conversation.violated(violation);
                    state.fail(failure);
                    return;
                }
            }
        }
    }
}
