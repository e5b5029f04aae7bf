//! The host's end of the page bridge: who is connected, which command is
//! outstanding, which ones wait, and what a lost page means for each
//! (control protocol 6.3 to 6.6).

mod images;
mod transfers;

pub(crate) use images::Unsaved;

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::pin::pin;
use std::rc::Rc;

use futures_channel::oneshot;
use futures_util::future::{Either, select};
use pyproc_protocol::attachments::AttachmentContent;
use pyproc_protocol::bridge::{
    BridgeId, BridgeToken, Handshake, HandshakeError, HostMessage, PageEpoch, PageResult,
};
use pyproc_protocol::{Code, ControlError, FailureOutcome, Operation, RequestId, codes};
use serde_json::{Map, Value};

use crate::clock::{Clock, Millis};
use crate::executor::Spawner;
use crate::image::Errand;
use crate::output::{LedgerState, Link, Output, Outputs};
use crate::signal::Signal;
use crate::untold::Untold;

/// The first message of a page must arrive within this time.
const HANDSHAKE_MS: Millis = 10_000;

/// Cancels one request; the value is the reason.
pub(crate) type Cancel = Signal<String>;

/// What a command that succeeded gives.
#[derive(Debug, Default)]
pub(crate) struct Completed {
    /// Output of the operation.
    pub(crate) output: Map<String, Value>,
    /// What accompanies it.
    pub(crate) attachments: Vec<AttachmentContent>,
}

/// How a command ended.
type CommandResult = Result<Completed, ControlError>;

/// The machine page, as the host knows it. Clones are the same bridge.
#[derive(Clone)]
pub(crate) struct Bridge {
    inner: Rc<RefCell<Inner>>,
    outputs: Outputs,
    clock: Clock,
    spawner: Spawner,
    timeout_ms: Millis,
    /// Announced when the page became ready for the first time.
    ready: Signal<()>,
}

struct Inner {
    capability: BridgeToken,
    page: Page,
    /// Connections that have not shown the capability yet.
    strangers: BTreeMap<Link, Signal<()>>,
    queue: VecDeque<Command>,
    outstanding: Option<Outstanding>,
    next_id: u64,
    untold: Untold,
}

enum Page {
    Starting,
    Ready { link: Link, epoch: PageEpoch },
    Lost(Loss),
}

/// Why no page will come any more.
#[derive(Clone)]
enum Loss {
    Boot {
        message: String,
        details: Map<String, Value>,
    },
    Gone,
}

struct Command {
    ticket: u64,
    /// The client's request; `None` for a command of the host itself.
    request_id: Option<RequestId>,
    operation: Operation,
    input: Map<String, Value>,
    errand: Errand,
    done: oneshot::Sender<CommandResult>,
}

/// The one command the page works on. `done` is gone when its request has its
/// terminal already; the page stays busy until it answers.
struct Outstanding {
    ticket: u64,
    id: BridgeId,
    epoch: PageEpoch,
    link: Link,
    errand: Errand,
    stage: Stage,
    done: Option<oneshot::Sender<CommandResult>>,
}

/// How far the outstanding command is.
enum Stage {
    /// The shell opens an image for it; the page knows nothing of it yet.
    Opening {
        request_id: Option<RequestId>,
        operation: Operation,
    },
    /// The page works on it.
    Working,
    /// The page has answered and sends the bytes that belong to its answer.
    Receiving(Map<String, Value>),
}

/// A place in the queue.
pub(crate) struct Ticket {
    number: u64,
    done: oneshot::Receiver<CommandResult>,
}

impl Bridge {
    /// A bridge without a page; `boot_timeout_ms` from now it is lost.
    pub(crate) fn new(
        outputs: Outputs,
        clock: Clock,
        spawner: Spawner,
        capability: BridgeToken,
        timeout_ms: Millis,
        boot_timeout_ms: Millis,
    ) -> Self {
        let bridge = Self {
            inner: Rc::new(RefCell::new(Inner {
                capability,
                page: Page::Starting,
                strangers: BTreeMap::new(),
                queue: VecDeque::new(),
                outstanding: None,
                next_id: 1,
                untold: Untold::default(),
            })),
            outputs,
            clock,
            spawner,
            timeout_ms,
            ready: Signal::default(),
        };
        let (guard, boot) = (bridge.clone(), bridge.clock.sleep(boot_timeout_ms));
        bridge.spawner.spawn(async move {
            if let Either::Right(_) = select(pin!(guard.ready.wait()), boot).await {
                let reason = "the machine page was not ready in time";
                guard.failed(codes::MACHINE_BOOT_FAILED, reason);
            }
        });
        bridge
    }

