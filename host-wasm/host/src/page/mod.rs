//! The page's core: the far end of the bridge, and the machine behind it.
//!
//! ```text
//! page.handle(now, PageInput)
//! while let Some(output) = page.poll() { … }
//! ```

mod failure;
mod fit;
mod images;
mod machine;
mod message;
mod operations;
mod port;
mod request;
mod settings;
mod states;

use futures_channel::mpsc;
use futures_util::StreamExt;
use futures_util::future::{Either, select};
use pyproc_protocol::bridge::{
    BridgeId, BridgeToken, Handshake, HostMessage, PageEpoch, PageResult,
};
use pyproc_protocol::{ControlError, SuccessOutcome, codes, limits, text};
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::rc::Rc;

pub use message::{Incarnation, PageTable, Post, Printed, StateNumber, WorkerCommand};
pub use port::{ImageAnswer, ImageRefusal, PageOutput, PlacedImage};
pub use settings::PageSettings;

use crate::clock::Millis;
use crate::display;
use crate::executor::Executor;
use machine::{Interrupt, Machine};
use message::WorkerMessage;
use port::{Port, WorkerEvent};
use request::PageRequest;

/// What a worker said, with the bulk data that travelled beside it.
#[derive(Debug, Default)]
pub struct WorkerText {
    /// JSON text of the message.
    pub message: String,
    /// JSON text of what the command printed, for replies.
    pub printed: Option<String>,
    /// Page table.
    pub table: Option<PageTable>,
    /// JSON text of a record.
    pub record: Option<String>,
}

/// One thing that happened to the page.
#[derive(Debug)]
pub enum PageInput {
    /// The engine's files and the boot image are there: boot the machine.
    Start,
    /// The host sent a message.
    BridgeMessage(String),
    /// The host is gone.
    BridgeClosed,
    /// A worker said something.
    WorkerSaid(Incarnation, WorkerText),
    /// A worker ended by itself.
    WorkerLost(Incarnation, String),
    /// A worker was killed; JSON text of what it had printed.
    WorkerKilled(Incarnation, String),
    /// What became of the image that was to be made or placed.
    Image(ImageAnswer),
    /// Time has passed.
    Tick,
}

