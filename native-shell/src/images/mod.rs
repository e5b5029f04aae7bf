//! Durable images outside of the page: files, the seal of this installation,
//! and the way of an image between the page and a file or the core
//! (machine 18). What is in an image is the page's business.

mod incoming;
mod seal;
mod source;

use std::path::PathBuf;
use std::sync::Arc;

use pyproc_policy::ImageSettings;
use tokio::sync::mpsc;

use crate::core::{
    ImageOpened, ImageOpening, ImageSource, Input, Link, Purpose, Received, Transfer,
};
use crate::loopback::Staged;
use incoming::{Incoming, Overrun};

pub use seal::{ImageKey, SEAL_BYTES};
pub use source::{SourceError, read_trusted};

/// Largest image without its seal, bytes (machine 19).
pub const IMAGE_LIMIT: u64 = 1 << 30;

/// The images of one run.
pub struct Images {
    settings: ImageSettings,
    staged: Arc<Staged>,
    answers: mpsc::UnboundedSender<Input>,
    incoming: Option<Incoming>,
}

impl Images {
    /// Nothing under way. What the core asked for arrives at `answers`.
    pub fn new(
        settings: ImageSettings,
        staged: Arc<Staged>,
        answers: mpsc::UnboundedSender<Input>,
    ) -> Self {
        Self {
            settings,
            staged,
            answers,
            incoming: None,
        }
    }

    /// Opens an image for the page, away from this thread.
    pub fn open(&self, source: ImageSource) {
        let (staged, answers) = (self.staged.clone(), self.answers.clone());
        tokio::task::spawn_blocking(move || {
            let ImageSource {
                ticket,
                path,
                trusted,
            } = source;
            let opening = match source::read(&path, trusted) {
                Ok(image) => match staged.stage(image) {
                    Ok(address) => ImageOpening::Staged(address),
                    Err(error) => ImageOpening::Invalid(error.to_string()),
                },
                Err(error) if error.is_of_request() => ImageOpening::Refused(error.to_string()),
                Err(error) => ImageOpening::Invalid(error.to_string()),
            };
            let opened = Input::ImageOpened(ImageOpened { ticket, opening });
            // The run may be ending.
            let _ = answers.send(opened);
        });
    }

    /// Takes what a page connection sends from now on.
    pub fn receive(&mut self, transfer: Transfer) {
        let target = match transfer.purpose {
            Purpose::Save => self.settings.save_on_exit.as_ref(),
            Purpose::Export | Purpose::Display => None,
        };
        let target = target.map(|path| PathBuf::from(path.as_str()));
        self.incoming = Some(Incoming::begin(&transfer, target));
    }

    /// A binary message of a connection; the result says whether it was
    /// expected.
    pub fn bytes(&mut self, link: Link, bytes: &[u8]) -> bool {
        let incoming = self.incoming.as_mut();
        let Some(incoming) = incoming.filter(|incoming| incoming.link() == link) else {
            return false;
        };
        match incoming.take(bytes) {
            Ok(false) => true,
            Ok(true) => {
                self.finish();
                true
            }
            Err(Overrun) => false,
        }
    }

    /// A connection has ended, and with it what it was sending.
    pub fn closed(&mut self, link: Link) {
        self.incoming.take_if(|incoming| incoming.link() == link);
    }

    fn finish(&mut self) {
        let Some(incoming) = self.incoming.take() else {
            return;
        };
        let answers = self.answers.clone();
        tokio::task::spawn_blocking(move || {
            let ticket = incoming.ticket();
            let bytes = incoming.finish();
            // The run may be ending.
            let _ = answers.send(Input::Received(Received { ticket, bytes }));
        });
    }
}
