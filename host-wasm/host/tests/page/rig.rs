//! A page core and everything it asked for.

use pyproc_host::page::{MachinePage, PageInput, PageOutput, PageSettings, PageTable, WorkerText};
use serde_json::{Map, Value, json};
use std::collections::VecDeque;

pub const CAPABILITY: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQ";
pub const EPOCH: &str = "epoch-1";

/// Slots 1 to this hold the boot image.
pub const IMAGE_SLOTS: u32 = 3;

/// Settings without a spare, so that a test starts no worker it does not mean.
pub fn settings() -> PageSettings {
    PageSettings {
        spare: false,
        ..PageSettings::default()
    }
}

/// The base table of an incarnation: one slot of the image, one of its own.
pub fn base_table(worker: u64) -> PageTable {
    vec![1, 100 * u32::try_from(worker).unwrap()]
}

/// A command that a worker was given.
pub struct Posted {
    pub worker: u64,
    pub command: Value,
    pub table: Option<PageTable>,
    pub record: Option<String>,
    pub free: Option<Vec<u32>>,
}

pub struct Rig {
    page: MachinePage,
    pub now: u64,
    sent: VecDeque<Value>,
    work: VecDeque<PageOutput>,
    commands: u64,
}

impl Rig {
    /// A page that has not started.
    pub fn new(settings: PageSettings) -> Self {
        Self {
            page: MachinePage::new(CAPABILITY, EPOCH, settings, IMAGE_SLOTS).unwrap(),
            now: 0,
            sent: VecDeque::new(),
            work: VecDeque::new(),
            commands: 0,
        }
    }

    /// A machine at its base in worker 1.
    pub fn booted() -> Self {
        Self::booted_with(settings())
    }

    pub fn booted_with(settings: PageSettings) -> Self {
        let mut rig = Self::new(settings);
        rig.tell(PageInput::Start);
        rig.boots(1);
        assert_eq!(rig.said()["type"], "ready");
        rig
    }

    pub fn tell(&mut self, input: PageInput) {
        self.page.handle(self.now, input);
        while let Some(output) = self.page.poll() {
            match output {
                PageOutput::Send(text) => self.sent.push_back(serde_json::from_str(&text).unwrap()),
                work => self.work.push_back(work),
            }
        }
    }

    pub fn wait_until(&mut self, now: u64) {
        self.now = now;
        self.tell(PageInput::Tick);
    }

    /// Moves to the moment the page asked for.
    pub fn wait(&mut self) {
        self.wait_until(self.page.deadline().unwrap());
    }

    pub fn deadline(&self) -> Option<u64> {
        self.page.deadline()
    }

    /// The next message to the host; it must be there.
    pub fn said(&mut self) -> Value {
        let said = self.sent.pop_front();
        said.unwrap_or_else(|| panic!("nothing was sent; work: {:?}", self.work))
    }

    /// The next piece of work; it must be there.
    pub fn work(&mut self) -> PageOutput {
        let work = self.work.pop_front();
        work.unwrap_or_else(|| panic!("there is no work; sent: {:?}", self.sent))
    }

    /// Nothing was said and nothing is to be done.
    pub fn quiet(&self) {
        assert!(
            self.sent.is_empty() && self.work.is_empty(),
            "sent: {:?}, work: {:?}",
            self.sent,
            self.work
        );
    }

    /// A worker is created; the result is the free slots it was given.
    pub fn spawns(&mut self, worker: u64) -> Vec<u32> {
        match self.work() {
            PageOutput::Spawn(number, free) if number == worker => free,
            other => panic!("no worker {worker} was created: {other:?}"),
        }
    }

    /// A worker is created and gets to its base.
    pub fn boots(&mut self, worker: u64) {
        self.spawns(worker);
        self.is_ready(worker);
    }

    pub fn is_ready(&mut self, worker: u64) {
        self.says(
            worker,
            &json!({"type": "ready", "heapBytes": 8192, "bootMs": 5}),
            Some(base_table(worker)),
            None,
        );
    }

    /// A worker sends a message with bulk data beside it.
    pub fn says(
        &mut self,
        worker: u64,
        message: &Value,
        table: Option<PageTable>,
        record: Option<&str>,
    ) {
        self.tell(PageInput::WorkerSaid(
            worker,
            WorkerText {
                message: message.to_string(),
                printed: None,
                table,
                record: record.map(str::to_owned),
            },
        ));
    }

    /// A worker is ended; `stdout` is what it had printed.
    pub fn ends(&mut self, worker: u64, stdout: &str) {
        assert_eq!(self.work(), PageOutput::Kill(worker));
        self.tell(PageInput::WorkerKilled(worker, printed(stdout)));
    }

    pub fn interrupts(&mut self, worker: u64) {
        assert_eq!(self.work(), PageOutput::Interrupt(worker));
    }

    /// The host sends a command; the result is its id.
    pub fn command(&mut self, operation: &str, input: Value) -> String {
        self.commands += 1;
        let id = format!("command:{}", self.commands);
        let message = json!({
            "type": "command", "requestId": id, "pageEpoch": EPOCH,
            "operation": operation, "input": input,
        });
        self.tell(PageInput::BridgeMessage(message.to_string()));
        id
    }

