//! The host: one agent connection, its requests, and the machine page.
//!
//! ```text
//! host.handle(now, Input)
//! while let Some(output) = host.poll() { … }
//! ```

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::pin::pin;
use std::rc::Rc;

use futures_util::future::{Either, select};
use pyproc_protocol::bridge::BridgeToken;
use pyproc_protocol::line::LineReader;
use pyproc_protocol::server::{AcceptedRequest, ServerEvent};
use pyproc_protocol::{
    ControlError, FatalError, Operation, RequestId, ServerConversation, SpaceId, SuccessOutcome,
    codes, limits,
};
use serde_json::Value;

use crate::bridge::{Bridge, Cancel, Completed, Ticket, Unsaved};
use crate::clock::Millis;
use crate::executor::Executor;
use crate::image::{Errand, ImageOpened};
use crate::machine::MachineRequest;
use crate::output::{LedgerState, Link, Output, Outputs, Received};
use crate::signal::Signal;

/// Requests without a terminal at one time.
const MAX_ACTIVE: usize = 4096;

/// Bytes of input of all requests without a terminal.
const MAX_ACTIVE_BYTES: usize = 64 << 20;

/// What is active when the connection ends may take this long to settle
/// (control protocol 3.10).
const SETTLE_MS: Millis = 5000;

/// Storing the machine is work: it ends this long after the connection ended,
/// stored or not, so that the process is gone within its 10 s.
const SAVE_MS: Millis = 7000;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The agent sent bytes.
    AgentBytes(Vec<u8>),
    /// The agent's stream has ended.
    AgentEof,
    /// The shell must stop; the text is the reason for people.
    Stop(String),
    /// A page connection was accepted.
    PageOpened(Link),
    /// A page connection sent a text message.
    PageMessage(Link, String),
    /// A page connection sent something that is not acceptable.
    PageBroken(Link),
    /// A page connection has ended.
    PageClosed(Link),
    /// The machine page cannot come up or is gone.
    PageFailed(String),
    /// The image that the machine was to start from cannot be had.
    LoadFailed(String),
    /// The answer to [`Output::ImageOpen`] with this ticket.
    ImageOpened(u64, ImageOpened),
    /// The answer to [`Output::Receive`] with this ticket.
    Received(u64, Received),
    /// Time has passed.
    Tick,
}

/// Fixed facts of one run.
pub struct HostSettings {
    /// Bearer capability that the machine page must present.
    pub capability: String,
    /// Operations of the server hello by name.
    pub operations: Vec<String>,
    /// Space of the automation operations, when there is a provider.
    pub automation_space: Option<String>,
    /// Deadline of each machine command, milliseconds.
    pub timeout_ms: Millis,
    /// Deadline of the page's start, milliseconds.
    pub boot_timeout_ms: Millis,
    /// Store an image of the machine at an orderly end.
    pub save_on_exit: bool,
}

/// Settings that no host can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// An operation that is not in the catalog.
    #[error("there is no operation {0:?}")]
    Operation(String),
    /// A space id outside its alphabet.
    #[error("{0:?} is not a space id")]
    Space(String),
    /// A capability that cannot be one.
    #[error("the capability is not usable")]
    Capability,
}

/// One running host.
pub struct Host {
    executor: Executor,
    shared: Rc<Shared>,
    reader: LineReader,
}

/// What the conversations of one host share.
struct Shared {
    outputs: Outputs,
    server: RefCell<ServerConversation>,
    bridge: Bridge,
    active: RefCell<BTreeMap<RequestId, Active>>,
    active_bytes: Cell<usize>,
    /// Announced when nothing is active any more after the connection ended.
    settled: Signal<()>,
    ending: Cell<bool>,
    save_on_exit: bool,
}

struct Active {
    cancel: Cancel,
    bytes: usize,
}

