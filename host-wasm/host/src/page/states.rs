//! The states the page knows: listed checkpoints, the guard, where the
//! machine stands, and which slots of the page store they keep alive
//! (machine 2, 8, 14.3).

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::message::{Incarnation, PageTable, StateNumber};
use crate::clock::Millis;

/// The state of a fresh boot; every incarnation has its own.
pub const BASE: StateNumber = 0;

/// Slots that a killed save may still be writing are not reused for this long
/// (machine 8, rule 3).
const QUARANTINE_MS: Millis = 10_000;

/// A saved state other than base.
pub struct State {
    /// Its page table.
    pub table: Rc<PageTable>,
    /// Everything that is not in the page store, JSON text made by a worker.
    pub record: Rc<str>,
    /// File contents the record names.
    pub identities: Vec<u64>,
    /// The incarnation that holds the live record.
    pub live_in: Incarnation,
    /// Good for another incarnation.
    pub portable: bool,
}

/// What a saved state is to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The base of the incarnation.
    Base,
    /// A listed checkpoint.
    Checkpoint(u64),
    /// The automatic checkpoint of an idle machine.
    Guard,
}

/// The saved state that the machine's present state grew from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// Number of the saved state.
    pub seq: StateNumber,
    /// What it is to the client.
    pub place: Place,
    /// Runs that reached the worker since.
    pub runs: u64,
}

/// Where a saved state came from.
#[derive(Clone, Copy, Debug)]
struct Origin {
    /// The listed state that it grew from, or base.
    parent: StateNumber,
    /// Runs between base and it.
    runs: u64,
}

/// All saved states and the machine's place among them.
pub struct States {
    saved: BTreeMap<StateNumber, State>,
    listed: BTreeMap<u64, StateNumber>,
    guard: Option<StateNumber>,
    anchor: Anchor,
    /// Where each saved state that this machine made came from.
    origins: BTreeMap<StateNumber, Origin>,
    /// Table at the last save, restore, reset or import, for `changedPages`.
    reference: Rc<PageTable>,
    /// Base tables of the incarnations that are alive.
    bases: BTreeMap<Incarnation, Rc<PageTable>>,
    next_index: u64,
    next_seq: StateNumber,
    /// Highest slot any table has named.
    highest_slot: u32,
    /// Slots below this belong to the boot image.
    image_slots: u32,
    quarantine_until: Millis,
    /// Slots that became free since the last sweep (an estimate).
    garbage: u64,
}

impl States {
    /// No saved state; the boot image occupies slots 1 to `image_slots`.
    pub fn new(image_slots: u32) -> Self {
        Self {
            saved: BTreeMap::new(),
            listed: BTreeMap::new(),
            guard: None,
            anchor: Anchor {
                seq: BASE,
                place: Place::Base,
                runs: 0,
            },
            origins: BTreeMap::new(),
            reference: Rc::new(Vec::new()),
            bases: BTreeMap::new(),
            next_index: 1,
            next_seq: 1,
            highest_slot: image_slots,
            image_slots,
            quarantine_until: 0,
            garbage: 0,
        }
    }

    /// Where the machine stands.
    pub fn anchor(&self) -> Anchor {
        self.anchor
    }

    /// Runs that the present state grew from since base.
    pub fn runs_since_base(&self) -> u64 {
        let before = self.origins.get(&self.anchor.seq);
        before.map_or(0, |origin| origin.runs) + self.anchor.runs
    }

    fn present_origin(&self) -> Origin {
        let Anchor { seq, place, .. } = self.anchor;
        let parent = match place {
            Place::Base | Place::Checkpoint(_) => seq,
            Place::Guard => self.parent(seq),
        };
        Origin {
            parent,
            runs: self.runs_since_base(),
        }
    }

    fn parent(&self, seq: StateNumber) -> StateNumber {
        self.origins.get(&seq).map_or(BASE, |origin| origin.parent)
    }

