//! One machine page: the core, its workers, and the script between them.

use pyproc_host::page::{
    MachinePage, PageInput, PageOutput, PageSettings, WorkerCommand, WorkerText,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

use crate::rng::Rng;
use crate::worker::{Fate, IMAGE_SLOTS, Said, Store, Worker};
use crate::world::{CAPABILITY, Event, Honesty};

/// Most things a page may ask for because of one input.
const MAX_OUTPUTS: usize = 16;

pub struct Page {
    pub link: u32,
    pub open: bool,
    core: MachinePage,
    store: Store,
    workers: BTreeMap<u64, Worker>,
    honesty: Honesty,
    /// Codes that a worker was given.
    pub executed: BTreeSet<String>,
    /// A message of one direction does not overtake another.
    last_sent: u64,
}

impl Page {
    pub fn new(link: u32, honesty: Honesty, rng: &mut Rng) -> Self {
        let settings = PageSettings {
            max_checkpoints: 3,
            boot_timeout_ms: 1000,
            spare: rng.chance(50),
            ..PageSettings::default()
        };
        let epoch = format!("epoch-{link}");
        Self {
            link,
            open: true,
            core: MachinePage::new(CAPABILITY, &epoch, settings, IMAGE_SLOTS).unwrap(),
            store: Store::new(),
            workers: BTreeMap::new(),
            honesty,
            executed: BTreeSet::new(),
            last_sent: 0,
        }
    }

    pub fn deadline(&self) -> Option<u64> {
        self.core.deadline().filter(|_| self.open)
    }

    /// Tells the core one thing; the result is what will happen because of it.
    pub fn tell(&mut self, now: u64, input: PageInput, rng: &mut Rng) -> Vec<(u64, Event)> {
        self.core.handle(now, input);
        let mut events = Vec::new();
        let mut outputs = 0;
        while let Some(output) = self.core.poll() {
            outputs += 1;
            assert!(outputs <= MAX_OUTPUTS, "one input, too many outputs");
            self.perform(now, output, rng, &mut events);
        }
        events
    }

    fn perform(
        &mut self,
        now: u64,
        output: PageOutput,
        rng: &mut Rng,
        events: &mut Vec<(u64, Event)>,
    ) {
        let page = self.link;
        match output {
            PageOutput::Send(text) => {
                self.last_sent = self.last_sent.max(now + rng.below(20));
                events.push((self.last_sent, Event::ToHost { page, text }));
            }
            PageOutput::Spawn(worker, free) => {
                let after = match rng.below(20) {
                    // Later than a worker may be.
                    0 => 1000 + rng.below(100),
                    _ => rng.below(400),
                };
                events.push((now + after, Event::Boot { page, worker }));
                let booting = Worker::boot(worker, free, self.honesty, &mut self.store);
                let used = self.workers.insert(worker, booting);
                assert!(used.is_none(), "worker {worker} was created twice");
            }
            PageOutput::Post(number, post) => {
                let worker = self.workers.get_mut(&number);
                let worker = worker.expect("a command for a worker that is there");
                assert!(
                    worker.doing.is_none() || self.honesty == Honesty::Lying,
                    "a command was posted before the reply to another"
                );
                if let WorkerCommand::Run { code, .. } = &post.command {
                    self.executed.insert(code.clone());
                }
                worker.start(post, &mut self.store, rng);
                let doing = worker.doing.as_ref().unwrap();
                let after = match rng.below(10) {
                    0 => rng.below(4000),
                    _ => rng.below(30),
                };
                let answers = !matches!(doing.fate, Fate::Deaf | Fate::Loops);
                if answers || (doing.op != "run" && doing.fate != Fate::Deaf) {
                    let (worker, command) = (number, doing.id);
                    let event = Event::Finish {
                        page,
                        worker,
                        command,
                    };
                    events.push((now + after, event));
                }
                if self.honesty == Honesty::Lying && rng.chance(15) {
                    events.push((
                        now + rng.below(40),
                        Event::Lie {
                            page,
                            worker: number,
                        },
                    ));
                }
            }
            PageOutput::Interrupt(number) => {
                let doing = self.workers.get(&number).and_then(|w| w.doing.as_ref());
                let loops = doing.filter(|doing| doing.fate == Fate::Loops);
                if let Some(doing) = loops
                    && rng.chance(70)
                {
                    let (worker, command) = (number, doing.id);
                    let event = Event::Finish {
                        page,
                        worker,
                        command,
                    };
                    events.push((now + rng.below(50), event));
                }
            }
            PageOutput::Kill(number) => {
                let mut writes = Vec::new();
                if let Some(worker) = self.workers.remove(&number) {
                    writes.extend(worker.base_writes);
                    writes.extend(worker.doing.into_iter().flat_map(|doing| doing.writes));
                }
                if !writes.is_empty() {
                    // The dying worker may still write what it was saving.
                    let event = Event::LateWrites { page, writes };
                    events.push((now + rng.below(9_000), event));
                }
                let event = Event::Killed {
                    page,
                    worker: number,
                };
                events.push((now, event));
            }
            PageOutput::KeepContents(_) => {}
            PageOutput::MakeImage { .. }
            | PageOutput::SendImage
            | PageOutput::SendDisplays
            | PageOutput::PlaceImage { .. } => panic!("nobody asked for an image"),
        }
    }

    /// A worker has booted, or not.
    pub fn boot(&mut self, worker: u64, rng: &mut Rng) -> Option<PageInput> {
        let booted = self.workers.get_mut(&worker)?;
        self.store.write(&std::mem::take(&mut booted.base_writes));
        let said = match (rng.below(100), booted) {
            (0..3, _) => Said {
                message: json!({"type": "failed", "code": "MACHINE_BOOT_FAILED", "message": "no"}),
                table: None,
                record: None,
            },
            (3, _) => return Some(PageInput::WorkerLost(worker, "crashed".to_owned())),
            (_, worker) => worker.ready(),
        };
        Some(heard(worker, said, None))
    }

    /// A worker ends its command.
    pub fn finish(&mut self, number: u64, command: u64) -> Option<PageInput> {
        let worker = self.workers.get_mut(&number)?;
        if worker
            .doing
            .as_ref()
            .is_none_or(|doing| doing.id != command)
        {
            return None;
        }
        Some(match worker.finish(&mut self.store) {
            Some(said) => heard(number, said, Some("out")),
            None => PageInput::WorkerLost(number, "crashed".to_owned()),
        })
    }

    /// A worker says what it must not.
    pub fn lie(&self, number: u64, rng: &mut Rng) -> Vec<PageInput> {
        let Some(worker) = self.workers.get(&number) else {
            return Vec::new();
        };
        let id = worker.doing.as_ref().map_or(1, |doing| doing.id);
        let table = Some(vec![0; PAGES_OF_A_LIE]);
        let (message, table, record) = match rng.below(9) {
            0 => (
                json!({"type": "reply", "id": id + 1, "ok": true}),
                None,
                None,
            ),
            1 => (json!({"type": "reply", "id": id, "ok": true}), None, None),
            2 => (
                json!({"type": "reply", "id": id, "ok": true, "x": 1}),
                None,
                None,
            ),
            3 => (
                json!({"type": "reply", "id": id, "ok": false, "limit": true}),
                None,
                None,
            ),
            4 => (
                json!({"type": "ready", "heapBytes": 1, "bootMs": 1}),
                table,
                None,
            ),
            5 => (Value::Null, None, None),
            6 => (
                json!({"type": "reply", "id": id, "ok": true}),
                Some(vec![u32::MAX]),
                Some("{}".to_owned()),
            ),
            7 => (
                json!({"type": "reply", "id": id, "ok": false, "refused": {"reason": "x"}}),
                None,
                None,
            ),
            _ => (
                json!({"type": "failed", "code": "MACHINE_KILLED", "message": "x"}),
                None,
                None,
            ),
        };
        let times = match rng.below(4) {
            0 => 20,
            _ => 1,
        };
        let lie = || {
            let said = Said {
                message: message.clone(),
                table: table.clone(),
                record: record.clone(),
            };
            heard(number, said, None)
        };
        (0..times).map(|_| lie()).collect()
    }

    pub fn write(&mut self, writes: &[(u32, u64)]) {
        self.store.write(writes);
    }

    /// The page has ended a worker and read what it had printed.
    pub fn killed(worker: u64) -> PageInput {
        let printed =
            json!({"stdout": "p", "stdoutBytes": 1, "stderrBytes": 0, "stdoutDropped": 0});
        PageInput::WorkerKilled(worker, printed.to_string())
    }
}

const PAGES_OF_A_LIE: usize = 2;

fn heard(worker: u64, said: Said, printed: Option<&str>) -> PageInput {
    let printed = printed.map(|stdout| {
        let bytes = stdout.len();
        json!({"stdout": stdout, "stdoutBytes": bytes, "stderrBytes": 0, "stdoutDropped": 0})
            .to_string()
    });
    let text = WorkerText {
        message: said.message.to_string(),
        printed,
        table: said.table,
        record: said.record,
    };
    PageInput::WorkerSaid(worker, text)
}
