//! Bytes that a page sends after its answer: durable images, and what Python
//! displayed.

use pyproc_protocol::{ControlError, codes};
use serde_json::{Map, Value};

use super::{Bridge, Completed, Outstanding, Stage, end_outstanding};
use crate::display;
use crate::image;
use crate::output::{Output, Purpose, Received};

impl Bridge {
    /// The page has answered and says how many bytes follow. A page that says
    /// something else than it was asked for (`None`) is lost.
    pub(super) fn expect(
        &self,
        mut outstanding: Outstanding,
        output: Map<String, Value>,
        announced: Option<u64>,
    ) {
        let (ticket, link) = (outstanding.ticket, outstanding.link);
        let purpose = outstanding.errand.purpose();
        if let (Stage::Working, Some(byte_length)) = (&outstanding.stage, announced) {
            outstanding.stage = Stage::Receiving(output);
            self.inner.borrow_mut().outstanding = Some(outstanding);
            self.outputs.push(Output::Receive {
                ticket,
                link,
                byte_length,
                purpose,
            });
            return;
        }
        end_outstanding(Some(outstanding));
        self.close(link, 4400, &codes::CONTROL_BRIDGE_CLOSED);
        self.closed(link);
    }

    /// The shell has the bytes, or cannot get them.
    pub(crate) fn received(&self, ticket: u64, received: Received) {
        let mut inner = self.inner.borrow_mut();
        let Some(outstanding) = (inner.outstanding)
            .take_if(|o| o.ticket == ticket && matches!(o.stage, Stage::Receiving(_)))
        else {
            // The page was lost meanwhile.
            return;
        };
        let Stage::Receiving(output) = outstanding.stage else {
            return;
        };
        let result = complete(outstanding.errand.purpose(), output, received);
        inner.conclude(outstanding.done, result);
        drop(inner);
        self.deliver();
    }
}

/// The answer with what arrived for it.
fn complete(
    purpose: Purpose,
    mut output: Map<String, Value>,
    received: Received,
) -> Result<Completed, ControlError> {
    let attachments = match purpose {
        Purpose::Display => {
            let bytes = received.map_err(display::not_delivered)?;
            display::attachments(&output, &bytes)?
        }
        Purpose::Export => {
            let bytes = received.map_err(image::not_delivered)?;
            vec![image::attach(&mut output, bytes)?]
        }
        Purpose::Save => {
            received.map_err(image::not_delivered)?;
            Vec::new()
        }
    };
    Ok(Completed {
        output,
        attachments,
    })
}