    /// Puts a command at the end of the queue.
    pub(crate) fn enqueue(
        &self,
        request_id: Option<RequestId>,
        operation: Operation,
        input: Map<String, Value>,
        errand: Errand,
    ) -> Ticket {
        let mut inner = self.inner.borrow_mut();
        let (sender, done) = oneshot::channel();
        let number = inner.next_id;
        inner.next_id += 1;
        if let Page::Lost(loss) = &inner.page {
            // The receiver is in the ticket below.
            let _ = sender.send(Err(loss.undelivered()));
            return Ticket { number, done };
        }
        inner.queue.push_back(Command {
            ticket: number,
            request_id,
            operation,
            input,
            errand,
            done: sender,
        });
        drop(inner);
        self.deliver();
        Ticket { number, done }
    }

    /// The outcome of a command: what the page says, or what its cancel, its
    /// deadline or the loss of the page makes of it.
    pub(crate) async fn outcome(&self, ticket: Ticket, cancel: &Cancel) -> CommandResult {
        let Ticket { number, done } = ticket;
        let left = {
            let deadline = async {
                let queued = self.clock.now();
                self.ready.wait().await;
                let start = queued.max(self.clock.now());
                self.clock.sleep_until(start + self.timeout_ms).await;
                Left::Expired
            };
            let cancelled = async { Left::Cancelled(cancel.wait().await) };
            match select(done, select(pin!(cancelled), pin!(deadline))).await {
                Either::Left((result, _)) => {
                    let lost = || {
                        Err(ControlError::not_sent(
                            codes::CONTROL_HOST_CLOSED,
                            "the host is closing",
                        ))
                    };
                    return result.unwrap_or_else(|_| lost());
                }
                Either::Right((left, _)) => left.factor_first().0,
            }
        };
        Err(self.leave(number, left))
    }

    /// A request gets its terminal before the page answered: a queued command
    /// is removed and never runs, a delivered one is interrupted.
    fn leave(&self, ticket: u64, left: Left) -> ControlError {
        let mut inner = self.inner.borrow_mut();
        inner.queue.retain(|command| command.ticket != ticket);
        let mut delivered = false;
        if let Some(outstanding) = &mut inner.outstanding
            && outstanding.ticket == ticket
            && !matches!(outstanding.stage, Stage::Opening { .. })
        {
            delivered = true;
            outstanding.done = None;
            let interrupt = HostMessage::Interrupt {
                request_id: outstanding.id.clone(),
                page_epoch: outstanding.epoch.clone(),
                grace_ms: None,
            };
            if let Page::Ready { link, .. } = inner.page {
                self.send(link, &interrupt);
            }
        }
        // The page has not heard of it: the image that the shell opens is for
        // nobody, and the next command can go.
        let unheard = (inner.outstanding)
            .take_if(|outstanding| !delivered && outstanding.ticket == ticket)
            .is_some();
        drop(inner);
        if unheard {
            self.deliver();
        }
        let outcome = match delivered {
            true => FailureOutcome::OutcomeUnknown,
            false => FailureOutcome::NotSent,
        };
        match left {
            Left::Cancelled(reason) => ControlError::new(codes::CONTROL_CANCELLED, outcome, reason),
            Left::Expired => {
                let message = format!("the deadline of {} ms has passed", self.timeout_ms);
                let error = ControlError::new(codes::CONTROL_TIMEOUT, outcome, message);
                error.with_retryable(!delivered)
            }
        }
    }

    /// A connection was accepted: it has a while to show its capability.
    pub(crate) fn opened(&self, link: Link) {
        let known = Signal::default();
        let mut inner = self.inner.borrow_mut();
        inner.strangers.insert(link, known.clone());
        let bridge = self.clone();
        let patience = self.clock.sleep(HANDSHAKE_MS);
        self.spawner.spawn(async move {
            select(pin!(known.wait()), patience).await;
            let late = bridge.inner.borrow_mut().strangers.remove(&link);
            if late.is_some() {
                bridge.close(link, 4400, &codes::CONTROL_BRIDGE_HANDSHAKE);
            }
        });
    }

