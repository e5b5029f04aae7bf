//! Messages of the page bridge, and the page's core between a host and workers
//! that say anything. A script's steps:
//!
//! | Step | Meaning |
//! |---|---|
//! | `s0` | the page starts |
//! | `b0TEXT` | the host sends a message; `@` is the number of messages so far |
//! | `c0` | the host is gone |
//! | `w1FTEXT` | worker 1 sends a message; `@` is the id of its last command, the letter F says what travels beside it |
//! | `l1TEXT`, `k1TEXT` | worker 1 is lost, was killed |
//! | `t0MS` | time passes |
#![no_main]

use std::collections::{BTreeMap, BTreeSet};

use libfuzzer_sys::{Corpus, fuzz_target};
use pyproc_fuzz::{CAPABILITY, Step, check_line, duration, steps};
use pyproc_host::page::{MachinePage, PageInput, PageOutput, PageSettings, WorkerText};
use pyproc_protocol::bridge::{BridgeToken, Handshake, HostMessage, PageResult};

/// Most things a page may ask for because of one input, and of each command
/// that waits.
const MAX_OUTPUTS: u64 = 16;

/// Longest text of one message to the host: a reply and its envelope.
const MAX_SENT: usize = 983_040 + 4096;

fuzz_target!(|data: &[u8]| -> Corpus {
    let Ok(script) = std::str::from_utf8(data) else {
        return Corpus::Reject;
    };
    let token = BridgeToken::parse(CAPABILITY).expect("it is one");
    let mut page = Page::new();
    for step in steps(script) {
        if step.kind == b'b' {
            check_messages(step.text, &token);
        }
        page.step(&step);
    }
    page.finish();
    Corpus::Keep
});

/// What can be read can be written, and is read as the same again.
fn check_messages(text: &str, token: &BridgeToken) {
    if let Ok(message) = Handshake::decode(text.as_bytes(), token) {
        let line = message.encode(token).expect("a handshake fits");
        // Details that do not fit are left out.
        let again = Handshake::decode(line.as_bytes(), token).expect("it can be read");
        assert!(again == message || matches!(again, Handshake::BootFailed { details: None, .. }));
    }
    if let Ok(message) = HostMessage::decode(text.as_bytes()) {
        let line = message.encode().expect("it fits");
        check_line(&line);
        assert_eq!(HostMessage::decode(line.as_bytes()), Ok(message));
    }
    if let Ok(message) = PageResult::decode(text.as_bytes()) {
        let line = message.encode().expect("it fits");
        check_line(&line);
        assert_eq!(PageResult::decode(line.as_bytes()), Ok(message));
    }
}

struct Page {
    core: MachinePage,
    now: u64,
    messages: u64,
    /// Commands and answers by id.
    balance: BTreeMap<String, i64>,
    /// Id of the last command of each worker that lives.
    workers: BTreeMap<u64, u64>,
    dead: BTreeSet<u64>,
}

impl Page {
    fn new() -> Self {
        let settings = PageSettings {
            heap_limit_bytes: 64 << 20,
            store_limit_bytes: 64 << 20,
            max_checkpoints: 2,
            ..PageSettings::default()
        };
        Self {
            core: MachinePage::new(CAPABILITY, "e", settings, 3).expect("usable facts"),
            now: 0,
            messages: 0,
            balance: BTreeMap::new(),
            workers: BTreeMap::new(),
            dead: BTreeSet::new(),
        }
    }

    fn step(&mut self, step: &Step<'_>) {
        let worker = u64::from(step.number);
        let input = match step.kind {
            b's' => PageInput::Start,
            b'b' => {
                self.messages += 1;
                let text = step.text.replace('@', &self.messages.to_string());
                if let Ok(HostMessage::Command { request_id, .. }) =
                    HostMessage::decode(text.as_bytes())
                {
                    *self.balance.entry(request_id.to_string()).or_default() += 1;
                }
                PageInput::BridgeMessage(text)
            }
            b'c' => PageInput::BridgeClosed,
            b'w' => PageInput::WorkerSaid(worker, self.said(worker, step.text)),
            b'l' => PageInput::WorkerLost(worker, step.text.to_owned()),
            b'k' => PageInput::WorkerKilled(worker, step.text.to_owned()),
            b't' => {
                self.now += duration(step.text);
                PageInput::Tick
            }
            _ => return,
        };
        self.tell(input);
    }