    /// The listed states before the one that the machine stands on, the latest
    /// first, as far as another incarnation can take them; each with the runs
    /// that were made since.
    pub fn before_anchor(&self) -> Vec<Anchor> {
        let now = self.runs_since_base();
        let mut before = Vec::new();
        let mut seq = self.parent(self.anchor.seq);
        while seq != BASE {
            let portable = self.saved.get(&seq).is_some_and(|state| state.portable);
            let index = self.listed.iter().find(|(_, listed)| **listed == seq);
            if let (true, Some((index, _))) = (portable, index) {
                let runs = self.origins.get(&seq).map_or(0, |origin| origin.runs);
                before.push(Anchor {
                    seq,
                    place: Place::Checkpoint(*index),
                    runs: now.saturating_sub(runs),
                });
            }
            seq = self.parent(seq);
        }
        before
    }

    /// Listed checkpoints.
    pub fn listed(&self) -> usize {
        self.listed.len()
    }

    /// A saved state by number; `None` for base.
    pub fn saved(&self, seq: StateNumber) -> Option<&State> {
        self.saved.get(&seq)
    }

    /// The state behind a listed index, or behind the latest one.
    pub fn find(&self, index: Option<i64>) -> Option<(u64, StateNumber)> {
        match index {
            None => self.listed.iter().next_back().map(|(i, s)| (*i, *s)),
            Some(index) => {
                let index = u64::try_from(index).ok()?;
                self.listed.get(&index).map(|seq| (index, *seq))
            }
        }
    }

    /// A number for a state that is about to be saved.
    pub fn reserve(&mut self) -> StateNumber {
        let seq = self.next_seq;
        self.next_seq += 1;
        seq
    }

    /// Notes the base of a booted incarnation.
    pub fn booted(&mut self, incarnation: Incarnation, table: PageTable) {
        self.saw(&table);
        self.bases.insert(incarnation, Rc::new(table));
    }

    /// Forgets the base of a dead incarnation. If it died while it was saving
    /// or booting, slots it may still write are kept out of use for a while.
    pub fn died(&mut self, incarnation: Incarnation, while_saving: bool, now: Millis) {
        if let Some(base) = self.bases.remove(&incarnation) {
            self.dropped(&base);
        }
        if while_saving {
            self.quarantine_until = now + QUARANTINE_MS;
        }
    }

    /// The machine stands at the base of `incarnation`.
    pub fn at_base(&mut self, incarnation: Incarnation) {
        self.anchor = Anchor {
            seq: BASE,
            place: Place::Base,
            runs: 0,
        };
        if let Some(base) = self.bases.get(&incarnation) {
            self.reference = base.clone();
        }
    }

    /// A run reached the worker: the state is no longer the anchor's.
    pub fn ran(&mut self) {
        self.anchor.runs += 1;
    }

    /// Lists a new checkpoint; the result is its index and the number of heap
    /// pages that differ from the reference table.
    pub fn list(&mut self, seq: StateNumber, state: State) -> (u64, u64) {
        let changed = changed_pages(&self.reference, &state.table);
        self.origins.insert(seq, self.present_origin());
        self.insert(seq, state);
        (self.list_held(seq), changed)
    }

    /// Keeps a state that nothing names yet: an image on its way in.
    pub fn hold(&mut self, seq: StateNumber, state: State) {
        self.insert(seq, state);
    }

    /// Lists a held state; the result is its index.
    pub fn list_held(&mut self, seq: StateNumber) -> u64 {
        let index = self.next_index;
        self.next_index += 1;
        self.listed.insert(index, seq);
        self.stand_at(seq, Place::Checkpoint(index));
        index
    }

    /// Makes a held state the guard, on which the machine stands.
    pub fn guard_held(&mut self, seq: StateNumber) {
        self.drop_guard();
        self.guard = Some(seq);
        self.stand_at(seq, Place::Guard);
    }

    /// Drops a held state.
    pub fn release(&mut self, seq: StateNumber) {
        if let Some(state) = self.saved.remove(&seq) {
            self.dropped(&state.table);
        }
    }

