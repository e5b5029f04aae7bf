//! One run of the product: the agent's streams, the core, the loopback server
//! and the browser, tied together until the core says that all is settled.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, oneshot};

use crate::agent::{self, AgentInput, AgentWriter};
use crate::core::{Core, CoreError, Input, Output, PageClose, PageText, Settings};
use crate::diagnostics;
use crate::images::Images;
use crate::ledger::Ledger;
use crate::loopback::{LinkCommand, LinkEvent, Links, Secret, Staged};
use crate::page_host::{PageFailure, PageHost, PagePlan};

/// What is left to write after the end may take this long.
const FLUSH_LIMIT: Duration = Duration::from_secs(2);

/// Link events that the core has not taken yet.
const LINK_INBOX: usize = 16;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Exit code of the process (control protocol 2.4).
    pub code: u8,
}

/// A run could not begin.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The core.
    #[error(transparent)]
    Core(#[from] CoreError),
    /// The system has no randomness for the capability.
    #[error("the system gave no randomness: {0}")]
    Randomness(#[from] std::io::Error),
}

/// Settings of the core that do not depend on this run's secrets.
pub struct HostPlan {
    /// Operations of the server hello.
    pub operations: Vec<String>,
    /// Space of the automation operations.
    pub automation_space: Option<String>,
    /// Deadline of each machine command, milliseconds.
    pub timeout_ms: u64,
}

/// Serves one agent until its stream ends, `stop` resolves, or the protocol
/// ends the connection.
///
/// The hello is answered as soon as the core is loaded: the browser and the
/// engine start meanwhile.
///
/// # Errors
///
/// When the core cannot start. Later failures are answers of the protocol.
pub async fn serve(
    host: HostPlan,
    page: PagePlan,
    reader: impl AsyncRead + Unpin + Send + 'static,
    writer: impl AsyncWrite + Unpin + Send + 'static,
    stop: oneshot::Receiver<String>,
) -> Result<Ended, ServeError> {
    let capability = Secret::random()?;
    let core = Core::start(&Settings {
        capability: capability.reveal().to_owned(),
        operations: host.operations,
        automation_space: host.automation_space,
        timeout_ms: host.timeout_ms,
        // Never shorter than what a slow machine needs (control protocol 6.5).
        boot_timeout_ms: host.timeout_ms.max(180_000),
        save_on_exit: page.machine.image.save_on_exit.is_some(),
    })?;
    let staged = Arc::new(Staged::default());
    let (answers, answers_in) = mpsc::unbounded_channel();
    let (link_sender, links_in) = mpsc::channel(LINK_INBOX);
    let links = Links::new(link_sender);
    let run = Run {
        core,
        origin: Instant::now(),
        writer: AgentWriter::start(writer),
        links: links.clone(),
        ledger: Ledger::default(),
        images: Images::new(page.machine.image.clone(), staged.clone(), answers),
        saves: page.machine.image.save_on_exit.is_some(),
        deadline: None,
    };
    let (page_failed, failures) = mpsc::channel(1);
    let page = PageHost::start(page, links, staged, capability, page_failed);
    let ended = run
        .converse(agent::read(reader), links_in, answers_in, failures, stop)
        .await;
    page.close().await;
    Ok(ended)
}

struct Run {
    core: Core,
    origin: Instant,
    writer: AgentWriter,
    links: Links,
    ledger: Ledger,
    images: Images,
    /// The machine is stored at the end, also when nobody listens any more.
    saves: bool,
    deadline: Option<u64>,
}

impl Run {
    async fn converse(
        mut self,
        mut agent: mpsc::Receiver<AgentInput>,
        mut links: mpsc::Receiver<LinkEvent>,
        mut answers: mpsc::UnboundedReceiver<Input>,
        mut failures: mpsc::Receiver<PageFailure>,
        mut stop: oneshot::Receiver<String>,
    ) -> Ended {
        let mut stopped = false;
        let mut agent_open = true;
        let mut agent_lost = false;
        loop {
            // While the agent does not read, nothing is taken in that could
            // make more for it to read; deadlines and signals still count.
            let open = agent_lost || !self.writer.is_congested();
            let input = tokio::select! {
                biased;
                reason = &mut stop, if !stopped => {
                    stopped = true;
                    match reason {
                        Ok(reason) => Input::Stop(reason),
                        Err(_) => continue,
                    }
                }
                () = self.writer.changed() => {
                    if agent_lost || !self.writer.is_lost() {
                        continue;
                    }
                    let reason = "the agent's stream cannot be written any more";
                    diagnostics::line(reason);
                    if !self.saves {
                        return self.end(1).await;
                    }
                    agent_lost = true;
                    Input::Stop(reason.to_owned())
                }
                () = until(self.origin, self.deadline) => Input::Tick,
                Some(failure) = failures.recv() => match failure {
                    PageFailure::Page(reason) => Input::PageFailed(reason),
                    PageFailure::Load(reason) => Input::LoadFailed(reason),
                },
                Some(answer) = answers.recv() => answer,
                Some(event) = links.recv(), if open => match self.link_input(event) {
                    Some(input) => input,
                    None => continue,
                },
                input = agent.recv(), if open && agent_open => match input {
                    Some(AgentInput::Bytes(bytes)) => Input::AgentBytes(bytes),
                    Some(AgentInput::Eof) | None => {
                        agent_open = false;
                        Input::AgentEof
                    }
                },
            };
            if let Some(code) = self.step(&input) {
                // A stream that broke is an error, saved or not.
                let code = if agent_lost { 1 } else { code };
                return self.end(code).await;
            }
        }
    }

    /// One input through the core; the result is the exit code when the core
    /// has ended.
    fn step(&mut self, input: &Input) -> Option<u8> {
        let now = u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX);
        let step = match self.core.handle(now, input) {
            Ok(step) => step,
            Err(error) => {
                diagnostics::line(&error.to_string());
                for line in self.ledger.terminals() {
                    self.writer.write(line);
                }
                return Some(1);
            }
        };
        self.deadline = step.deadline;
        let mut exit = None;
        for output in step.outputs {
            match output {
                Output::AgentLine(line) => self.writer.write(line),
                Output::PageMessage(PageText { link, text }) => {
                    self.links.command(link, LinkCommand::Text(text));
                }
                Output::PageClose(PageClose { link, code, reason }) => {
                    self.links.command(link, LinkCommand::Close(code, reason));
                }
                Output::ImageOpen(source) => self.images.open(source),
                Output::Receive(transfer) => self.images.receive(transfer),
                Output::Ledger(entry) => self.ledger.note(entry),
                Output::Exit(code) => exit = Some(code),
            }
        }
        exit
    }

    fn link_input(&mut self, event: LinkEvent) -> Option<Input> {
        Some(match event {
            LinkEvent::Opened(link) => Input::PageOpened(link),
            LinkEvent::Text(link, text) => Input::PageMessage(PageText { link, text }),
            LinkEvent::Binary(link, bytes) => match self.images.bytes(link, &bytes) {
                true => return None,
                // Nobody asked this page for bytes.
                false => Input::PageBroken(link),
            },
            LinkEvent::Broken(link) => {
                self.images.closed(link);
                Input::PageBroken(link)
            }
            LinkEvent::Closed(link) => {
                self.images.closed(link);
                Input::PageClosed(link)
            }
        })
    }

    async fn end(self, code: u8) -> Ended {
        self.writer.finish(FLUSH_LIMIT).await;
        Ended { code }
    }
}

/// Resolves at a moment of the core's clock; never without one.
async fn until(origin: Instant, deadline: Option<u64>) {
    match deadline {
        Some(deadline) => {
            let at = origin + Duration::from_millis(deadline);
            tokio::time::sleep_until(at.into()).await;
        }
        None => std::future::pending().await,
    }
}