/// Facts that no page can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the page's {0} is not usable")]
pub struct PageFactError(&'static str);

/// The core of one machine page.
pub struct MachinePage {
    executor: Executor,
    port: Port,
    epoch: PageEpoch,
    commands: mpsc::UnboundedSender<Command>,
    /// Interrupt of the command that was accepted last.
    current: Rc<RefCell<Option<(BridgeId, Interrupt)>>>,
    serving: Option<Serving>,
}

/// One command of the host.
struct Command {
    id: BridgeId,
    request: PageRequest,
    interrupt: Interrupt,
}

/// What the serving conversation starts with.
struct Serving {
    machine: Machine,
    commands: mpsc::UnboundedReceiver<Command>,
    answers: Answers,
}

/// The way back to the host.
#[derive(Clone)]
struct Answers {
    port: Port,
    epoch: PageEpoch,
    token: BridgeToken,
}

impl MachinePage {
    /// A page that has not started. Slots 1 to `image_slots` of the page store
    /// hold the boot image.
    ///
    /// # Errors
    ///
    /// [`PageFactError`] when the capability or the epoch cannot be one.
    pub fn new(
        capability: &str,
        page_epoch: &str,
        settings: PageSettings,
        image_slots: u32,
    ) -> Result<Self, PageFactError> {
        let token = BridgeToken::parse(capability).map_err(|_| PageFactError("capability"))?;
        let epoch = PageEpoch::parse(page_epoch).map_err(|_| PageFactError("epoch"))?;
        let executor = Executor::new();
        let port = Port::new(&settings);
        let (sender, commands) = mpsc::unbounded();
        let clock = executor.clock().clone();
        let machine = Machine::new(port.clone(), clock, settings, image_slots);
        let answers = Answers {
            port: port.clone(),
            epoch: epoch.clone(),
            token,
        };
        Ok(Self {
            executor,
            port,
            epoch,
            commands: sender,
            current: Rc::default(),
            serving: Some(Serving {
                machine,
                commands,
                answers,
            }),
        })
    }

    /// Handles one input at `now`, monotonic milliseconds.
    pub fn handle(&mut self, now: Millis, input: PageInput) {
        self.executor.run(now);
        match input {
            PageInput::Start => {
                if let Some(serving) = self.serving.take() {
                    self.executor.spawner().spawn(serving.run());
                }
            }
            PageInput::BridgeMessage(text) => self.bridge_message(&text),
            // Nobody is left to serve: the conversation ends, and with it the
            // workers when the page is closed.
            PageInput::BridgeClosed => self.commands.close_channel(),
            PageInput::WorkerSaid(number, text) => self.port.deliver(number, worker_event(text)),
            PageInput::WorkerLost(number, reason) => {
                self.port.deliver(number, WorkerEvent::Lost(reason));
            }
            PageInput::WorkerKilled(number, printed) => {
                let printed = serde_json::from_str(&printed).unwrap_or_default();
                self.port.killed(number, printed);
            }
            PageInput::Image(answer) => self.port.image_answered(answer),
            PageInput::Tick => {}
        }
        self.executor.run(now);
    }

    /// The next thing to do.
    pub fn poll(&mut self) -> Option<PageOutput> {
        self.port.poll()
    }

    /// When the page wants a tick at the latest.
    pub fn deadline(&self) -> Option<Millis> {
        self.executor.clock().next_deadline()
    }

    fn bridge_message(&mut self, message: &str) {
        // The host is trusted; what this build does not know is not for it.
        let Ok(message) = HostMessage::decode(message.as_bytes()) else {
            return;
        };
        match message {
            HostMessage::Interrupt {
                request_id,
                page_epoch,
                grace_ms,
            } => {
                let current = self.current.borrow();
                if let Some((id, interrupt)) = &*current
                    && *id == request_id
                    && page_epoch == self.epoch
                {
                    interrupt.announce(grace_ms.map(Millis::from));
                }
            }
            HostMessage::Command {
                request_id,
                page_epoch,
                operation,
                input,
            } => {
                let request = if page_epoch == self.epoch {
                    PageRequest::read(operation.as_str(), &input)
                } else {
                    Err(refused("the command is for another page"))
                };
                match request {
                    Ok(request) => self.accept(request_id, request),
                    Err(error) => answer(&self.port, &self.epoch, request_id, Err(error)),
                }
            }
        }
    }

    fn accept(&self, id: BridgeId, request: PageRequest) {
        let interrupt = Interrupt::default();
        *self.current.borrow_mut() = Some((id.clone(), interrupt.clone()));
        let command = Command {
            id,
            request,
            interrupt,
        };
        // The receiver lives as long as the machine does.
        let _ = self.commands.unbounded_send(command);
    }
}

impl Serving {
    /// Boots, says so, and performs commands in order until the host is gone.
    async fn run(mut self) {
        if let Err(failure) = self.machine.start().await {
            self.answers.boot_failed(&failure.into_error());
            return;
        }
        self.answers.ready();
        while let Some(command) = self.next_command().await {
            let exports = matches!(command.request, PageRequest::Export { .. });
            let result = self
                .machine
                .perform(command.request, &command.interrupt)
                .await;
            let sends = match &result {
                Ok(_) if exports => Some(PageOutput::SendImage),
                Ok(output) if output.get(display::MEMBER).is_some() => {
                    Some(PageOutput::SendDisplays)
                }
                _ => None,
            };
            let Answers { port, epoch, .. } = &self.answers;
            answer(port, epoch, command.id, result);
            if let Some(sends) = sends {
                port.push(sends);
            }
        }
    }

    /// The next command; meanwhile the machine does what an idle one does.
    async fn next_command(&mut self) -> Option<Command> {
        loop {
            let Some(due) = self.machine.idle_due() else {
                return self.commands.next().await;
            };
            let wake = self.machine.clock.sleep_until(due);
            match select(self.commands.next(), wake).await {
                Either::Left((command, _)) => return command,
                Either::Right(_) => self.machine.idle().await,
            }
        }
    }
}

impl Answers {
    fn ready(&self) {
        self.introduce(&Handshake::Ready {
            page_epoch: self.epoch.clone(),
        });
    }

    fn boot_failed(&self, error: &ControlError) {
        self.introduce(&Handshake::BootFailed {
            message: text::tail(error.message(), limits::MAX_PAGE_ERROR_MESSAGE).to_owned(),
            details: error.details().cloned(),
        });
    }

    fn introduce(&self, handshake: &Handshake) {
        // Both messages are far smaller than a handshake may be.
        if let Ok(text) = handshake.encode(&self.token) {
            self.port.push(PageOutput::Send(text));
        }
    }
}

/// Sends the one answer to a command.
fn answer(port: &Port, epoch: &PageEpoch, id: BridgeId, result: Result<Value, ControlError>) {
    let result = PageResult {
        request_id: id,
        page_epoch: epoch.clone(),
        result: result.map(|output| match output {
            Value::Object(members) => members,
            other => Map::from_iter([("output".to_owned(), other)]),
        }),
    };
    let text = match result.encode() {
        Ok(text) => Ok(text),
        Err(_) => result.too_large(SuccessOutcome::Applied).encode(),
    };
    if let Ok(text) = text {
        port.push(PageOutput::Send(text));
    }
}

fn refused(message: &str) -> ControlError {
    ControlError::not_sent(codes::CONTROL_OPERATION_UNAVAILABLE, message)
}

fn worker_event(text: WorkerText) -> WorkerEvent {
    let printed = text.printed.as_deref().map(serde_json::from_str);
    match (WorkerMessage::decode(&text.message), printed.transpose()) {
        (Ok(message), Ok(printed)) => WorkerEvent::Message {
            message,
            table: text.table,
            record: text.record,
            printed: printed.unwrap_or_default(),
        },
        (Err(reason), _) => WorkerEvent::Lost(format!("a message does not fit: {reason}")),
        (_, Err(_)) => WorkerEvent::Lost("the output could not be read".to_owned()),
    }
}