    /// Replaces the guard; the result is the number of the dropped one.
    pub fn set_guard(&mut self, seq: StateNumber, state: State) -> Option<StateNumber> {
        self.origins.insert(seq, self.present_origin());
        let dropped = self.drop_guard();
        self.insert(seq, state);
        self.guard = Some(seq);
        self.anchor = Anchor {
            seq,
            place: Place::Guard,
            runs: 0,
        };
        dropped
    }

    fn drop_guard(&mut self) -> Option<StateNumber> {
        let seq = self.guard.take()?;
        if let Some(state) = self.saved.remove(&seq) {
            self.origins.remove(&seq);
            self.dropped(&state.table);
        }
        Some(seq)
    }

    /// The machine was brought to a saved state. `live_in` is the incarnation
    /// that holds it now.
    pub fn restored(&mut self, seq: StateNumber, place: Place, live_in: Incarnation) {
        if seq == BASE {
            self.at_base(live_in);
            return;
        }
        if let Some(state) = self.saved.get_mut(&seq) {
            state.live_in = live_in;
        }
        let reference = self.reference.clone();
        self.stand_at(seq, place);
        if place == Place::Guard {
            // The client never saw this state: what differs from the one it
            // knows still counts as changed.
            self.reference = reference;
        }
    }

    fn stand_at(&mut self, seq: StateNumber, place: Place) {
        self.anchor = Anchor {
            seq,
            place,
            runs: 0,
        };
        if let Some(state) = self.saved.get(&seq) {
            self.reference = state.table.clone();
        }
    }

    /// Empties the list (a reset); the result names every dropped state.
    pub fn clear(&mut self) -> Vec<StateNumber> {
        let dropped: Vec<_> = self.saved.keys().copied().collect();
        self.saved.clear();
        self.origins.clear();
        self.listed.clear();
        self.guard = None;
        self.garbage = u64::MAX;
        dropped
    }

    fn insert(&mut self, seq: StateNumber, state: State) {
        self.saw(&state.table);
        self.saved.insert(seq, state);
    }

    /// A table is gone. How many of its slots became free is estimated.
    fn dropped(&mut self, table: &[u32]) {
        self.garbage = self.garbage.saturating_add(table.len() as u64 / 16);
    }

    fn saw(&mut self, table: &[u32]) {
        let highest = table.iter().copied().max().unwrap_or(0);
        self.highest_slot = self.highest_slot.max(highest);
    }

    /// Whether enough was dropped that a sweep is worth its time.
    pub fn sweep_is_due(&self, now: Millis) -> bool {
        self.garbage > 4096 && now >= self.quarantine_until
    }

    /// The free slots below the highest used one (machine 8, rule 2). No
    /// incarnation may be booting or saving while this runs.
    pub fn sweep(&mut self, now: Millis) -> Vec<u32> {
        self.garbage = 0;
        if now < self.quarantine_until {
            self.garbage = u64::MAX;
            return Vec::new();
        }
        let mut used = vec![false; self.highest_slot as usize + 1];
        let tables = (self.bases.values())
            .chain(self.saved.values().map(|state| &state.table))
            .chain([&self.reference]);
        for table in tables {
            for slot in table.iter() {
                used[*slot as usize] = true;
            }
        }
        (self.image_slots + 1..=self.highest_slot)
            .filter(|slot| !used[*slot as usize])
            .collect()
    }

    /// File contents that a saved state names.
    pub fn identities(&self) -> BTreeSet<u64> {
        let states = self.saved.values();
        states.flat_map(|s| s.identities.iter().copied()).collect()
    }

    /// Bytes of the page store below the highest used slot.
    pub fn store_bytes(&self) -> u64 {
        (u64::from(self.highest_slot) + 1) * 4096
    }
}

