//! The client side of one connection (control protocol 4).
//!
//! Deadlines are the caller's: after one, cancel the request and keep handing
//! in lines, or give the connection up with
//! [`ClientConversation::connection_lost`].

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::codes;
use crate::error::{ControlError, FatalError};
use crate::frame::{
    Cancel, Capabilities, Descriptor, ErrorFrame, Event, Frame, Hello, Peer, Request, Role,
};
use crate::json::{self, EncodeError};
use crate::limits;
use crate::outcome::SuccessOutcome;
use crate::text;
use crate::types::{EventId, OperationName, RequestId};

mod streams;
#[cfg(test)]
mod tests;

pub use streams::ReceivedAttachment;
use streams::Streams;

/// How a client introduces itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientConfig {
    /// Id of the hello; a separate namespace from request ids.
    pub hello_id: RequestId,
    /// Who connects.
    pub peer: Peer,
    /// What the client takes; its chunk limit is enforced on the server.
    pub capabilities: Capabilities,
    /// Most attachment bytes held for all pending requests together.
    pub max_buffered: u64,
}

impl ClientConfig {
    /// Default of [`Self::max_buffered`]: eight attachments of the largest size.
    pub const DEFAULT_MAX_BUFFERED: u64 = 8 * limits::MAX_ATTACHMENT;

    /// The usual client called `peer`.
    #[must_use]
    pub fn new(hello_id: RequestId, peer: Peer) -> Self {
        Self {
            hello_id,
            peer,
            capabilities: Capabilities::PRODUCT,
            max_buffered: Self::DEFAULT_MAX_BUFFERED,
        }
    }
}

/// What a line of the server means.
#[derive(Clone, Debug, PartialEq)]
pub enum ClientEvent {
    /// The server answered the hello; requests may be sent.
    Opened {
        /// Who serves.
        peer: Peer,
        /// What the server does.
        capabilities: Capabilities,
        /// What it serves.
        operations: Vec<OperationName>,
    },
    /// A request ended.
    Finished {
        /// The request.
        request_id: RequestId,
        /// Outcome and output, or the failure.
        result: Result<(SuccessOutcome, Value), ControlError>,
        /// Verified attachments in the order of the terminal's descriptors.
        attachments: Vec<ReceivedAttachment>,
    },
    /// Something happened. Only from servers that announced events.
    Event(Event),
}

/// Why a connection ended.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Cause {
    /// The server ended it with a fatal error.
    #[error("the server failed: {0}")]
    Fatal(ControlError),
    /// The server broke a rule; the code says which.
    #[error("the server broke the protocol: {0}")]
    Violation(FatalError),
    /// End of file, a read error or a write error.
    #[error("the connection ended: {0}")]
    Lost(String),
}

/// The end of a connection. Every pending request failed with it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{cause}")]
pub struct ConnectionFailure {
    /// Why.
    pub cause: Cause,
    /// The requests that were pending, in the order of their ids.
    pub pending: Vec<RequestId>,
}

impl ConnectionFailure {
    /// The error of every pending request: `CONTROL_CONNECTION_LOST`,
    /// `outcomeUnknown`, not retryable.
    #[must_use]
    pub fn request_error(&self) -> ControlError {
        ControlError::outcome_unknown(codes::CONTROL_CONNECTION_LOST, self.cause.to_string())
    }
}

/// What became of a request id.
#[derive(Debug)]
enum Use {
    /// Its frame could not be encoded; it was never sent.
    Burnt,
    /// It was sent and has no terminal yet.
    Pending(Streams),
    /// It has its terminal.
    Finished,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    AwaitHello,
    Open { events: bool },
    Dead,
}

/// The client side of one connection.
///
/// All request ids and event ids are kept for its life, because the contract
/// forbids the reuse of any of them.
#[derive(Debug)]
pub struct ClientConversation {
    config: ClientConfig,
    phase: Phase,
    used: BTreeMap<RequestId, Use>,
    events: BTreeSet<EventId>,
    buffered: u64,
}

impl ClientConversation {
    /// Starts a connection. The line is the client hello, to be written first.
    ///
    /// # Errors
    /// [`EncodeError`] never happens for a peer made by [`Peer::new`].
    pub fn new(config: ClientConfig) -> Result<(Self, String), EncodeError> {
        let hello = Frame::Hello(Hello {
            request_id: config.hello_id.clone(),
            role: Role::Client,
            peer: config.peer.clone(),
            capabilities: config.capabilities,
        });
        let line = hello.encode()?;
        let conversation = Self {
            config,
            phase: Phase::AwaitHello,
            used: BTreeMap::new(),
            events: BTreeSet::new(),
            buffered: 0,
        };
        Ok((conversation, line))
    }

