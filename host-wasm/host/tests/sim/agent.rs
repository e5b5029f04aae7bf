//! The client: what it sends, and what it may hear.

use serde_json::{Value, json};
use std::collections::BTreeMap;

use crate::oracle::{Asked, Oracle};
use crate::rng::Rng;
use crate::world::Honesty;

pub struct Agent {
    asked: BTreeMap<String, Asked>,
    /// Outcome word of each terminal.
    ended: BTreeMap<String, String>,
    pub oracle: Oracle,
    honesty: Honesty,
    greeted: bool,
}

impl Agent {
    pub fn new(honesty: Honesty) -> Self {
        Self {
            asked: BTreeMap::new(),
            ended: BTreeMap::new(),
            oracle: Oracle::new(),
            honesty,
            greeted: false,
        }
    }

    pub fn hello() -> Value {
        json!({
            "protocol": "pyproc-control", "version": 1, "type": "hello", "requestId": "h", "role": "client",
            "peer": {"name": "sim", "version": "1"},
            "capabilities": {"cancel": true, "events": false, "attachments": {"encoding": "base64", "maxChunkBytes": 64}},
        })
    }

    /// A new request with the next id.
    pub fn request(&mut self, rng: &mut Rng) -> (String, Value) {
        let id = format!("r{}", self.asked.len());
        let operation = rng.weighted(&[
            (60, "machine.run"),
            (18, "machine.checkpoint.save"),
            (14, "machine.checkpoint.restore"),
            (8, "machine.reset"),
        ]);
        let mut asked = Asked {
            operation,
            code: id.clone(),
            index: None,
        };
        let input = match operation {
            "machine.run" if rng.chance(20) => {
                json!({"code": id, "interruptGraceMs": rng.below(1500)})
            }
            "machine.run" => json!({"code": id}),
            "machine.checkpoint.restore" if rng.chance(60) => {
                asked.index = Some(rng.below(5));
                json!({"index": asked.index})
            }
            "machine.reset" => json!({"hard": rng.chance(40)}),
            _ => json!({}),
        };
        self.asked.insert(id.clone(), asked);
        let frame = json!({
            "protocol": "pyproc-control", "version": 1, "type": "request", "requestId": id,
            "operation": operation, "input": input,
        });
        (id, frame)
    }

    pub fn cancel(id: &str) -> Value {
        json!({
            "protocol": "pyproc-control", "version": 1, "type": "cancel", "requestId": id,
            "reason": "not needed",
        })
    }

    pub fn hears(&mut self, line: &str) {
        assert!(line.ends_with('\n') && line.matches('\n').count() == 1);
        let mut frame: Value = serde_json::from_str(line).unwrap();
        let kind = frame["type"].as_str().unwrap().to_owned();
        if kind == "hello" {
            assert!(!std::mem::replace(&mut self.greeted, true));
            return;
        }
        let id = frame["requestId"]
            .as_str()
            .expect("no fatal error")
            .to_owned();
        let asked = self.asked.get(&id).expect("an id that was sent");
        let outcome = match kind.as_str() {
            "response" => {
                let output = frame["output"].take();
                if asked.operation == "machine.checkpoint.save" {
                    self.oracle.index(output["index"].as_u64().unwrap());
                }
                if self.honesty == Honesty::Truthful {
                    self.oracle.succeeded(asked, &output);
                }
                frame["outcome"].as_str().unwrap().to_owned()
            }
            "error" => {
                let error = frame["error"].take();
                if self.honesty == Honesty::Truthful {
                    self.oracle.failed(asked, &error);
                }
                error["outcome"].as_str().unwrap().to_owned()
            }
            other => panic!("{other}"),
        };
        let before = self.ended.insert(id.clone(), outcome);
        assert_eq!(before, None, "a second terminal for {id}");
    }

    /// Requests that were sent and have no terminal.
    pub fn waiting(&self) -> usize {
        self.asked.len() - self.ended.len()
    }

    pub fn terminals(&self) -> u64 {
        self.ended.len() as u64
    }

    /// The code of every run that was certainly never sent.
    pub fn not_sent(&self) -> impl Iterator<Item = &String> {
        let ended = self.ended.iter();
        ended
            .filter(|(_, outcome)| *outcome == "notSent")
            .map(|(id, _)| id)
    }
}