/// Heap pages whose slot differs; pages that only one table has count when
/// they are not the zero page.
fn changed_pages(before: &[u32], after: &[u32]) -> u64 {
    let length = before.len().max(after.len());
    let slot = |table: &[u32], page: usize| table.get(page).copied().unwrap_or(0);
    let differs = |page: &usize| slot(before, *page) != slot(after, *page);
    (0..length).filter(differs).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(table: &[u32]) -> State {
        State {
            table: Rc::new(table.to_vec()),
            record: "{}".into(),
            identities: vec![],
            live_in: 1,
            portable: true,
        }
    }

    fn at_base() -> States {
        let mut states = States::new(3);
        states.booted(1, vec![1, 2, 4]);
        states.at_base(1);
        states
    }

    #[test]
    fn indices_grow_over_a_reset() {
        let mut states = at_base();
        let seq = states.reserve();
        assert_eq!(states.list(seq, state(&[1, 2, 5])), (1, 1));
        let seq = states.reserve();
        assert_eq!(states.list(seq, state(&[1, 2, 5])), (2, 0));
        states.clear();
        states.at_base(1);
        assert_eq!(states.find(Some(1)), None);
        let seq = states.reserve();
        assert_eq!(states.list(seq, state(&[1, 2, 5])).0, 3);
    }

    #[test]
    fn a_guard_does_not_hide_changed_pages_from_the_next_save() {
        let mut states = at_base();
        states.ran();
        let seq = states.reserve();
        states.set_guard(seq, state(&[1, 2, 6]));
        let seq = states.reserve();
        assert_eq!(states.list(seq, state(&[1, 2, 6])).1, 1);
    }

    #[test]
    fn sweep_frees_what_no_table_names_and_never_the_image() {
        let mut states = at_base();
        let seq = states.reserve();
        states.set_guard(seq, state(&[1, 5, 7]));
        let seq = states.reserve();
        assert_eq!(states.set_guard(seq, state(&[1, 5, 8])), Some(seq - 1));
        assert_eq!(states.sweep(0), vec![6, 7]);
    }

    #[test]
    fn a_killed_save_keeps_its_slots_out_of_use() {
        let mut states = at_base();
        let seq = states.reserve();
        states.set_guard(seq, state(&[9, 9, 9]));
        states.died(1, true, 1_000);
        assert_eq!(states.sweep(5_000), Vec::<u32>::new());
        assert_eq!(states.sweep(11_000), vec![5, 6, 7, 8]);
    }

    #[test]
    fn the_states_before_the_anchor_are_its_own_past() {
        let mut states = at_base();
        let save = |states: &mut States, portable| {
            states.ran();
            let seq = states.reserve();
            let made = State {
                portable,
                ..state(&[1, 2, 5])
            };
            states.list(seq, made).0
        };
        save(&mut states, true);
        save(&mut states, false);
        // Another branch, whose states are not this one's past.
        let (index, seq) = states.find(Some(1)).unwrap();
        save(&mut states, true);
        states.restored(seq, Place::Checkpoint(index), 1);
        save(&mut states, true);
        states.ran();
        let guard = states.reserve();
        states.set_guard(guard, state(&[1, 2, 6]));
        states.ran();
        let before: Vec<_> = (states.before_anchor().iter())
            .map(|anchor| (anchor.place, anchor.runs))
            .collect();
        let checkpoint = Place::Checkpoint;
        assert_eq!(before, [(checkpoint(4), 2), (checkpoint(1), 3)]);
        let (index, seq) = states.find(Some(3)).unwrap();
        states.restored(seq, Place::Checkpoint(index), 1);
        let before: Vec<_> = states.before_anchor().iter().map(|a| a.place).collect();
        assert_eq!(before, [checkpoint(1)], "the second is not portable");
        states.clear();
        states.at_base(1);
        assert!(states.before_anchor().is_empty());
    }

    #[test]
    fn default_target_is_the_last_saved_not_the_last_restored() {
        let mut states = at_base();
        for slot in [5, 6] {
            let seq = states.reserve();
            states.list(seq, state(&[1, 2, slot]));
        }
        let (index, seq) = states.find(Some(1)).unwrap();
        states.restored(seq, Place::Checkpoint(index), 1);
        assert_eq!(states.find(None).map(|(index, _)| index), Some(2));
        assert_eq!(states.find(Some(-1)), None);
    }
}
