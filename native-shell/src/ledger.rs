//! What the shell remembers of each open request, so that every one of them
//! gets its terminal even if the core ends without giving it.

use std::collections::BTreeMap;

use pyproc_protocol::frame::ErrorFrame;
use pyproc_protocol::{ControlError, FailureOutcome, Frame, RequestId, codes};

use crate::core::{LedgerEntry, LedgerState};

/// Open requests by id; the value says whether one was delivered.
#[derive(Default)]
pub(crate) struct Ledger {
    open: BTreeMap<String, bool>,
}

impl Ledger {
    /// Notes what the core said about a request.
    pub(crate) fn note(&mut self, entry: LedgerEntry) {
        match entry.state {
            LedgerState::Accepted => {
                self.open.insert(entry.request_id, false);
            }
            LedgerState::Delivered => {
                if let Some(delivered) = self.open.get_mut(&entry.request_id) {
                    *delivered = true;
                }
            }
            LedgerState::Ended => {
                self.open.remove(&entry.request_id);
            }
        }
    }

    /// The terminals of all open requests, as lines; none stays open.
    pub(crate) fn terminals(&mut self) -> Vec<String> {
        std::mem::take(&mut self.open)
            .into_iter()
            .filter_map(|(id, delivered)| terminal(&id, delivered))
            .collect()
    }
}

/// The line that ends one request of a core that is gone.
fn terminal(id: &str, delivered: bool) -> Option<String> {
    let outcome = match delivered {
        true => FailureOutcome::OutcomeUnknown,
        false => FailureOutcome::NotSent,
    };
    let message = "the host failed and has to be started again";
    let frame = Frame::Error(ErrorFrame::Request {
        request_id: RequestId::parse(id).ok()?,
        error: ControlError::new(codes::CONTROL_HOST_CLOSED, outcome, message),
        attachments: Vec::new(),
    });
    frame.encode().ok().map(|line| line + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: &str, state: LedgerState) -> LedgerEntry {
        LedgerEntry {
            request_id: id.to_owned(),
            state,
        }
    }

    #[test]
    fn open_requests_end_by_what_was_sent_of_them() {
        let mut ledger = Ledger::default();
        for id in ["a", "b", "c"] {
            ledger.note(entry(id, LedgerState::Accepted));
        }
        ledger.note(entry("b", LedgerState::Delivered));
        ledger.note(entry("c", LedgerState::Delivered));
        ledger.note(entry("c", LedgerState::Ended));
        let lines = ledger.terminals();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].contains(r#""requestId":"a""#) && lines[0].contains("notSent"));
        assert!(lines[1].contains(r#""requestId":"b""#) && lines[1].contains("outcomeUnknown"));
        assert!(ledger.terminals().is_empty());
    }
}
