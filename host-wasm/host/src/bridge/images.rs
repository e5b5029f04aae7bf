//! The part of the bridge that durable images take: before a command reaches
//! the page, or after the page has answered.

use pyproc_protocol::codes;
use serde_json::{Map, Value};

use super::{Bridge, Completed, Loss, Outstanding, Page, Stage, Ticket, end_outstanding};
use crate::image::{self, Errand, ImageOpened, ImageReceived};
use crate::output::Output;

/// Why the machine is not stored at the end.
pub(crate) enum Unsaved {
    /// There never was a state to store.
    NeverStarted,
    /// There was one, and it is lost.
    Failed(String),
}

impl Bridge {
    /// The page has made an image and says how long it is. A page that says
    /// something else is lost.
    pub(super) fn expect_image(
        &self,
        mut outstanding: Outstanding,
        output: Map<String, Value>,
        save: bool,
    ) {
        let (ticket, link) = (outstanding.ticket, outstanding.link);
        let announced = outstanding.errand.announced(&output);
        if let (Stage::Working, Some(byte_length)) = (&outstanding.stage, announced) {
            outstanding.stage = Stage::Receiving(output);
            self.inner.borrow_mut().outstanding = Some(outstanding);
            self.outputs.push(Output::ImageReceive {
                ticket,
                link,
                byte_length,
                save,
            });
            return;
        }
        end_outstanding(Some(outstanding));
        self.close(link, 4400, &codes::CONTROL_BRIDGE_CLOSED);
        self.closed(link);
    }

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

    /// The shell has the image of an export, or cannot get it.
    pub(crate) fn image_received(&self, ticket: u64, received: ImageReceived) {
        let mut inner = self.inner.borrow_mut();
        let Some(outstanding) = (inner.outstanding)
            .take_if(|o| o.ticket == ticket && matches!(o.stage, Stage::Receiving(_)))
        else {
            // The page was lost meanwhile.
            return;
        };
        let Stage::Receiving(mut output) = outstanding.stage else {
            return;
        };
        let save = outstanding.errand == Errand::Export { save: true };
        let result = match received {
            Ok(_) if save => Ok(Completed {
                output,
                attachments: Vec::new(),
            }),
            Ok(bytes) => image::attach(&mut output, bytes).map(|image| Completed {
                output,
                attachments: vec![image],
            }),
            Err(message) => Err(image::not_delivered(message)),
        };
        inner.conclude(outstanding.done, result);
        drop(inner);
        self.deliver();
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
