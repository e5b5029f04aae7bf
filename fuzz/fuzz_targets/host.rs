//! The host between an agent and pages that say anything. A script's steps:
//!
//! | Step | Meaning |
//! |---|---|
//! | `a0TEXT` | the agent sends a line |
//! | `p0TEXT` | the agent sends part of a line |
//! | `e0`, `x0` | the agent's stream ends, the shell must stop |
//! | `o1` | page connection 1 is accepted |
//! | `m1TEXT` | it sends a message; `@` is the id of the last command |
//! | `d1`, `n1` | it ends, it sends something that is not acceptable |
//! | `f0TEXT` | the page cannot come up |
//! | `t0MS` | time passes |
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::{Corpus, fuzz_target};
use pyproc_fuzz::{CAPABILITY, Step, check_line, duration, steps};
use pyproc_host::{Host, HostSettings, Input, Output};
use pyproc_protocol::Frame;
use pyproc_protocol::bridge::HostMessage;

fuzz_target!(|data: &[u8]| -> Corpus {
    let Ok(script) = std::str::from_utf8(data) else {
        return Corpus::Reject;
    };
    let mut shell = Shell::new();
    for step in steps(script) {
        shell.step(&step);
    }
    shell.finish();
    Corpus::Keep
});

struct Shell {
    host: Host,
    now: u64,
    /// Terminals by request id.
    terminals: BTreeMap<String, u32>,
    last_command: String,
    exit: Option<u8>,
    fatal: bool,
}

impl Shell {
    fn new() -> Self {
        let operations = [
            "machine.run",
            "machine.checkpoint.save",
            "machine.checkpoint.restore",
            "machine.reset",
            "automation.observe",
        ];
        let settings = HostSettings {
            capability: CAPABILITY.to_owned(),
            operations: operations.map(str::to_owned).to_vec(),
            automation_space: Some("space:native".to_owned()),
            timeout_ms: 1000,
            boot_timeout_ms: 180_000,
            save_on_exit: false,
        };
        Self {
            host: Host::new(settings).expect("usable settings"),
            now: 0,
            terminals: BTreeMap::new(),
            last_command: String::new(),
            exit: None,
            fatal: false,
        }
    }

    fn step(&mut self, step: &Step<'_>) {
        let link = u32::from(step.number);
        let text = step.text;
        let input = match step.kind {
            b'a' => Input::AgentBytes(format!("{text}\n").into_bytes()),
            b'p' => Input::AgentBytes(text.as_bytes().to_vec()),
            b'e' => Input::AgentEof,
            b'x' => Input::Stop(text.to_owned()),
            b'o' => Input::PageOpened(link),
            b'm' => Input::PageMessage(link, text.replace('@', &self.last_command)),
            b'd' => Input::PageClosed(link),
            b'n' => Input::PageBroken(link),
            b'f' => Input::PageFailed(text.to_owned()),
            b't' => {
                self.now += duration(text);
                Input::Tick
            }
            _ => return,
        };
        self.tell(input);
    }

    fn tell(&mut self, input: Input) {
        self.host.handle(self.now, input);
        while let Some(output) = self.host.poll() {
            self.perform(output);
        }
        let due = self.host.deadline();
        assert!(due.is_none_or(|at| at > self.now), "a deadline in the past");
    }

    fn perform(&mut self, output: Output) {
        match output {
            Output::AgentLine(line) => {
                assert_eq!(self.exit, None, "a line after the exit");
                assert!(!self.fatal, "a line after a fatal one");
                self.check_line(line.strip_suffix('\n').expect("a whole line"));
            }
            Output::PageMessage(_, text) => {
                let message = HostMessage::decode(text.as_bytes());
                if let HostMessage::Command { request_id, .. } = message.expect("a host message") {
                    self.last_command = request_id.to_string();
                }
            }
            Output::Exit(code) => {
                assert_eq!(self.exit.replace(code), None, "a second exit");
                assert_eq!(code == 1, self.fatal, "1 is the exit of a fatal error");
            }
            Output::ImageOpen { .. } | Output::Receive { .. } | Output::Diagnostic(_) => {
                panic!("nobody asked for an image")
            }
            Output::PageClose { .. } | Output::Ledger(..) => {}
        }
    }

    fn check_line(&mut self, line: &str) {
        check_line(line);
        match Frame::decode(line.as_bytes()).expect("the host writes frames") {
            Frame::Hello(_) | Frame::Attachment(_) => {}
            Frame::Response(response) => self.count(response.request_id.as_str()),
            Frame::Error(_) => {
                let frame: serde_json::Value = serde_json::from_str(line).expect("it is JSON");
                match frame["fatal"].as_bool() {
                    Some(true) => self.fatal = true,
                    _ => self.count(frame["requestId"].as_str().expect("whose error it is")),
                }
            }
            frame => panic!("the host does not write {}", frame.kind()),
        }
    }

    fn count(&mut self, id: &str) {
        let terminals = self.terminals.entry(id.to_owned()).or_default();
        *terminals += 1;
        assert_eq!(*terminals, 1, "two terminals for {id}");
    }

    /// Whatever happened, the end of the input ends the host in time.
    fn finish(&mut self) {
        self.tell(Input::AgentEof);
        for _ in 0..100_000 {
            let Some(at) = self.host.deadline() else {
                break;
            };
            self.now = at;
            self.tell(Input::Tick);
        }
        assert!(self.exit.is_some(), "the end of input ends the host");
        assert_eq!(self.host.deadline(), None, "the host keeps waking up");
    }
}