    /// The line of a new request. Its id is consumed, also when the frame
    /// cannot be encoded.
    ///
    /// # Errors
    /// Nothing was sent: `CONTROL_CONNECTION_LOST` when the connection is known
    /// to be dead, `CONTROL_HELLO_REQUIRED` before the server's hello,
    /// `CONTROL_REQUEST_DUPLICATE` when the id was used before,
    /// `CONTROL_INVALID_FRAME` when the input is nested deeper than 64,
    /// `CONTROL_FRAME_TOO_LARGE` when the line is too long.
    pub fn request(&mut self, request: Request) -> Result<String, ControlError> {
        match self.phase {
            Phase::Dead => return Err(known_dead()),
            Phase::AwaitHello => {
                return Err(ControlError::not_sent(
                    codes::CONTROL_HELLO_REQUIRED,
                    "the server has not said hello yet",
                ));
            }
            Phase::Open { .. } => {}
        }
        let request_id = request.request_id.clone();
        if self.used.contains_key(&request_id) {
            return Err(ControlError::not_sent(
                codes::CONTROL_REQUEST_DUPLICATE,
                format!("the request id {request_id} was used before"),
            ));
        }
        let line = if json::members_within(&request.input, limits::MAX_JSON_DEPTH) {
            Frame::Request(request)
                .encode()
                .map_err(|error| unencodable(&error))
        } else {
            Err(ControlError::not_sent(
                codes::CONTROL_INVALID_FRAME,
                format!("input is nested deeper than {}", limits::MAX_JSON_DEPTH),
            ))
        };
        let state = if line.is_ok() {
            Use::Pending(Streams::default())
        } else {
            Use::Burnt
        };
        self.used.insert(request_id, state);
        line
    }

    /// The line of a cancel, or `None` when the request is not pending. The
    /// request stays pending until its terminal.
    ///
    /// # Errors
    /// `CONTROL_INVALID_FRAME`, nothing was sent: the reason has more than 200
    /// UTF-16 code units.
    pub fn cancel(
        &mut self,
        request_id: &RequestId,
        reason: Option<&str>,
    ) -> Result<Option<String>, ControlError> {
        if !self.is_pending(request_id) {
            return Ok(None);
        }
        if reason.is_some_and(|reason| text::utf16_len(reason) > limits::MAX_CANCEL_REASON) {
            return Err(ControlError::not_sent(
                codes::CONTROL_INVALID_FRAME,
                format!(
                    "reason is longer than {} characters",
                    limits::MAX_CANCEL_REASON
                ),
            ));
        }
        let cancel = Cancel {
            request_id: request_id.clone(),
            reason: reason.map(ToOwned::to_owned),
        };
        Frame::Cancel(cancel)
            .encode()
            .map(Some)
            .map_err(|error| unencodable(&error))
    }

    /// Takes one line of the server, without its terminator. `None` when it
    /// completes nothing, and for any line after the connection ended.
    ///
    /// # Errors
    /// [`ConnectionFailure`] when the line ends the connection.
    pub fn handle_line(&mut self, line: &[u8]) -> Result<Option<ClientEvent>, ConnectionFailure> {
        let result = match self.phase {
            Phase::Dead => return Ok(None),
            Phase::AwaitHello => decode(line)
                .and_then(|frame| self.handle_first(frame))
                .map(Some),
            Phase::Open { events } => {
                decode(line).and_then(|frame| self.handle_frame(frame, events))
            }
        };
        result.map_err(|cause| self.end(cause))
    }

    /// Ends the connection after end of file, a read error or a failed write.
    /// Without a live connection the failure has no pending requests.
    pub fn connection_lost(&mut self, reason: &str) -> ConnectionFailure {
        self.end(Cause::Lost(reason.to_owned()))
    }

    /// Ends the connection because of a fault that was found outside of its
    /// frames, for example a line over the limit.
    pub fn violated(&mut self, error: FatalError) -> ConnectionFailure {
        self.end(Cause::Violation(error))
    }

