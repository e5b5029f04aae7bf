//! Work for the shell, in the order in which it must be done.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// One connection of the machine page, numbered by the shell.
pub type Link = u32;

/// What the shell must remember of a request in case the core ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LedgerState {
    /// It was accepted and nothing of it was sent.
    Accepted,
    /// It was given to the page.
    Delivered,
    /// It has its terminal.
    Ended,
}

/// What the bytes are that a page sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// What Python displayed: to be handed over as it is.
    Display,
    /// A durable image: to be checked, sealed and handed over.
    Export,
    /// A durable image: to be checked, sealed and stored where the manifest
    /// says.
    Save,
}

/// What became of bytes that the shell was to receive: the bytes, none when
/// they were stored, or why there are none.
pub type Received = Result<Vec<u8>, String>;

/// One thing the shell must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Write this line to the agent; the line feed is included.
    AgentLine(String),
    /// Send a text message to the page.
    PageMessage(Link, String),
    /// Close a page connection.
    PageClose {
        /// The connection.
        link: Link,
        /// WebSocket close code.
        code: u16,
        /// Close reason.
        reason: String,
    },
    /// Open, check and stage a durable image for the page; the answer is
    /// [`Input::ImageOpened`](crate::Input::ImageOpened).
    ImageOpen {
        /// Names the answer.
        ticket: u64,
        /// Where it is, as the client wrote it.
        path: String,
        /// Take an image that another installation made.
        trusted: bool,
    },
    /// Receive bytes that a page connection sends as binary messages from now
    /// on; the answer is [`Input::Received`](crate::Input::Received).
    Receive {
        /// Names the answer.
        ticket: u64,
        /// The connection.
        link: Link,
        /// Exact length.
        byte_length: u64,
        /// What the bytes are for.
        purpose: Purpose,
    },
    /// Say something to people.
    Diagnostic(String),
    /// Keep the ledger of requests.
    Ledger(String, LedgerState),
    /// Everything is settled: clean up, write what is left, end with the code.
    Exit(u8),
}

/// The queue that all conversations of a host write to.
#[derive(Clone, Default)]
pub(crate) struct Outputs(Rc<RefCell<VecDeque<Output>>>);

impl Outputs {
    pub(crate) fn push(&self, output: Output) {
        self.0.borrow_mut().push_back(output);
    }

    pub(crate) fn agent_line(&self, mut line: String) {
        line.push('\n');
        self.push(Output::AgentLine(line));
    }

    pub(crate) fn poll(&self) -> Option<Output> {
        self.0.borrow_mut().pop_front()
    }
}