    fn said(&self, worker: u64, text: &str) -> WorkerText {
        let beside = text.bytes().next().unwrap_or(b'0');
        let text = text.get(1..).unwrap_or_default();
        let id = self.workers.get(&worker).copied().unwrap_or(0);
        let table = match beside & 3 {
            0 => None,
            1 => Some([vec![1; 32], vec![4 + u32::from(beside)]].concat()),
            2 => Some(vec![0; 40_000]),
            _ => Some(vec![u32::MAX]),
        };
        let printed = r#"{"stdout":"x\u2028","stdoutBytes":4,"stderrBytes":0,"stdoutDropped":0}"#;
        WorkerText {
            message: text.replace('@', &id.to_string()),
            printed: (beside & 4 != 0).then(|| printed.to_owned()),
            table,
            record: (beside & 8 != 0).then(|| "{}".to_owned()),
        }
    }

    fn tell(&mut self, input: PageInput) {
        self.core.handle(self.now, input);
        let mut outputs = 0;
        while let Some(output) = self.core.poll() {
            outputs += 1;
            let most = MAX_OUTPUTS * (self.messages + 1);
            assert!(outputs <= most, "one input, too many outputs");
            self.perform(output);
        }
        let due = self.core.deadline();
        assert!(due.is_none_or(|at| at > self.now), "a deadline in the past");
    }

    fn perform(&mut self, output: PageOutput) {
        match output {
            PageOutput::Send(text) => self.check_sent(&text),
            PageOutput::Spawn(worker, _) => {
                assert!(!self.dead.contains(&worker));
                assert_eq!(self.workers.insert(worker, 0), None, "created twice");
                assert!(self.workers.len() <= 3, "present, fresh and spare");
            }
            PageOutput::Post(worker, post) => {
                let command: serde_json::Value =
                    serde_json::from_str(&post.command.to_json()).expect("a command is JSON");
                let last = self.workers.get_mut(&worker).expect("it lives");
                let id = command["id"].as_u64().expect("a number");
                assert!(id > *last, "command numbers grow");
                *last = id;
            }
            PageOutput::Interrupt(worker) => assert!(self.workers.contains_key(&worker)),
            PageOutput::Kill(worker) => {
                assert!(self.workers.remove(&worker).is_some(), "killed twice");
                self.dead.insert(worker);
            }
            PageOutput::KeepContents(_)
            | PageOutput::MakeImage { .. }
            | PageOutput::SendImage
            | PageOutput::SendDisplays
            | PageOutput::PlaceImage { .. } => {}
        }
    }

    fn check_sent(&mut self, text: &str) {
        check_line(text);
        assert!(text.len() <= MAX_SENT, "{} bytes", text.len());
        let token = BridgeToken::parse(CAPABILITY).expect("it is one");
        match PageResult::decode(text.as_bytes()) {
            Ok(result) => {
                let open = self.balance.get_mut(result.request_id.as_str());
                let open = open.expect("the answer to a command");
                *open -= 1;
                assert!(*open >= 0, "two answers to one command");
            }
            Err(_) => {
                Handshake::decode(text.as_bytes(), &token).expect("a result or a handshake");
            }
        }
    }

    /// Whatever happened, the page comes to rest when its workers are quiet.
    fn finish(&mut self) {
        for _ in 0..200 {
            let Some(at) = self.core.deadline() else {
                return;
            };
            self.now = at;
            self.tell(PageInput::Tick);
            for worker in std::mem::take(&mut self.dead) {
                self.tell(PageInput::WorkerKilled(worker, String::new()));
            }
        }
        panic!("the page keeps waking up");
    }
}
