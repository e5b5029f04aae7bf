//! The machine operations as the page performs them (machine 2).

use pyproc_protocol::ControlError;
use serde_json::{Value, json};

use super::failure::Failure;
use super::fit;
use super::machine::{End, Interrupt, Machine};
use super::message::{GuestErrorKind, Printed};
use super::request::PageRequest;
use super::states::{Anchor, BASE, Place};
use crate::display::{self, Display};

impl Machine {
    /// Performs one operation to its end.
    pub(crate) async fn perform(
        &mut self,
        request: PageRequest,
        interrupt: &Interrupt,
    ) -> Result<Value, ControlError> {
        let started = self.clock.now();
        let result = match request {
            PageRequest::Run { code, grace_ms } => {
                self.perform_run(code, grace_ms, interrupt).await
            }
            PageRequest::Save => self.perform_save().await,
            PageRequest::Restore { index } => self.perform_restore(index).await,
            PageRequest::Reset { hard } => self.perform_reset(hard).await,
            PageRequest::Export { limit } => self.perform_export(limit).await,
            PageRequest::Import { address } => self.perform_import(address).await,
        };
        self.rest();
        match result {
            Ok(mut output) => {
                let spent = self.clock.now() - started;
                if let Value::Object(members) = &mut output {
                    members.insert("durationMs".to_owned(), spent.into());
                    if let Some(loss) = self.take_untold() {
                        members.insert("recovered".to_owned(), loss);
                    }
                }
                Ok(output)
            }
            Err(failure) => {
                let failure = match self.take_untold() {
                    Some(loss) => failure.with("recovered", loss),
                    None => failure,
                };
                Err(fit::error(failure.into_error()))
            }
        }
    }

    async fn perform_run(
        &mut self,
        code: String,
        grace: Option<u64>,
        interrupt: &Interrupt,
    ) -> Result<Value, Failure> {
        self.require_worker().await?;
        match self.run(code, grace, interrupt).await {
            End::Ended { failure, printed } => {
                let run = self.run_seq;
                let failure = self.recover(failure).await;
                Err(failure.with_run(&printed, run))
            }
            End::Reply {
                reply,
                printed,
                interrupted,
                ..
            } => {
                let run = self.run_seq;
                match reply.error {
                    None if reply.ok => self.states.ran(),
                    None => {
                        let failure = Failure::worker_lost("the reply does not fit the command");
                        return Err(self.recover(failure).await.with_run(&printed, run));
                    }
                    Some(error) => {
                        // Source that does not compile did not run.
                        if error.kind != GuestErrorKind::Syntax {
                            self.states.ran();
                        }
                        let failure = Failure::python(error, interrupted);
                        return Err(failure.with_run(&printed, run));
                    }
                }
                let displays = reply.displays.clone().unwrap_or_default();
                run_output(reply.value, reply.value_chars, &displays, printed, run)
            }
        }
    }

    async fn perform_save(&mut self) -> Result<Value, Failure> {
        let limit = self.settings.max_checkpoints;
        if self.states.listed() >= limit {
            return Err(Failure::list_full(limit));
        }
        let (seq, state, reply) = self.save().await?;
        let portable = state.portable;
        let pages = state.table.len() as u64;
        let (index, changed) = self.states.list(seq, state);
        let kind = match reply.fresh {
            Some(true) => "full",
            _ => "delta",
        };
        Ok(json!({
            "index": index,
            "changedPages": changed,
            "kind": kind,
            "pageBytes": 4096,
            "heapBytes": pages * 4096,
            "storeBytes": self.states.store_bytes(),
            "portable": portable,
        }))
    }

    async fn perform_restore(&mut self, index: Option<i64>) -> Result<Value, Failure> {
        let found = self.states.find(index);
        let (index, seq) = found.ok_or_else(Failure::unknown_checkpoint)?;
        let place = Place::Checkpoint(index);
        let moved = self.move_to(seq, place).await?;
        Ok(moved.output(index))
    }

    async fn perform_reset(&mut self, hard: bool) -> Result<Value, Failure> {
        let moved = match hard {
            true => {
                let exchanged = self.exchange_for(BASE, Place::Base).await;
                Moved::recycled(exchanged.map_err(Failure::not_exchanged)?)
            }
            false => self.move_to(BASE, Place::Base).await?,
        };
        let dropped = self.states.clear();
        self.states.at_base(self.incarnation());
        self.forget(dropped).await;
        self.keep_contents();
        Ok(moved.output(0))
    }

