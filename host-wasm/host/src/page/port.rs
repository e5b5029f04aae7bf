//! The seam between the page's core and the page's JavaScript: work that the
//! script must do, and what the workers said.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use futures_channel::{mpsc, oneshot};
use futures_util::StreamExt;

use super::message::{Incarnation, PageTable, Post, Printed, WorkerMessage};
use super::settings::PageSettings;

/// Messages of one worker that nobody has read; one more means that it does
/// not keep to the contract.
const MAX_BACKLOG: usize = 4;

/// Work for the page's script.
#[derive(Clone, Debug, PartialEq)]
pub enum PageOutput {
    /// Send a text message over the bridge.
    Send(String),
    /// Create a worker. Its base uses these free slots of the page store before never-used ones.
    Spawn(Incarnation, Vec<u32>),
    /// Post a command to a worker.
    Post(Incarnation, Post),
    /// Ask a worker's code to stop: signal 2, bump and notify the wake cell.
    Interrupt(Incarnation),
    /// End a worker and report what it had printed.
    Kill(Incarnation),
    /// Keep only these file contents.
    KeepContents(Vec<u64>),
    /// Make a durable image of a state and keep it until it is sent.
    MakeImage {
        /// Page table of the state.
        table: PageTable,
        /// Record of the state, JSON text.
        record: String,
        /// Most bytes of the image.
        limit: u64,
    },
    /// Send the image that was made last, as binary messages, and drop it.
    SendImage,
    /// Send what the last run displayed, as binary messages, and drop it.
    SendDisplays,
    /// Fetch a durable image, check it, and place it in the page store.
    PlaceImage {
        /// Where it is.
        address: String,
        /// Slots that nothing uses, to be filled first.
        free: Vec<u32>,
    },
}

/// A durable image whose pages are in the page store.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacedImage {
    /// Page table of its state.
    pub table: PageTable,
    /// Record of its state, JSON text.
    pub record: String,
    /// File contents that the record names.
    pub identities: Vec<u64>,
}

/// Why an image is not made or not taken: `MACHINE_*` code and text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageRefusal {
    /// Code of machine 20.
    pub code: String,
    /// What is wrong.
    pub message: String,
}

/// What became of an image.
#[derive(Clone, Debug, PartialEq)]
pub enum ImageAnswer {
    /// It was made and has this many bytes.
    Made(u64),
    /// It was placed.
    Placed(PlacedImage),
    /// Neither; nothing has changed.
    Refused(ImageRefusal),
}

/// One thing a worker said, with the bulk data beside it.
#[derive(Debug)]
pub(crate) enum WorkerEvent {
    Message {
        message: WorkerMessage,
        table: Option<PageTable>,
        record: Option<String>,
        printed: Printed,
    },
    Lost(String),
}

/// Shared by all conversations of the page.
#[derive(Clone)]
pub(crate) struct Port {
    inner: Rc<RefCell<Inner>>,
}

struct Inner {
    outputs: VecDeque<PageOutput>,
    workers: BTreeMap<Incarnation, mpsc::UnboundedSender<WorkerEvent>>,
    killed: BTreeMap<Incarnation, oneshot::Sender<Printed>>,
    image: Option<oneshot::Sender<ImageAnswer>>,
    next_incarnation: Incarnation,
    table_pages: usize,
    store_slots: u32,
}

impl Port {
    pub(crate) fn new(settings: &PageSettings) -> Self {
        Self {
            inner: Rc::new(RefCell::new(Inner {
                outputs: VecDeque::new(),
                workers: BTreeMap::new(),
                killed: BTreeMap::new(),
                image: None,
                next_incarnation: 1,
                table_pages: usize::try_from(settings.heap_limit_bytes / 4096)
                    .unwrap_or(usize::MAX),
                store_slots: u32::try_from(settings.store_limit_bytes / 4096).unwrap_or(u32::MAX),
            })),
        }
    }

    pub(crate) fn push(&self, output: PageOutput) {
        self.inner.borrow_mut().outputs.push_back(output);
    }

    pub(crate) fn poll(&self) -> Option<PageOutput> {
        self.inner.borrow_mut().outputs.pop_front()
    }

    /// Creates a worker whose base may use the `free` slots.
    pub(crate) fn spawn(&self, free: Vec<u32>) -> Worker {
        let (sender, events) = mpsc::unbounded();
        let mut inner = self.inner.borrow_mut();
        let number = inner.next_incarnation;
        inner.next_incarnation += 1;
        inner.workers.insert(number, sender);
        inner.outputs.push_back(PageOutput::Spawn(number, free));
        drop(inner);
        Worker {
            port: self.clone(),
            number,
            events,
        }
    }