impl Host {
    /// A host that has heard nothing yet.
    ///
    /// # Errors
    ///
    /// [`SettingsError`].
    pub fn new(settings: HostSettings) -> Result<Self, SettingsError> {
        let operations = settings.operations.iter().map(|name| {
            Operation::from_name(name).ok_or_else(|| SettingsError::Operation(name.clone()))
        });
        let operations: Vec<_> = operations.collect::<Result<_, _>>()?;
        let space = settings
            .automation_space
            .map(|space| SpaceId::parse(&space).map_err(|_| SettingsError::Space(space)));
        let capability =
            BridgeToken::parse(&settings.capability).map_err(|_| SettingsError::Capability)?;
        let executor = Executor::new();
        let outputs = Outputs::default();
        let bridge = Bridge::new(
            outputs.clone(),
            executor.clock().clone(),
            executor.spawner().clone(),
            capability,
            settings.timeout_ms,
            settings.boot_timeout_ms,
        );
        Ok(Self {
            shared: Rc::new(Shared {
                outputs,
                server: RefCell::new(ServerConversation::new(operations, space.transpose()?)),
                bridge,
                active: RefCell::default(),
                active_bytes: Cell::new(0),
                settled: Signal::default(),
                ending: Cell::new(false),
                save_on_exit: settings.save_on_exit,
            }),
            executor,
            reader: LineReader::new(limits::MAX_INBOUND_FRAME),
        })
    }

    /// Handles one input at `now`, monotonic milliseconds.
    pub fn handle(&mut self, now: Millis, input: Input) {
        self.executor.run(now);
        match input {
            Input::AgentBytes(bytes) => self.agent_bytes(&bytes),
            Input::AgentEof => self.agent_eof(),
            Input::Stop(reason) => self.end(&reason),
            Input::PageOpened(link) => self.shared.bridge.opened(link),
            Input::PageMessage(link, text) => self.shared.bridge.message(link, &text),
            Input::PageBroken(link) => self.shared.bridge.broken(link),
            Input::PageClosed(link) => self.shared.bridge.closed(link),
            Input::PageFailed(reason) => {
                let bridge = &self.shared.bridge;
                bridge.failed(codes::MACHINE_BOOT_FAILED, &reason);
            }
            Input::LoadFailed(reason) => {
                let bridge = &self.shared.bridge;
                bridge.failed(codes::MACHINE_IMAGE_INVALID, &reason);
            }
            Input::ImageOpened(ticket, opened) => self.shared.bridge.image_opened(ticket, opened),
            Input::Received(ticket, received) => self.shared.bridge.received(ticket, received),
            Input::Tick => {}
        }
        self.executor.run(now);
    }

    /// The next thing to do.
    pub fn poll(&mut self) -> Option<Output> {
        self.shared.outputs.poll()
    }

    /// When the host wants a tick at the latest.
    pub fn deadline(&self) -> Option<Millis> {
        self.executor.clock().next_deadline()
    }

    fn agent_bytes(&mut self, mut bytes: &[u8]) {
        while !self.shared.ending.get() {
            match self.reader.next_line(&mut bytes) {
                Ok(Some(line)) => self.agent_line(&line),
                Ok(None) => return,
                Err(error) => self.fail(&FatalError::frame_too_large(error.limit)),
            }
        }
    }

    fn agent_eof(&mut self) {
        if self.shared.ending.get() {
            return;
        }
        match self.reader.finish() {
            Ok(Some(line)) => self.agent_line(&line),
            Ok(None) => {}
            Err(error) => self.fail(&FatalError::frame_too_large(error.limit)),
        }
        self.end("the client closed the connection");
    }

    fn agent_line(&mut self, line: &[u8]) {
        let event = self.shared.server.borrow_mut().handle_line(line);
        match event {
            Ok(None) => {}
            Ok(Some(ServerEvent::Hello { line, .. } | ServerEvent::Refused { line, .. })) => {
                self.shared.outputs.agent_line(line);
            }
            Ok(Some(ServerEvent::Request(request))) => self.accept(request, line.len()),
            Ok(Some(ServerEvent::Cancel { request_id, reason })) => {
                if let Some(active) = self.shared.active.borrow().get(&request_id) {
                    active.cancel.announce(reason);
                }
            }
            Err(error) => self.fail(&error),
        }
    }

    /// A fatal error is the last frame; active requests get no terminal
    /// (control protocol 3.10).
    fn fail(&mut self, error: &FatalError) {
        let shared = &self.shared;
        shared.ending.set(true);
        let last = match shared.server.borrow_mut().fail_connection(error) {
            Some(line) => line,
            None => error.to_line(),
        };
        shared.outputs.agent_line(last);
        shared.active.borrow_mut().clear();
        shared.outputs.push(Output::Exit(1));
    }