    /// Brings the machine to a saved state: nothing to do when it stands there
    /// and nothing ran since, in place when the present incarnation holds the
    /// state, else in a fresh incarnation (machine 9.2 to 9.5).
    async fn move_to(&mut self, seq: u64, place: Place) -> Result<Moved, Failure> {
        self.require_worker().await?;
        let Anchor {
            seq: at, runs: 0, ..
        } = self.states.anchor()
        else {
            return self.rewrite(seq, place).await;
        };
        if at != seq {
            return self.rewrite(seq, place).await;
        }
        self.states.restored(seq, place, self.incarnation());
        Ok(Moved {
            pages: 0,
            rehashed: false,
            recycled: false,
        })
    }

    async fn rewrite(&mut self, seq: u64, place: Place) -> Result<Moved, Failure> {
        let present = self.incarnation();
        let here = seq == BASE || self.states.saved(seq).is_some_and(|s| s.live_in == present);
        if !here {
            let exchanged = self.exchange_for(seq, place).await;
            return exchanged
                .map(Moved::recycled)
                .map_err(Failure::not_exchanged);
        }
        if let Ok(pages) = self.restore_in_place(seq).await {
            self.states.restored(seq, place, present);
            return Ok(Moved {
                pages,
                rehashed: true,
                recycled: false,
            });
        }
        match self.recycle_to(seq, place).await {
            Ok(pages) => Ok(Moved::recycled(pages)),
            Err(boot) if boot.is_boot_failure() => {
                Err(Failure::restore_failed(&boot).without_machine(&boot))
            }
            Err(failure) => Err(self.recover(Failure::restore_failed(&failure)).await),
        }
    }
}

struct Moved {
    pages: u64,
    rehashed: bool,
    recycled: bool,
}

impl Moved {
    fn recycled(pages: u64) -> Self {
        Self {
            pages,
            rehashed: true,
            recycled: true,
        }
    }

    fn output(&self, index: u64) -> Value {
        json!({
            "index": index,
            "pagesWritten": self.pages,
            "rehashed": self.rehashed,
            "pageBytes": 4096,
            "recycled": self.recycled,
        })
    }
}

/// The output of a completed run. Printed text that does not fit one reply
/// makes the run an error that carries the part that fits: what a success says
/// was printed is never cut. A long value loses its tail and says so.
fn run_output(
    value: Option<String>,
    value_chars: Option<u64>,
    displays: &[Display],
    printed: Printed,
    run: u64,
) -> Result<Value, Failure> {
    let mut output = json!({
        "stdout": printed.stdout,
        "stderrBytes": printed.stderr_bytes,
        "stdoutBytes": printed.stdout_bytes,
        "runSeq": run,
    });
    if !displays.is_empty() {
        output[display::MEMBER] = json!(displays);
    }
    let room = match printed.stdout_dropped {
        0 => fit::room_beside(&output),
        _ => None,
    };
    let Some(room) = room else {
        let failure = Failure::too_much_output(&printed)
            .with_run(&printed, run)
            .without_displays(displays.len() as u64);
        return Err(match value {
            Some(value) => failure.with("value", value.into()),
            None => failure,
        });
    };
    if let Some(value) = value {
        let head = fit::head_within(&value, room);
        let cut = (head.len() < value.len()).then(|| value.chars().count() as u64);
        if let Some(chars) = value_chars.or(cut) {
            output["valueChars"] = chars.into();
        }
        output["value"] = head.into();
    }
    Ok(output)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(stdout: &str, dropped: u64) -> Printed {
        Printed {
            stdout: stdout.to_owned(),
            stdout_bytes: stdout.len() as u64 + dropped,
            stderr_bytes: 0,
            stdout_dropped: dropped,
        }
    }

    #[test]
    fn a_run_without_a_value_has_no_value_member() {
        let output = run_output(None, None, &[], printed("hi\n", 0), 7).unwrap();
        assert_eq!(
            output,
            json!({"stdout": "hi\n", "stderrBytes": 0, "stdoutBytes": 3, "runSeq": 7})
        );
    }

    #[test]
    fn dropped_output_is_an_error_that_keeps_both_ends() {
        let failure = run_output(Some("1".to_owned()), None, &[], printed("head tail", 5), 1);
        let error = failure.unwrap_err().into_error();
        assert_eq!(error.code().as_str(), "CONTROL_FRAME_TOO_LARGE");
        let details = error.details().unwrap();
        assert_eq!(details["stdout"], "head tail");
        assert_eq!(details["stdoutDropped"], 5);
        assert_eq!(details["value"], "1");
    }

    #[test]
    fn a_value_that_does_not_fit_loses_its_tail_and_says_its_length() {
        let value = "\u{1F600}".repeat(260_000);
        let output = run_output(Some(value), None, &[], printed("", 0), 1).unwrap();
        assert_eq!(output["valueChars"], 260_000);
        let kept = output["value"].as_str().unwrap();
        assert!(kept.len() > 900_000 && kept.len() < 983_040);
    }
}