    /// Passes on what a worker said. A worker has at most one command to
    /// answer, so a backlog means that it does not keep to the contract: it
    /// is reported as lost. Messages of dead incarnations are dropped.
    pub(crate) fn deliver(&self, number: Incarnation, event: WorkerEvent) {
        let mut inner = self.inner.borrow_mut();
        let event = match event {
            WorkerEvent::Message {
                table: Some(table), ..
            } if !inner.accepts(&table) => WorkerEvent::Lost("page table out of range".to_owned()),
            event => event,
        };
        let Some(sender) = inner.workers.get(&number) else {
            return;
        };
        let event = match sender.len() < MAX_BACKLOG {
            true => event,
            false => WorkerEvent::Lost("it said more than it was asked".to_owned()),
        };
        let lost = matches!(event, WorkerEvent::Lost(_));
        // A receiver that is gone means that the incarnation is being killed.
        let _ = sender.unbounded_send(event);
        if lost {
            inner.workers.remove(&number);
        }
    }

    /// Makes a durable image of a state; the result is its length in bytes.
    pub(crate) async fn make_image(
        &self,
        table: PageTable,
        record: String,
        limit: u64,
    ) -> Result<u64, ImageRefusal> {
        let work = PageOutput::MakeImage {
            table,
            record,
            limit,
        };
        match self.image(work).await? {
            ImageAnswer::Made(bytes) if bytes <= limit => Ok(bytes),
            ImageAnswer::Refused(refusal) => Err(refusal),
            _ => Err(ImageRefusal::unexpected()),
        }
    }

    /// Fetches a durable image and places it in the page store.
    /// It fills the `free` slots first.
    pub(crate) async fn place_image(
        &self,
        address: String,
        free: Vec<u32>,
    ) -> Result<PlacedImage, ImageRefusal> {
        match self.image(PageOutput::PlaceImage { address, free }).await? {
            ImageAnswer::Placed(image) if self.inner.borrow().accepts(&image.table) => Ok(image),
            ImageAnswer::Refused(refusal) => Err(refusal),
            _ => Err(ImageRefusal::unexpected()),
        }
    }

    /// The page does one thing with an image at a time, as the machine does.
    async fn image(&self, work: PageOutput) -> Result<ImageAnswer, ImageRefusal> {
        let (sender, answer) = oneshot::channel();
        self.inner.borrow_mut().image = Some(sender);
        self.push(work);
        answer.await.map_err(|_| ImageRefusal::unexpected())
    }

    /// What became of the image.
    pub(crate) fn image_answered(&self, answer: ImageAnswer) {
        if let Some(waiter) = self.inner.borrow_mut().image.take() {
            // The machine waits until it is told.
            let _ = waiter.send(answer);
        }
    }

    /// What a killed worker had printed.
    pub(crate) fn killed(&self, number: Incarnation, printed: Printed) {
        if let Some(waiter) = self.inner.borrow_mut().killed.remove(&number) {
            // Nobody waits when the command did not print.
            let _ = waiter.send(printed);
        }
    }
}

impl ImageRefusal {
    fn unexpected() -> Self {
        Self {
            code: "PYPROC_INTERNAL".to_owned(),
            message: "the page did something else with the image".to_owned(),
        }
    }
}

impl Inner {
    fn accepts(&self, table: &[u32]) -> bool {
        table.len() <= self.table_pages && table.iter().all(|slot| *slot < self.store_slots)
    }
}

/// The page's side of one worker incarnation.
pub(crate) struct Worker {
    port: Port,
    number: Incarnation,
    events: mpsc::UnboundedReceiver<WorkerEvent>,
}

impl Worker {
    pub(crate) fn number(&self) -> Incarnation {
        self.number
    }

    pub(crate) fn post(&self, post: Post) {
        self.port.push(PageOutput::Post(self.number, post));
    }

    pub(crate) fn interrupt(&self) {
        self.port.push(PageOutput::Interrupt(self.number));
    }

    /// The next thing the worker says.
    pub(crate) async fn event(&mut self) -> WorkerEvent {
        match self.events.next().await {
            Some(event) => event,
            None => WorkerEvent::Lost("the worker is gone".to_owned()),
        }
    }

    /// What the worker has said already, without waiting.
    pub(crate) fn try_event(&mut self) -> Option<WorkerEvent> {
        self.events.try_recv().ok()
    }

    /// Ends the worker; nothing it says is heard any more. Resolves with what
    /// it had printed, as soon as the page has read it.
    pub(crate) fn kill(self) -> impl Future<Output = Printed> {
        let (sender, printed) = oneshot::channel();
        let mut inner = self.port.inner.borrow_mut();
        inner.workers.remove(&self.number);
        inner.killed.insert(self.number, sender);
        inner.outputs.push_back(PageOutput::Kill(self.number));
        async move { printed.await.unwrap_or_default() }
    }
}
