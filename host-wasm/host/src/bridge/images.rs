//! The part of the bridge that durable images take: the import of one before
//! its command reaches the page, and the one that is stored at the end.

use super::{Bridge, Loss, Outstanding, Page, Stage, Ticket};
use crate::image::{self, Errand, ImageOpened};

/// Why the machine is not stored at the end.
pub(crate) enum Unsaved {
    /// There never was a state to store.
    NeverStarted,
    /// There was one, and it is lost.
    Failed(String),
}

impl Bridge {
    /// The shell has looked at the image of an import.
    pub(crate) fn image_opened(&self, ticket: u64, opened: ImageOpened) {
        let mut inner = self.inner.borrow_mut();
        let Some(outstanding) = (inner.outstanding)
            .take_if(|o| o.ticket == ticket && matches!(o.stage, Stage::Opening { .. }))
        else {
            // Its request left meanwhile.
            return;
        };
        let address = match opened {
            ImageOpened::Staged(address) => address,
            refused => {
                drop(inner);
                if let Some(done) = outstanding.done {
                    // Its request may have got its terminal in this very step.
                    let _ = done.send(Err(image::refusal(refused)));
                }
                return self.deliver();
            }
        };
        if let Stage::Opening {
            request_id,
            operation,
        } = outstanding.stage
        {
            let (link, id, epoch) = (
                outstanding.link,
                outstanding.id.clone(),
                outstanding.epoch.clone(),
            );
            inner.outstanding = Some(Outstanding {
                stage: Stage::Working,
                ..outstanding
            });
            drop(inner);
            let input = image::import_input(address);
            self.send_command(link, request_id, id, epoch, operation, input);
        }
    }

    /// Stores an image of the present state where the manifest says, after
    /// everything that is queued. Resolves with why that was not possible.
    pub(crate) async fn save_image(&self) -> Result<(), Unsaved> {
        match self.inner.borrow().page {
            Page::Starting | Page::Lost(Loss::Boot { .. }) => return Err(Unsaved::NeverStarted),
            Page::Ready { .. } => {}
            Page::Lost(Loss::Gone) => {
                return Err(Unsaved::Failed("the machine is gone".to_owned()));
            }
        }
        let errand = Errand::Export { save: true };
        let input = errand.export_input();
        let Ticket { done, .. } = self.enqueue(None, image::EXPORT, input, errand);
        match done.await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(Unsaved::Failed(error.message().to_owned())),
            Err(_) => Err(Unsaved::Failed("the host is closing".to_owned())),
        }
    }
}