    fn accept(&mut self, request: AcceptedRequest, bytes: usize) {
        let shared = &self.shared;
        let id = request.request_id.clone();
        let outcome = request.operation.success_outcome(&request.input);
        let active = shared.active.borrow().len();
        if active >= MAX_ACTIVE || shared.active_bytes.get() + bytes > MAX_ACTIVE_BYTES {
            let error = ControlError::not_sent(
                codes::PYPROC_INTERNAL,
                format!(
                    "{active} requests are waiting; at most {MAX_ACTIVE} and {MAX_ACTIVE_BYTES} \
                     bytes may: wait for terminals, then send again"
                ),
            );
            return shared.finish(&id, outcome, Err(error.with_retryable(true)));
        }
        let cancel = Cancel::default();
        let entry = Active {
            cancel: cancel.clone(),
            bytes,
        };
        shared.active_bytes.set(shared.active_bytes.get() + bytes);
        shared.active.borrow_mut().insert(id.clone(), entry);
        let ledger = Output::Ledger(id.to_string(), LedgerState::Accepted);
        shared.outputs.push(ledger);
        // Queued here and not in the conversation: arrival order is the order
        // of the machine.
        match shared.route(request) {
            Ok(ticket) => {
                let shared = shared.clone();
                self.executor.spawner().spawn(async move {
                    let result = shared.bridge.outcome(ticket, &cancel).await;
                    shared.finish(&id, outcome, result);
                });
            }
            Err(error) => shared.finish(&id, outcome, Err(error)),
        }
    }

    /// Ends the connection: everything active is cancelled, settles, and then
    /// the host exits with code 0.
    fn end(&mut self, reason: &str) {
        let shared = &self.shared;
        if shared.ending.replace(true) {
            return;
        }
        shared.server.borrow_mut().close();
        for active in shared.active.borrow().values() {
            active.cancel.announce(reason.to_owned());
        }
        shared.note_settled();
        let (shared, clock) = (shared.clone(), self.executor.clock().clone());
        self.executor.spawner().spawn(async move {
            let deadline = clock.now() + SAVE_MS;
            select(pin!(shared.settled.wait()), clock.sleep(SETTLE_MS)).await;
            let mut code = 0;
            if shared.save_on_exit {
                let saved = pin!(shared.bridge.save_image());
                let saved = match select(saved, clock.sleep_until(deadline)).await {
                    Either::Left((saved, _)) => saved,
                    Either::Right(_) => Err(Unsaved::Failed("there was no time left".to_owned())),
                };
                if let Err(unsaved) = saved {
                    let reason = match unsaved {
                        Unsaved::NeverStarted => "it had not started".to_owned(),
                        Unsaved::Failed(reason) => {
                            code = 1;
                            reason
                        }
                    };
                    let text = format!("the machine was not saved at the end: {reason}");
                    shared.outputs.push(Output::Diagnostic(text));
                }
            }
            shared.outputs.push(Output::Exit(code));
        });
    }
}

impl Shared {
    /// Gives a request to the one who executes it.
    fn route(&self, request: AcceptedRequest) -> Result<Ticket, ControlError> {
        match MachineRequest::read(request.operation, &request.input) {
            Some(checked) => {
                let AcceptedRequest {
                    request_id,
                    operation,
                    input,
                } = request;
                let (errand, input) = Errand::of(checked?, input);
                Ok(self
                    .bridge
                    .enqueue(Some(request_id), operation, input, errand))
            }
            None => Err(ControlError::not_sent(
                codes::CONTROL_OPERATION_UNAVAILABLE,
                format!("{} has no provider in this host", request.operation),
            )),
        }
    }

    /// Writes the terminal of a request, once.
    fn finish(
        &self,
        id: &RequestId,
        outcome: SuccessOutcome,
        result: Result<Completed, ControlError>,
    ) {
        if let Some(active) = self.active.borrow_mut().remove(id) {
            self.active_bytes
                .set(self.active_bytes.get() - active.bytes);
        }
        let mut server = self.server.borrow_mut();
        let lines = match result {
            Ok(Completed {
                output,
                attachments,
            }) => server.respond(id, outcome, Value::Object(output), attachments),
            Err(error) => server.fail(id, error),
        };
        // A request that is not active any more has its terminal: the late
        // result is dropped (control protocol 3.9.5).
        if let Ok(lines) = lines {
            for line in lines {
                self.outputs.agent_line(line);
            }
        }
        let ledger = Output::Ledger(id.to_string(), LedgerState::Ended);
        self.outputs.push(ledger);
        drop(server);
        self.note_settled();
    }

    fn note_settled(&self) {
        if self.ending.get() && self.active.borrow().is_empty() {
            self.settled.announce(());
        }
    }
}
