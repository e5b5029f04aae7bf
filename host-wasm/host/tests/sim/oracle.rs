//! What the client may conclude from the replies it got, compared with what
//! the next reply shows.

use serde_json::Value;
use std::collections::BTreeMap;

/// The codes of a state, oldest first; `None` when the client cannot know.
type Known = Option<Vec<String>>;

pub struct Oracle {
    state: Known,
    checkpoints: BTreeMap<u64, Known>,
    last_index: u64,
}

/// One request of the client.
#[derive(Clone, Debug)]
pub struct Asked {
    pub operation: &'static str,
    pub code: String,
    pub index: Option<u64>,
}

impl Oracle {
    pub fn new() -> Self {
        Self {
            state: Some(Vec::new()),
            checkpoints: BTreeMap::new(),
            last_index: 0,
        }
    }

    /// Nothing that was known of the machine holds any more.
    pub fn lost_machine(&mut self) {
        self.state = None;
        self.checkpoints.clear();
        self.last_index = 0;
    }

    /// Indices grow whatever the workers say.
    pub fn index(&mut self, index: u64) {
        assert!(index > self.last_index, "{index} after {}", self.last_index);
        self.last_index = index;
    }

    pub fn succeeded(&mut self, asked: &Asked, output: &Value) {
        if let Some(recovered) = output.get("recovered") {
            self.recovered(&recovered["restored"]);
        }
        match asked.operation {
            "machine.run" => {
                let value = output["value"].as_str().unwrap();
                let shown: Vec<_> = value.split(',').map(str::to_owned).collect();
                assert_eq!(shown.last(), Some(&asked.code));
                if let Some(mut state) = self.state.take() {
                    state.push(asked.code.clone());
                    assert_eq!(shown, state, "the state is not what the client was told");
                }
                self.state = Some(shown);
            }
            "machine.checkpoint.save" => {
                let index = output["index"].as_u64().unwrap();
                self.checkpoints.insert(index, self.state.clone());
            }
            "machine.checkpoint.restore" => {
                let index = output["index"].as_u64().unwrap();
                if let Some(asked) = asked.index {
                    assert_eq!(index, asked);
                }
                self.state = self.checkpoints.get(&index).cloned().flatten();
            }
            _ => {
                self.state = Some(Vec::new());
                self.checkpoints.clear();
            }
        }
    }

    pub fn failed(&mut self, asked: &Asked, error: &Value) {
        let details = &error["details"];
        if let Some(recovered) = details.get("recovered") {
            self.recovered(&recovered["restored"]);
        }
        let outcome = error["outcome"].as_str().unwrap();
        match (details.get("restored"), outcome) {
            (Some(restored), _) => {
                let lost = restored["lostRuns"].as_u64().unwrap();
                assert!(outcome != "rejected" || lost == 0, "{error}");
                self.went_on_at(restored);
            }
            (None, "notSent" | "rejected") => {}
            (None, "applied") if details.get("bootFailure").is_none() => {
                assert_eq!(asked.operation, "machine.run", "{error}");
                if let Some(state) = &mut self.state {
                    state.push(asked.code.clone());
                }
            }
            (None, _) => {
                self.state = None;
                if asked.operation != "machine.run" {
                    // It may have saved, restored or reset.
                    self.checkpoints
                        .values_mut()
                        .for_each(|known| *known = None);
                }
            }
        }
    }

    /// The machine went on elsewhere some time ago. That tells nothing to a
    /// client that does not know what became of a later request.
    fn recovered(&mut self, restored: &Value) {
        if self.state.is_some() {
            self.went_on_at(restored);
        }
    }

    /// The machine went on at an earlier state of the one that was known.
    fn went_on_at(&mut self, restored: &Value) {
        let lost = usize::try_from(restored["lostRuns"].as_u64().unwrap()).unwrap();
        if let Some(state) = &mut self.state {
            let kept = state.len().checked_sub(lost);
            state.truncate(kept.expect("more runs were lost than there were"));
        }
        let named = match restored["kind"].as_str().unwrap() {
            "base" => Some(Vec::new()),
            "checkpoint" => {
                let index = restored["index"].as_u64().unwrap();
                self.checkpoints.get(&index).cloned().flatten()
            }
            _ => return,
        };
        match (&self.state, &named) {
            (Some(state), Some(named)) => assert_eq!(state, named, "{restored}"),
            _ => self.state = named,
        }
    }
}