    /// Whether the server answered the hello and the connection lives.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open { .. })
    }

    /// Whether the request was sent and has no terminal yet.
    #[must_use]
    pub fn is_pending(&self, request_id: &RequestId) -> bool {
        matches!(self.used.get(request_id), Some(Use::Pending(_)))
    }

    fn end(&mut self, cause: Cause) -> ConnectionFailure {
        self.phase = Phase::Dead;
        self.buffered = 0;
        let mut pending = Vec::new();
        for (request_id, state) in &mut self.used {
            if let Use::Pending(_) = state {
                *state = Use::Finished;
                pending.push(request_id.clone());
            }
        }
        ConnectionFailure { cause, pending }
    }

    fn handle_first(&mut self, frame: Frame) -> Result<ClientEvent, Cause> {
        match frame {
            Frame::Hello(Hello {
                request_id,
                role: Role::Server { operations },
                peer,
                capabilities,
            }) if request_id == self.config.hello_id => {
                self.phase = Phase::Open {
                    events: capabilities.events,
                };
                Ok(ClientEvent::Opened {
                    peer,
                    capabilities,
                    operations,
                })
            }
            Frame::Error(ErrorFrame::Fatal(error)) => Err(Cause::Fatal(error)),
            _ => Err(violation(
                codes::CONTROL_HELLO_REQUIRED,
                "the first frame must be the server hello for this client",
            )),
        }
    }

    fn handle_frame(&mut self, frame: Frame, events: bool) -> Result<Option<ClientEvent>, Cause> {
        match frame {
            Frame::Attachment(chunk) => {
                let max_chunk = self.config.capabilities.max_chunk;
                if self.buffered + chunk.data.len() as u64 > self.config.max_buffered {
                    return Err(violation(
                        codes::CONTROL_ATTACHMENT_INVALID,
                        "attachments exceed what this client holds",
                    ));
                }
                self.buffered += chunk.data.len() as u64;
                let streams = pending(&mut self.used, &chunk.request_id)?;
                streams
                    .receive(chunk, max_chunk)
                    .map_err(invalid_attachment)?;
                Ok(None)
            }
            Frame::Response(response) => {
                let attachments = self.finish(&response.request_id, &response.attachments)?;
                Ok(Some(ClientEvent::Finished {
                    request_id: response.request_id,
                    result: Ok((response.outcome, response.output)),
                    attachments,
                }))
            }
            Frame::Error(ErrorFrame::Request {
                request_id,
                error,
                attachments,
            }) => {
                let attachments = self.finish(&request_id, &attachments)?;
                Ok(Some(ClientEvent::Finished {
                    request_id,
                    result: Err(error),
                    attachments,
                }))
            }
            Frame::Error(ErrorFrame::Fatal(error)) => Err(Cause::Fatal(error)),
            Frame::Event(event) if events => {
                if let Some(request_id) = &event.request_id {
                    pending(&mut self.used, request_id)?;
                }
                if !self.events.insert(event.event_id.clone()) {
                    return Err(violation(
                        codes::CONTROL_EVENT_DUPLICATE,
                        format!("the event {} came twice", event.event_id),
                    ));
                }
                Ok(Some(ClientEvent::Event(event)))
            }
            frame => Err(violation(
                codes::CONTROL_FRAME_DIRECTION,
                format!("the server may not send {} now", frame.kind()),
            )),
        }
    }

    /// Ends a pending request whose streams match `descriptors`.
    fn finish(
        &mut self,
        request_id: &RequestId,
        descriptors: &[Descriptor],
    ) -> Result<Vec<ReceivedAttachment>, Cause> {
        if let Some(Use::Finished) = self.used.get(request_id) {
            return Err(violation(
                codes::CONTROL_TERMINAL_DUPLICATE,
                format!("the request {request_id} ended twice"),
            ));
        }
        let streams = std::mem::take(pending(&mut self.used, request_id)?);
        self.buffered = self.buffered.saturating_sub(streams.buffered());
        let attachments = streams.finish(descriptors).map_err(invalid_attachment)?;
        self.used.insert(request_id.clone(), Use::Finished);
        Ok(attachments)
    }
}

fn decode(line: &[u8]) -> Result<Frame, Cause> {
    Frame::decode(line).map_err(Cause::Violation)
}

fn pending<'a>(
    used: &'a mut BTreeMap<RequestId, Use>,
    request_id: &RequestId,
) -> Result<&'a mut Streams, Cause> {
    match used.get_mut(request_id) {
        Some(Use::Pending(streams)) => Ok(streams),
        _ => Err(violation(
            codes::CONTROL_REQUEST_UNKNOWN,
            format!("the request {request_id} is not active"),
        )),
    }
}

fn violation(code: crate::types::Code, message: impl AsRef<str>) -> Cause {
    Cause::Violation(FatalError::new(code, message))
}

fn invalid_attachment(problem: streams::StreamError) -> Cause {
    violation(codes::CONTROL_ATTACHMENT_INVALID, problem.to_string())
}

fn known_dead() -> ControlError {
    ControlError::not_sent(codes::CONTROL_CONNECTION_LOST, "the connection has ended")
}

fn unencodable(error: &EncodeError) -> ControlError {
    let code = match error {
        EncodeError::TooLarge { .. } => codes::CONTROL_FRAME_TOO_LARGE,
        EncodeError::NotJson => codes::CONTROL_INVALID_FRAME,
    };
    ControlError::not_sent(code, error.to_string())
}
