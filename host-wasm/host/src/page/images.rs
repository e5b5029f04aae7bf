//! Durable images as the machine makes and takes them (machine 18).

use serde_json::{Value, json};

use super::failure::Failure;
use super::machine::Machine;
use super::port::PlacedImage;
use super::states::{Anchor, BASE, Place, State};

impl Machine {
    /// Makes an image of the present state, of at most `limit` bytes. The page
    /// keeps it until it is sent.
    pub(crate) async fn perform_export(&mut self, limit: u64) -> Result<Value, Failure> {
        let seq = self.saved_present().await?;
        let Some(state) = self.states.saved(seq) else {
            return Err(Failure::unknown_checkpoint());
        };
        if !state.portable {
            return Err(Failure::not_portable());
        }
        let (table, record) = (state.table.to_vec(), state.record.to_string());
        let pages = table.len() as u64;
        let made = self.port.make_image(table, record, limit).await;
        let bytes = made.map_err(|refusal| Failure::image(&refusal))?;
        Ok(json!({
            "byteLength": bytes,
            "heapBytes": pages * 4096,
            "pageBytes": 4096,
        }))
    }

    /// The present state as a saved one. A state that nothing saved becomes
    /// the guard, so that the work serves twice.
    async fn saved_present(&mut self) -> Result<u64, Failure> {
        self.require_worker().await?;
        let Anchor { seq, runs, .. } = self.states.anchor();
        if runs == 0 && seq != BASE {
            return Ok(seq);
        }
        let (seq, state, _) = self.save().await?;
        if let Some(dropped) = self.states.set_guard(seq, state) {
            self.forget(vec![dropped]).await;
        }
        self.keep_contents();
        Ok(seq)
    }

    /// Continues in the state of an image, which becomes the latest listed
    /// checkpoint. A refused image changes nothing.
    pub(crate) async fn perform_import(&mut self, address: String) -> Result<Value, Failure> {
        let limit = self.settings.max_checkpoints;
        if self.states.listed() >= limit {
            return Err(Failure::list_full(limit));
        }
        let seq = self.hold_image(address).await?;
        let entered = self.exchange_for(seq, Place::Guard).await;
        let pages = self.kept(seq, entered.map_err(Failure::not_exchanged))?;
        Ok(json!({
            "index": self.states.list_held(seq),
            "pagesWritten": pages,
            "rehashed": true,
            "pageBytes": 4096,
            "recycled": true,
        }))
    }

    /// Brings the first worker to the state of an image. It is not listed:
    /// indices count what the client saves.
    pub(crate) async fn start_from(&mut self, address: String) -> Result<(), Failure> {
        let seq = self.hold_image(address).await?;
        let entered = self.adopt(seq, Place::Guard).await;
        self.kept(seq, entered)?;
        self.states.guard_held(seq);
        Ok(())
    }

    /// Places an image and holds its state.
    async fn hold_image(&mut self, address: String) -> Result<u64, Failure> {
        let free = self.sweep().await;
        let placed = self.port.place_image(address, free).await;
        let placed = placed.map_err(|refusal| Failure::image(&refusal))?;
        let PlacedImage {
            table,
            record,
            identities,
        } = placed;
        let seq = self.states.reserve();
        let state = State {
            table: table.into(),
            record: record.into(),
            identities,
            live_in: 0,
            portable: true,
        };
        self.states.hold(seq, state);
        Ok(seq)
    }

    /// Releases a held state that the machine could not be brought to.
    fn kept(&mut self, seq: u64, entered: Result<u64, Failure>) -> Result<u64, Failure> {
        if entered.is_err() {
            self.states.release(seq);
            self.keep_contents();
        }
        entered
    }
}
