//! The server side of one connection (control protocol 3.9, 3.10).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::attachments::AttachmentContent;
use crate::catalog::{self, Operation};
use crate::codes;
use crate::error::{ControlError, FatalError};
use crate::frame::{Cancel, Capabilities, ChunkLimit, Frame, Hello, Peer, Request, Role};
use crate::outcome::SuccessOutcome;
use crate::terminal::{Completion, Failure, TerminalLines};
use crate::text::quote;
use crate::types::{RequestId, SpaceId};

#[cfg(test)]
mod tests;

/// What a line of the client asks of the host.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerEvent {
    /// The client introduced itself; `line` answers it.
    Hello {
        /// Who connected.
        peer: Peer,
        /// The server hello, to be written now.
        line: String,
    },
    /// Execute this and end it with [`ServerConversation::respond`] or
    /// [`ServerConversation::fail`].
    Request(AcceptedRequest),
    /// A request was refused; it is over once `line` is written.
    Refused {
        /// The request.
        request_id: RequestId,
        /// Why.
        error: ControlError,
        /// Its terminal, to be written now.
        line: String,
    },
    /// Stop executing this request, which is still active. Sent at most once
    /// per request, so that the first reason wins; the request still needs its
    /// terminal.
    Cancel {
        /// The request.
        request_id: RequestId,
        /// Why; never empty.
        reason: String,
    },
}

/// A request whose id is new, whose operation is served and whose fence fits.
#[derive(Clone, Debug, PartialEq)]
pub struct AcceptedRequest {
    /// The id, consumed by this request.
    pub request_id: RequestId,
    /// The operation.
    pub operation: Operation,
    /// Its input, at most 64 deep.
    pub input: Map<String, Value>,
}

/// A terminal for a request that has none coming: it ended already, or never
/// began. The result is to be dropped (control protocol 3.9.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the request is not active")]
pub struct NotActive;

/// State of a connection (control protocol 3.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nothing but a client hello is welcome.
    AwaitHello,
    /// Requests and cancels are welcome.
    Open,
    /// Nothing is read any more; active requests still get their terminals.
    Closing,
    /// A fatal error was the last frame. Nothing may be written any more.
    Failed,
}

/// The server side of one connection.
///
/// The ids of all requests of the connection are kept for its life, because
/// the contract makes the reuse of any of them fatal; their number is bounded
/// only by what the client sends.
#[derive(Debug)]
pub struct ServerConversation {
    phase: Phase,
    operations: Vec<Operation>,
    automation_space: Option<SpaceId>,
    max_chunk: ChunkLimit,
    used: BTreeSet<RequestId>,
    /// Active requests, and whether their cancel was passed on.
    active: BTreeMap<RequestId, bool>,
}

impl ServerConversation {
    /// A connection that serves `operations` (announced in catalog order) and
    /// whose automation provider, if any, has the space `automation_space`.
    #[must_use]
    pub fn new(
        operations: impl IntoIterator<Item = Operation>,
        automation_space: Option<SpaceId>,
    ) -> Self {
        let operations: BTreeSet<Operation> = operations.into_iter().collect();
        Self {
            phase: Phase::AwaitHello,
            operations: operations.into_iter().collect(),
            automation_space,
            max_chunk: ChunkLimit::MAX,
            used: BTreeSet::new(),
            active: BTreeMap::new(),
        }
    }

    /// Takes one line of the client, without its terminator. `None` when it
    /// asks nothing: a cancel for a request that is not active, or any line
    /// after [`Self::close`] or a fatal error.
    ///
    /// # Errors
    /// [`FatalError`] when the connection is over: write
    /// [`FatalError::to_line`] as its last line. Requests that were active get
    /// no terminal.
    pub fn handle_line(&mut self, line: &[u8]) -> Result<Option<ServerEvent>, FatalError> {
        if matches!(self.phase, Phase::Closing | Phase::Failed) {
            return Ok(None);
        }
        let event = Frame::decode(line).and_then(|frame| match self.phase {
            Phase::AwaitHello => self.handle_first(frame).map(Some),
            _ => self.handle_frame(frame),
        });
        event.inspect_err(|_| self.abandon())
    }

    /// Ends the connection for a reason outside of its lines: a line over the
    /// limit, or any other failure. The line is the last one of the connection;
    /// `None` when the connection failed before.
    pub fn fail_connection(&mut self, error: &FatalError) -> Option<String> {
        if self.phase == Phase::Failed {
            return None;
        }
        self.abandon();
        Some(error.to_line())
    }

    /// Ends an active request with a success. Inline screenshots of `output`
    /// become attachments behind the given ones. A result that cannot be
    /// delivered ends the request with the failure of [`Completion::package`].
    ///
    /// # Errors
    /// [`NotActive`] when the request has its terminal already.
    pub fn respond(
        &mut self,
        request_id: &RequestId,
        outcome: SuccessOutcome,
        output: Value,
        attachments: Vec<AttachmentContent>,
    ) -> Result<TerminalLines, NotActive> {
        self.active.remove(request_id).ok_or(NotActive)?;
        Ok(
            match Completion::package(request_id, outcome, output, attachments) {
                Ok(completion) => completion.into_lines(self.max_chunk),
                Err(error) => Failure::package(request_id, error).into_lines(),
            },
        )
    }

