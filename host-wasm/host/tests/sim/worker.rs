//! A scripted worker: its heap is the list of codes that ran and a few pages,
//! its checkpoints are slots of a page store that notices wrong reuse.

use pyproc_host::page::{PageTable, Post};
use serde_json::{Value, json};
use std::collections::BTreeMap;

use crate::rng::Rng;
use crate::world::Honesty;

/// Slots 1 to this hold the boot image.
pub const IMAGE_SLOTS: u32 = 3;

const PAGES: usize = 6;

/// What the slots of the page store hold.
pub struct Store {
    contents: BTreeMap<u32, u64>,
    counter: u32,
}

impl Store {
    pub fn new() -> Self {
        Self {
            contents: (0..=IMAGE_SLOTS).map(|slot| (slot, slot.into())).collect(),
            counter: IMAGE_SLOTS + 1,
        }
    }

    fn never_used(&mut self) -> u32 {
        self.counter += 1;
        self.counter - 1
    }

    pub fn write(&mut self, writes: &[(u32, u64)]) {
        self.contents.extend(writes.iter().copied());
    }
}

/// Everything a checkpoint restores.
#[derive(Clone, Debug, PartialEq)]
pub struct Heap {
    pub codes: Vec<String>,
    pages: Vec<u64>,
}

impl Heap {
    fn run(&mut self, code: &str, rng: &mut Rng) {
        self.codes.push(code.to_owned());
        for _ in 0..=rng.below(2) {
            let page = rng.below(PAGES as u64) as usize;
            self.pages[page] = rng.number();
        }
    }

    fn record(&self) -> String {
        json!({"codes": self.codes, "pages": self.pages}).to_string()
    }

    fn from_record(record: &str) -> Self {
        let record: Value = serde_json::from_str(record).unwrap();
        let codes = record["codes"].as_array().unwrap();
        let pages = record["pages"].as_array().unwrap();
        Self {
            codes: codes
                .iter()
                .map(|c| c.as_str().unwrap().to_owned())
                .collect(),
            pages: pages.iter().map(|p| p.as_u64().unwrap()).collect(),
        }
    }

    /// A state is whole when every slot of its table still holds its page.
    fn check(&self, table: &[u32], store: &Store) {
        for (page, slot) in table.iter().enumerate() {
            assert_eq!(
                store.contents.get(slot),
                Some(&self.pages[page]),
                "slot {slot} of page {page} was reused while a state needed it"
            );
        }
    }
}

/// How a command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Done,
    Exception,
    Exit,
    Syntax,
    Refused,
    Limit,
    Unsupported,
    EngineFailed,
    Dies,
    /// Runs until it is interrupted.
    Loops,
    /// Runs until it is killed.
    Deaf,
}

/// The command a worker executes.
pub struct Doing {
    pub id: u64,
    pub op: String,
    pub fate: Fate,
    seq: u64,
    /// Slots that a save is writing.
    pub writes: Vec<(u32, u64)>,
    saved: PageTable,
}

/// A reply with its bulk data.
pub struct Said {
    pub message: Value,
    pub table: Option<PageTable>,
    pub record: Option<String>,
}

pub struct Worker {
    pub number: u64,
    pub doing: Option<Doing>,
    heap: Heap,
    table: PageTable,
    states: BTreeMap<u64, (Heap, PageTable)>,
    free: Vec<u32>,
    /// Slots of the base that are not written yet.
    pub base_writes: Vec<(u32, u64)>,
    honesty: Honesty,
}

impl Worker {
    /// A worker at its base, of which some pages are its own.
    pub fn boot(number: u64, mut free: Vec<u32>, honesty: Honesty, store: &mut Store) -> Self {
        let mut heap = Heap {
            codes: Vec::new(),
            pages: vec![0, 1, 2, 3, 0, 0],
        };
        let mut table = vec![0, 1, 2, 3, 0, 0];
        heap.pages[4] = number << 32;
        table[4] = free.pop().unwrap_or_else(|| store.never_used());
        Self {
            number,
            doing: None,
            states: BTreeMap::from([(0, (heap.clone(), table.clone()))]),
            base_writes: vec![(table[4], heap.pages[4])],
            heap,
            table,
            free,
            honesty,
        }
    }

    pub fn ready(&self) -> Said {
        Said {
            message: json!({"type": "ready", "heapBytes": PAGES * 4096, "bootMs": 1}),
            table: Some(self.table.clone()),
            record: None,
        }
    }