    /// A connection sent a text message.
    pub(crate) fn message(&self, link: Link, text: &str) {
        let mut inner = self.inner.borrow_mut();
        if let Some(known) = inner.strangers.remove(&link) {
            let shown = Handshake::decode(text.as_bytes(), &inner.capability);
            drop(inner);
            known.announce(());
            self.introduced(link, shown);
            return;
        }
        match inner.page {
            Page::Ready { link: ready, .. } if ready == link => {}
            // A link that was told to close may still be talking.
            _ => return,
        }
        drop(inner);
        match PageResult::decode(text.as_bytes()) {
            Ok(result) => self.result(result),
            Err(_) => {
                self.close(link, 4400, &codes::CONTROL_BRIDGE_CLOSED);
                self.closed(link);
            }
        }
    }

    fn introduced(&self, link: Link, shown: Result<Handshake, HandshakeError>) {
        let handshake = match shown {
            Ok(handshake) => handshake,
            Err(error) => return self.close(link, error.close_code(), &error.reason()),
        };
        let mut inner = self.inner.borrow_mut();
        match (handshake, &inner.page) {
            (_, Page::Lost(_)) => {
                drop(inner);
                self.close(link, 4409, &codes::CONTROL_PAGE_STALE);
            }
            (Handshake::BootFailed { message, details }, _) => {
                drop(inner);
                self.close(link, 1000, &codes::PYPROC_BOOT_FAILED);
                let details = details.unwrap_or_default();
                self.lose(Loss::Boot { message, details });
            }
            (Handshake::Ready { page_epoch }, Page::Ready { epoch, .. })
                if page_epoch == *epoch =>
            {
                drop(inner);
                self.close(link, 4409, &codes::CONTROL_POLL_CONFLICT);
            }
            (Handshake::Ready { page_epoch }, page) => {
                let replaced = match page {
                    Page::Ready { link, .. } => Some(*link),
                    _ => None,
                };
                inner.page = Page::Ready {
                    link,
                    epoch: page_epoch,
                };
                let abandoned = inner.outstanding.take();
                // The new page has another machine.
                inner.untold = Untold::default();
                drop(inner);
                if let Some(replaced) = replaced {
                    self.close(replaced, 4409, &codes::CONTROL_PAGE_REPLACED);
                }
                end_outstanding(abandoned);
                self.ready.announce(());
                self.deliver();
            }
        }
    }

    /// A connection sent something that is no text message of an acceptable
    /// length: it is told so and has ended for the bridge.
    pub(crate) fn broken(&self, link: Link) {
        let stranger = self.inner.borrow().strangers.contains_key(&link);
        let reason = match stranger {
            true => codes::CONTROL_BRIDGE_HANDSHAKE,
            false => codes::CONTROL_BRIDGE_CLOSED,
        };
        self.close(link, 4400, &reason);
        self.closed(link);
    }

    /// A connection has ended.
    pub(crate) fn closed(&self, link: Link) {
        let mut inner = self.inner.borrow_mut();
        if let Some(stranger) = inner.strangers.remove(&link) {
            stranger.announce(());
        }
        if matches!(inner.page, Page::Ready { link: ready, .. } if ready == link) {
            drop(inner);
            self.lose(Loss::Gone);
        }
    }

    /// The page cannot come up, or its browser is gone. A failed start tells
    /// its cause.
    pub(crate) fn failed(&self, cause: Code, reason: &str) {
        let loss = match self.inner.borrow().page {
            Page::Starting => Loss::Boot {
                message: reason.to_owned(),
                details: Map::from_iter([("cause".to_owned(), cause.as_str().into())]),
            },
            Page::Ready { .. } => Loss::Gone,
            Page::Lost(_) => return,
        };
        self.lose(loss);
    }

    /// No page will come any more: everything ends now and not at its
    /// deadline (control protocol 6.6).
    fn lose(&self, loss: Loss) {
        let mut inner = self.inner.borrow_mut();
        if matches!(inner.page, Page::Lost(_)) {
            return;
        }
        inner.page = Page::Lost(loss.clone());
        let queue = std::mem::take(&mut inner.queue);
        let abandoned = inner.outstanding.take();
        drop(inner);
        end_outstanding(abandoned);
        for command in queue {
            // Its request may have its terminal already.
            let _ = command.done.send(Err(loss.undelivered()));
        }
    }