    pub fn interrupt(&mut self, id: &str, grace_ms: Option<u32>) {
        let mut message = json!({"type": "interrupt", "requestId": id, "pageEpoch": EPOCH});
        if let Some(grace) = grace_ms {
            message["graceMs"] = grace.into();
        }
        self.tell(PageInput::BridgeMessage(message.to_string()));
    }

    /// The command that a worker got; it must be the next piece of work.
    pub fn posted(&mut self, operation: &str) -> Posted {
        match self.work() {
            PageOutput::Post(worker, post) => {
                let command: Value = serde_json::from_str(&post.command.to_json()).unwrap();
                assert_eq!(command["op"], operation, "{command}");
                Posted {
                    worker,
                    command,
                    table: post.table,
                    record: post.record,
                    free: post.free,
                }
            }
            other => panic!("not a command: {other:?}"),
        }
    }

    /// A worker answers a command with these members.
    pub fn reply(&mut self, posted: &Posted, members: Value) {
        self.reply_with(posted, members, "", None, None);
    }

    pub fn reply_with(
        &mut self,
        posted: &Posted,
        members: Value,
        stdout: &str,
        table: Option<PageTable>,
        record: Option<&str>,
    ) {
        let text = WorkerText {
            message: reply_text(posted, members),
            printed: Some(printed(stdout)),
            table,
            record: record.map(str::to_owned),
        };
        self.tell(PageInput::WorkerSaid(posted.worker, text));
    }

    /// The answer to a command: its output, or its error.
    pub fn answer(&mut self) -> Result<Value, Value> {
        let mut said = self.said();
        assert_eq!(said["type"], "result", "{said}");
        assert_eq!(said["pageEpoch"], EPOCH);
        match said["ok"].as_bool().unwrap() {
            true => Ok(said["value"].take()),
            false => Err(said["error"].take()),
        }
    }

    /// A run that prints nothing and has no value.
    pub fn run(&mut self, code: &str) {
        self.command("machine.run", json!({"code": code}));
        let run = self.posted("run");
        assert_eq!(run.command["code"], code);
        self.reply(&run, json!({}));
        self.answer().unwrap();
    }

    /// A save whose heap has these slots; the result is its output.
    pub fn save(&mut self, table: &[u32]) -> Value {
        self.command("machine.checkpoint.save", json!({}));
        self.saves(table);
        self.answer().unwrap()
    }

    /// The worker performs the save it was told to.
    pub fn saves(&mut self, table: &[u32]) -> Posted {
        let save = self.posted("save");
        let record = format!("{{\"seq\":{}}}", save.command["seq"]);
        let members = json!({
            "changedPages": 1, "fresh": false, "heapBytes": 8192, "portable": true, "identities": [],
        });
        self.reply_with(&save, members, "", Some(table.to_vec()), Some(&record));
        save
    }

    /// The machine was idle long enough: it takes its guard.
    pub fn takes_guard(&mut self, table: &[u32]) {
        self.wait_until(self.now + 10);
        self.saves(table);
        assert!(matches!(self.work(), PageOutput::KeepContents(_)));
        self.quiet();
    }

    /// The worker takes over the state it was given.
    pub fn adopts(&mut self, worker: u64) -> Posted {
        let adopt = self.posted("adopt");
        assert_eq!(adopt.worker, worker);
        self.reply(&adopt, json!({"pagesWritten": 9}));
        adopt
    }
}

fn reply_text(posted: &Posted, members: Value) -> String {
    let Value::Object(mut reply) = members else {
        panic!("members are an object")
    };
    let defaults = json!({
        "type": "reply", "id": posted.command["id"], "ok": true, "durationMs": 1,
    });
    let Value::Object(defaults) = defaults else {
        unreachable!()
    };
    for (name, value) in defaults {
        reply.entry(name).or_insert(value);
    }
    Value::Object(reply).to_string()
}

/// What the page read from an output block.
pub fn printed(stdout: &str) -> String {
    let bytes = stdout.len();
    json!({"stdout": stdout, "stdoutBytes": bytes, "stderrBytes": 0, "stdoutDropped": 0})
        .to_string()
}

/// `code outcome retryable` of an error.
pub fn verdict(error: &Value) -> String {
    let word = |name: &str| error[name].as_str().unwrap().to_owned();
    format!(
        "{} {} {}",
        word("code"),
        word("outcome"),
        error["retryable"]
    )
}

/// `details.restored` as the contract spells it.
pub fn restored(kind: &str, index: Option<u64>, lost_runs: u64) -> Value {
    json!({"kind": kind, "index": index, "lostRuns": lost_runs})
}

/// The members of `value` but those that a test does not look at.
pub fn without(value: &Value, names: &[&str]) -> Value {
    let members = value.as_object().unwrap().iter();
    let kept: Map<_, _> = members
        .filter(|(name, _)| !names.contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    Value::Object(kept)
}