    /// Ends an active request with a failure.
    ///
    /// # Errors
    /// [`NotActive`] when the request has its terminal already.
    pub fn fail(
        &mut self,
        request_id: &RequestId,
        error: ControlError,
    ) -> Result<TerminalLines, NotActive> {
        self.active.remove(request_id).ok_or(NotActive)?;
        Ok(Failure::package(request_id, error).into_lines())
    }

    /// Stops reading. Active requests stay active until they get their
    /// terminals. Closing twice, or after a fatal error, changes nothing.
    pub fn close(&mut self) {
        if self.phase != Phase::Failed {
            self.phase = Phase::Closing;
        }
    }

    /// State of the connection.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether the request has no terminal yet.
    #[must_use]
    pub fn is_active(&self, request_id: &RequestId) -> bool {
        self.active.contains_key(request_id)
    }

    /// The requests without a terminal, in the order of their ids.
    pub fn active(&self) -> impl Iterator<Item = &RequestId> {
        self.active.keys()
    }

    /// The served operations in the order of the hello.
    #[must_use]
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// The largest chunk that the client takes.
    #[must_use]
    pub fn max_chunk(&self) -> ChunkLimit {
        self.max_chunk
    }

    fn abandon(&mut self) {
        self.phase = Phase::Failed;
        self.active.clear();
    }

    fn handle_first(&mut self, frame: Frame) -> Result<ServerEvent, FatalError> {
        let Frame::Hello(Hello {
            request_id,
            role: Role::Client,
            peer,
            capabilities,
        }) = frame
        else {
            return Err(FatalError::new(
                codes::CONTROL_HELLO_REQUIRED,
                "the first frame must be a client hello",
            ));
        };
        let operations = self.operations.iter().copied().map(Into::into).collect();
        let reply = Frame::Hello(Hello {
            request_id,
            role: Role::Server { operations },
            peer: Peer::product(),
            capabilities: Capabilities::PRODUCT,
        });
        let line = reply
            .encode()
            .map_err(|error| FatalError::connection_failed(error.to_string()))?;
        self.max_chunk = capabilities.max_chunk;
        self.phase = Phase::Open;
        Ok(ServerEvent::Hello { peer, line })
    }

    fn handle_frame(&mut self, frame: Frame) -> Result<Option<ServerEvent>, FatalError> {
        match frame {
            Frame::Request(request) => self.handle_request(request).map(Some),
            Frame::Cancel(cancel) => Ok(self.handle_cancel(cancel)),
            Frame::Hello(_) => Err(FatalError::new(
                codes::CONTROL_FRAME_DIRECTION,
                "there was a hello already",
            )),
            frame @ (Frame::Response(_)
            | Frame::Error(_)
            | Frame::Attachment(_)
            | Frame::Event(_)) => Err(FatalError::new(
                codes::CONTROL_FRAME_DIRECTION,
                format!("{} is a server frame", frame.kind()),
            )),
        }
    }

    fn handle_request(&mut self, request: Request) -> Result<ServerEvent, FatalError> {
        let Request {
            request_id,
            operation: name,
            input,
            space_id,
        } = request;
        if !self.used.insert(request_id.clone()) {
            return Err(FatalError::new(
                codes::CONTROL_REQUEST_DUPLICATE,
                format!("the request id {request_id} was used before"),
            ));
        }
        let served = Operation::from_name(name.as_str())
            .filter(|operation| self.operations.contains(operation))
            .ok_or_else(|| {
                ControlError::not_sent(
                    codes::CONTROL_OPERATION_UNKNOWN,
                    format!("there is no operation {}", quote(name.as_str())),
                )
            });
        let accepted = served.and_then(|operation| {
            catalog::check_fence(operation, space_id.as_ref(), self.automation_space.as_ref())
                .map(|()| operation)
        });
        Ok(match accepted {
            Ok(operation) => {
                self.active.insert(request_id.clone(), false);
                ServerEvent::Request(AcceptedRequest {
                    request_id,
                    operation,
                    input,
                })
            }
            Err(error) => {
                let failure = Failure::package(&request_id, error);
                let line = failure.line().to_owned();
                ServerEvent::Refused {
                    request_id,
                    error: failure.into_error(),
                    line,
                }
            }
        })
    }

    fn handle_cancel(&mut self, cancel: Cancel) -> Option<ServerEvent> {
        let cancelled = self.active.get_mut(&cancel.request_id)?;
        if std::mem::replace(cancelled, true) {
            return None;
        }
        let reason = cancel
            .reason
            .unwrap_or_else(|| Cancel::DEFAULT_REASON.to_owned());
        Some(ServerEvent::Cancel {
            request_id: cancel.request_id,
            reason,
        })
    }
}