    /// Sends the oldest command if the page is there and idle.
    fn deliver(&self) {
        let mut inner = self.inner.borrow_mut();
        let Page::Ready { link, epoch } = &inner.page else {
            return;
        };
        if inner.outstanding.is_some() {
            return;
        }
        let (link, epoch) = (*link, epoch.clone());
        let Some(command) = inner.queue.pop_front() else {
            return;
        };
        let id = match BridgeId::parse(&format!("command:{}", command.ticket)) {
            Ok(id) => id,
            // The alphabet holds digits and the prefix.
            Err(_) => return,
        };
        let Command {
            ticket,
            request_id,
            operation,
            input,
            errand,
            done,
        } = command;
        let open = match &errand {
            Errand::Import { path, trusted } => Some(Output::ImageOpen {
                ticket,
                path: path.clone(),
                trusted: *trusted,
            }),
            _ => None,
        };
        inner.outstanding = Some(Outstanding {
            ticket,
            id: id.clone(),
            epoch: epoch.clone(),
            link,
            errand,
            stage: match open {
                Some(_) => Stage::Opening {
                    request_id: request_id.clone(),
                    operation,
                },
                None => Stage::Working,
            },
            done: Some(done),
        });
        drop(inner);
        match open {
            Some(open) => self.outputs.push(open),
            None => self.send_command(link, request_id, id, epoch, operation, input),
        }
    }

    fn send_command(
        &self,
        link: Link,
        request: Option<RequestId>,
        request_id: BridgeId,
        page_epoch: PageEpoch,
        operation: Operation,
        input: Map<String, Value>,
    ) {
        if let Some(request) = request {
            self.outputs
                .push(Output::Ledger(request.to_string(), LedgerState::Delivered));
        }
        let message = HostMessage::Command {
            request_id,
            page_epoch,
            operation: operation.into(),
            input,
        };
        self.send(link, &message);
    }

    /// The page answered. Only the answer to the outstanding command of the
    /// present page counts.
    fn result(&self, result: PageResult) {
        let mut inner = self.inner.borrow_mut();
        let counts = inner.outstanding.as_ref().is_some_and(|outstanding| {
            outstanding.id == result.request_id && outstanding.epoch == result.page_epoch
        });
        if !counts {
            return;
        }
        let Some(outstanding) = inner.outstanding.take() else {
            return;
        };
        let result = match result.result {
            Ok(output) => match outstanding.errand.announced(&output) {
                Some(0) => Ok(Completed {
                    output,
                    attachments: Vec::new(),
                }),
                announced => {
                    drop(inner);
                    return self.expect(outstanding, output, announced);
                }
            },
            Err(error) => Err(error),
        };
        inner.conclude(outstanding.done, result);
        drop(inner);
        self.deliver();
    }

    fn send(&self, link: Link, message: &HostMessage) {
        // A frame of the agent is smaller than a bridge message may be.
        if let Ok(text) = message.encode() {
            self.outputs.push(Output::PageMessage(link, text));
        }
    }

    fn close(&self, link: Link, code: u16, reason: &Code) {
        let reason = reason.to_string();
        self.outputs.push(Output::PageClose { link, code, reason });
    }
}

enum Left {
    Cancelled(String),
    Expired,
}

impl Inner {
    /// Ends a command. What its client must still learn about the machine, and
    /// does not when it left early, goes with the next answer.
    fn conclude(&mut self, done: Option<oneshot::Sender<CommandResult>>, result: CommandResult) {
        let Some(done) = done else {
            let answer = result.as_ref().map(|completed| &completed.output);
            return self.untold.keep(answer);
        };
        let result = match result {
            Ok(mut completed) => {
                self.untold.tell(&mut completed.output);
                Ok(completed)
            }
            Err(error) => Err(self.untold.tell_failure(error)),
        };
        // Its request may have got its terminal in this very step.
        let _ = done.send(result);
    }
}

impl Loss {
    /// The end of a command that never reached a page.
    fn undelivered(&self) -> ControlError {
        match self {
            Self::Boot { message, details } => {
                let error = ControlError::not_sent(codes::PYPROC_BOOT_FAILED, message);
                error.with_details(details.clone())
            }
            Self::Gone => ControlError::not_sent(
                codes::CONTROL_BRIDGE_CLOSED,
                "the machine page is gone; end this process and start a new one",
            ),
        }
    }
}

/// The page that worked on a command is gone.
fn end_outstanding(outstanding: Option<Outstanding>) {
    if let Some(Outstanding {
        done: Some(done),
        stage,
        ..
    }) = outstanding
    {
        if let Stage::Opening { .. } = stage {
            // The page had not heard of it.
            let _ = done.send(Err(Loss::Gone.undelivered()));
            return;
        }
        let message = "the machine page was lost while it worked on this request";
        let error = ControlError::outcome_unknown(codes::CONTROL_PAGE_REPLACED, message);
        // Its request may have its terminal already.
        let _ = done.send(Err(error));
    }
}