    /// Starts a command; what it will come to is decided now.
    pub fn start(&mut self, post: Post, store: &mut Store, rng: &mut Rng) {
        let command: Value = serde_json::from_str(&post.command.to_json()).unwrap();
        let op = command["op"].as_str().unwrap().to_owned();
        if let Some(free) = post.free {
            self.free = free;
        }
        let mut doing = Doing {
            id: command["id"].as_u64().unwrap(),
            fate: fate(&op, rng),
            seq: command["seq"].as_u64().unwrap_or(0),
            writes: Vec::new(),
            saved: Vec::new(),
            op,
        };
        match doing.op.as_str() {
            "run" if doing.fate != Fate::Syntax => {
                self.heap.run(command["code"].as_str().unwrap(), rng);
            }
            "save" if doing.fate != Fate::Refused && doing.fate != Fate::Limit => {
                self.reserve(&mut doing, store);
            }
            "restore" if doing.fate == Fate::Done => match self.states.get(&doing.seq).cloned() {
                Some((heap, table)) => {
                    self.check(&heap, &table, store);
                    (self.heap, self.table) = (heap, table);
                }
                // Who lied about an adoption does not have its state.
                None if self.honesty == Honesty::Lying => doing.fate = Fate::EngineFailed,
                None => panic!("worker {} does not hold {}", self.number, doing.seq),
            },
            "adopt" if doing.fate == Fate::Done => {
                let heap = Heap::from_record(&post.record.unwrap());
                let table = post.table.unwrap();
                self.check(&heap, &table, store);
                self.states.insert(doing.seq, (heap.clone(), table.clone()));
                (self.heap, self.table) = (heap, table);
            }
            "forget" => {
                for seq in command["seqs"].as_array().unwrap() {
                    self.states.remove(&seq.as_u64().unwrap());
                }
            }
            _ => {}
        }
        self.doing = Some(doing);
    }

    /// What a liar made is nobody's concern.
    fn check(&self, heap: &Heap, table: &[u32], store: &Store) {
        if self.honesty == Honesty::Truthful {
            heap.check(table, store);
        }
    }

    /// Takes a slot for every page that changed; they are written later.
    fn reserve(&mut self, doing: &mut Doing, store: &mut Store) {
        doing.saved = self.table.clone();
        for (page, slot) in doing.saved.iter_mut().enumerate() {
            let content = self.heap.pages[page];
            if store.contents.get(slot) != Some(&content) {
                *slot = self.free.pop().unwrap_or_else(|| store.never_used());
                doing.writes.push((*slot, content));
            }
        }
    }

    /// Ends the command with its reply; `None` when the worker dies of it.
    pub fn finish(&mut self, store: &mut Store) -> Option<Said> {
        let doing = self.doing.take().unwrap();
        let mut message = json!({
            "type": "reply", "id": doing.id, "ok": true, "durationMs": 1,
            "heapBytes": PAGES * 4096,
        });
        let mut said = (None, None);
        match doing.fate {
            Fate::Dies | Fate::Deaf => return None,
            Fate::Done => match doing.op.as_str() {
                "run" => message["value"] = self.heap.codes.join(",").into(),
                "save" => {
                    store.write(&doing.writes);
                    self.table = doing.saved;
                    self.check(&self.heap, &self.table, store);
                    let state = (self.heap.clone(), self.table.clone());
                    self.states.insert(doing.seq, state);
                    message["portable"] = true.into();
                    said = (Some(self.table.clone()), Some(self.heap.record()));
                }
                _ => message["pagesWritten"] = 1.into(),
            },
            Fate::Exception => fail(&mut message, "error", guest("exception")),
            Fate::Exit => fail(&mut message, "error", guest("exit")),
            Fate::Syntax => fail(&mut message, "error", guest("syntax")),
            Fate::Loops => fail(&mut message, "error", guest("interrupted")),
            Fate::Refused => fail(&mut message, "refused", json!({"reason": "stream"})),
            Fate::Limit => fail(&mut message, "limit", true.into()),
            Fate::Unsupported => fail(&mut message, "unsupported", "slots differ".into()),
            Fate::EngineFailed => fail(&mut message, "failed", "trap".into()),
        }
        Some(Said {
            message,
            table: said.0,
            record: said.1,
        })
    }
}

fn fail(message: &mut Value, member: &str, value: Value) {
    message["ok"] = false.into();
    message[member] = value;
}

fn guest(kind: &str) -> Value {
    json!({
        "kind": kind, "type": "E", "module": "m", "message": "boom", "traceback": "E: boom\n",
        "exitCode": null,
    })
}

fn fate(op: &str, rng: &mut Rng) -> Fate {
    let troubles = [(3, Fate::EngineFailed), (2, Fate::Dies), (2, Fate::Deaf)];
    let own: &[(u64, Fate)] = match op {
        "run" => &[
            (60, Fate::Done),
            (8, Fate::Exception),
            (4, Fate::Exit),
            (5, Fate::Syntax),
            (8, Fate::Loops),
            (3, Fate::Deaf),
        ],
        "save" => &[(85, Fate::Done), (4, Fate::Refused), (4, Fate::Limit)],
        "adopt" => &[(85, Fate::Done), (6, Fate::Unsupported)],
        _ => &[(92, Fate::Done)],
    };
    rng.weighted(&[own, &troubles].concat())
}
