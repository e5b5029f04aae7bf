//! The host against a scripted agent, page and clock (control protocol 3.9,
//! 3.10, 6.3 to 6.6).

use pyproc_host::{Host, HostSettings, Input, Output, Purpose};
use serde_json::{Value, json};

pub const CAPABILITY: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQ";

/// A host and everything it has said.
pub struct Rig {
    pub host: Host,
    pub now: u64,
    pub agent: Vec<Value>,
    pub page: Vec<(u32, Value)>,
    pub closed: Vec<(u32, u16, String)>,
    pub exit: Option<u8>,
    pub images: Vec<Output>,
    pub diagnostics: Vec<String>,
}

impl Rig {
    pub fn new() -> Self {
        Self::with_save_on_exit(false)
    }

    pub fn with_save_on_exit(save_on_exit: bool) -> Self {
        let host = Host::new(HostSettings {
            capability: CAPABILITY.to_owned(),
            operations: [
                "machine.run",
                "machine.checkpoint.save",
                "machine.checkpoint.restore",
                "machine.reset",
                "machine.image.export",
                "machine.image.import",
            ]
            .map(str::to_owned)
            .to_vec(),
            automation_space: None,
            timeout_ms: 1000,
            boot_timeout_ms: 180_000,
            save_on_exit,
        });
        let mut rig = Self {
            host: host.unwrap(),
            now: 0,
            agent: Vec::new(),
            page: Vec::new(),
            closed: Vec::new(),
            exit: None,
            images: Vec::new(),
            diagnostics: Vec::new(),
        };
        rig.agent_says(&json!({
            "protocol": "pyproc-control", "version": 1, "type": "hello", "requestId": "h:1", "role": "client",
            "peer": {"name": "t", "version": "1"},
            "capabilities": {"cancel": true, "events": false, "attachments": {"encoding": "base64", "maxChunkBytes": 64}},
        }));
        assert_eq!(rig.agent.remove(0)["type"], "hello");
        rig
    }

    pub fn ready() -> Self {
        let mut rig = Self::new();
        rig.page_ready(1, "epoch-1");
        rig
    }

    pub fn tell(&mut self, input: Input) {
        self.host.handle(self.now, input);
        while let Some(output) = self.host.poll() {
            match output {
                Output::AgentLine(line) => {
                    assert!(line.ends_with('\n') && line.matches('\n').count() == 1);
                    self.agent.push(serde_json::from_str(&line).unwrap());
                }
                Output::PageMessage(link, text) => {
                    self.page.push((link, serde_json::from_str(&text).unwrap()));
                }
                Output::PageClose { link, code, reason } => self.closed.push((link, code, reason)),
                Output::Ledger(..) => {}
                Output::Diagnostic(text) => self.diagnostics.push(text),
                image @ (Output::ImageOpen { .. } | Output::Receive { .. }) => {
                    self.images.push(image);
                }
                Output::Exit(code) => self.exit = Some(code),
            }
        }
    }

    pub fn agent_says(&mut self, frame: &Value) {
        self.tell(Input::AgentBytes(format!("{frame}\n").into_bytes()));
    }

    pub fn request(&mut self, id: &str, operation: &str, input: Value) {
        self.agent_says(&json!({
            "protocol": "pyproc-control", "version": 1, "type": "request",
            "requestId": id, "operation": operation, "input": input,
        }));
    }

    pub fn run(&mut self, id: &str) {
        self.request(id, "machine.run", json!({"code": id}));
    }

    pub fn cancel(&mut self, id: &str, reason: &str) {
        self.agent_says(&json!({
            "protocol": "pyproc-control", "version": 1, "type": "cancel", "requestId": id, "reason": reason,
        }));
    }

    pub fn page_ready(&mut self, link: u32, epoch: &str) {
        self.tell(Input::PageOpened(link));
        let ready = json!({
            "type": "ready", "protocol": "pyproc-control", "version": 1, "pageEpoch": epoch,
            "spaceId": "machine:primary", "token": CAPABILITY,
        });
        self.tell(Input::PageMessage(link, ready.to_string()));
    }

    /// The command the page is working on; it must be the only message left.
    pub fn command(&mut self) -> Value {
        assert_eq!(self.page.len(), 1, "{:?}", self.page);
        let (_, message) = self.page.remove(0);
        assert_eq!(message["type"], "command");
        message
    }

    pub fn answer(&mut self, command: &Value, value: Value) {
        let result = json!({
            "type": "result", "requestId": command["requestId"], "pageEpoch": command["pageEpoch"],
            "ok": true, "value": value,
        });
        self.tell(Input::PageMessage(1, result.to_string()));
    }

    pub fn refuse(&mut self, command: &Value, error: Value) {
        let result = json!({
            "type": "result", "requestId": command["requestId"], "pageEpoch": command["pageEpoch"],
            "ok": false, "error": error,
        });
        self.tell(Input::PageMessage(1, result.to_string()));
    }

    /// What the shell is to receive from the page: its ticket.
    pub fn receiving(&mut self, byte_length: u64, purpose: Purpose) -> u64 {
        assert_eq!(self.images.len(), 1, "{:?}", self.images);
        match self.images.remove(0) {
            Output::Receive {
                ticket,
                link: 1,
                byte_length: announced,
                purpose: told,
            } => {
                assert_eq!((announced, told), (byte_length, purpose));
                ticket
            }
            other => panic!("{other:?}"),
        }
    }

    pub fn wait(&mut self, now: u64) {
        self.now = now;
        self.tell(Input::Tick);
    }

    /// Terminals so far as `id code outcome retryable`.
    pub fn terminals(&mut self) -> Vec<String> {
        let said = std::mem::take(&mut self.agent);
        let text = |frame: Value| {
            let id = frame["requestId"].as_str().unwrap_or("-").to_owned();
            match frame["type"].as_str() {
                Some("response") => format!("{id} ok {}", frame["output"]),
                Some("error") => {
                    let error = &frame["error"];
                    let word = |name: &str| error[name].as_str().unwrap().to_owned();
                    format!(
                        "{id} {} {} {}",
                        word("code"),
                        word("outcome"),
                        error["retryable"]
                    )
                }
                _ => panic!("{frame}"),
            }
        };
        said.into_iter().map(text).collect()
    }
}
