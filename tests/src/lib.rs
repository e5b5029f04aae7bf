//! What the product tests share: starting a real product in a home of its own,
//! speaking to it line by line or as a client, and looking at what it leaves.
//!
//! Tests panic where a condition does not hold; that is their verdict.

pub mod bench;
mod gate;
pub mod http;
mod machine;
mod product;
pub mod python;
pub mod random;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use pyproc_native_shell::client::ControlClient;
use pyproc_protocol::frame::Peer;
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use tokio::process::Command;
use tokio::time::timeout;

pub use machine::Machine;
pub use product::Product;

/// Longest wait for anything the product must do; a bound for hangs, never a
/// measurement.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The folder of this build: tests are in its `deps`, programs in itself.
fn profile_folder() -> PathBuf {
    let program = std::env::current_exe().expect("a running program has a path");
    let folder = program.parent().expect("a program is in a folder");
    let profile = match folder.ends_with("deps") {
        true => folder
            .parent()
            .expect("dependencies are in the profile folder"),
        false => folder,
    };
    profile.to_owned()
}

/// A binary of the product, built by the same cargo run as the test.
pub fn binary(name: &str) -> PathBuf {
    let path = profile_folder().join(name);
    assert!(
        path.is_file(),
        "{} is missing: run `cargo build` first",
        path.display()
    );
    path
}

/// The prepared engine directory (`cargo xtask setup` makes it).
pub fn engine() -> PathBuf {
    let root = std::env::var_os("PYPROC_TEST_ENGINE").expect(
        "PYPROC_TEST_ENGINE names the engine directory: run the tests with `cargo xtask test`",
    );
    PathBuf::from(root)
        .canonicalize()
        .expect("the engine directory exists")
}

/// The browser that the product finds.
pub fn browser() -> PathBuf {
    pyproc_native_shell::browser::find_browser(None).expect("a browser is installed")
}

/// The smallest manifest.
pub fn manifest() -> Value {
    json!({"schemaVersion": 1, "engine": {"root": engine()}})
}

/// The smallest manifest with more members.
pub fn manifest_with(more: Value) -> Value {
    let mut manifest = members(manifest());
    manifest.extend(members(more));
    Value::Object(manifest)
}

/// The bytes of a test vector, by its path below `cases`.
pub fn vector(path: &str) -> Vec<u8> {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
    std::fs::read(cases.join(path)).expect("the vector exists")
}

/// A place for one product: its manifest, its temporary directory.
pub struct Home {
    dir: TempDir,
    manifest: Value,
}

impl Default for Home {
    fn default() -> Self {
        Self::new(manifest())
    }
}

impl Home {
    pub fn new(manifest: Value) -> Self {
        gate::enter();
        let dir = tempfile::tempdir().expect("a temporary directory");
        std::fs::create_dir(dir.path().join("tmp")).expect("a directory");
        std::fs::write(dir.path().join("machine.json"), manifest.to_string()).expect("a manifest");
        Self { dir, manifest }
    }

    /// The same home with more members in its manifest.
    pub fn with(mut self, more: Value) -> Self {
        for (name, value) in members(more) {
            self.manifest[name] = value;
        }
        std::fs::write(self.config(), self.manifest.to_string()).expect("a manifest");
        self
    }

    /// A home whose browser is a shell script with this last line.
    pub fn with_browser(line: &str) -> Self {
        let mut home = Self::default();
        let script = home.path().join("browser.sh");
        std::fs::write(&script, format!("#!/bin/sh\n{line}\n")).expect("a script");
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&script, executable).expect("a mode");
        home.manifest["browser"] = json!({"executable": script});
        std::fs::write(home.config(), home.manifest.to_string()).expect("a manifest");
        home
    }

    /// A home whose browser never opens its page. What it was started with is
    /// in the file `arguments`, one a line.
    pub fn pageless() -> Self {
        Self::with_browser("printf '%s\\n' \"$@\" > \"${0%/*}/arguments\"\nexec sleep 600")
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn manifest(&self) -> &Value {
        &self.manifest
    }

    pub fn config(&self) -> PathBuf {
        self.path().join("machine.json")
    }

    /// Where the product puts browser profiles.
    pub fn temporary(&self) -> PathBuf {
        self.path().join("tmp")
    }

    /// Profile directories that exist now.
    pub fn profiles(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.temporary()).expect("the directory");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        paths
            .filter(|path| path.to_string_lossy().contains("pyproc-browser-"))
            .collect()
    }

    /// Processes that name this home in their command line or environment,
    /// that is the product and everything it started.
    pub fn processes(&self) -> Vec<i32> {
        let needle = self.path().to_string_lossy().into_owned();
        let own = std::process::id().to_string();
        let entries = std::fs::read_dir("/proc").expect("procfs");
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names
            .filter(|name| *name != own)
            .filter(|name| {
                ["cmdline", "environ"].iter().any(|file| {
                    let bytes = std::fs::read(format!("/proc/{name}/{file}")).unwrap_or_default();
                    String::from_utf8_lossy(&bytes).contains(&needle)
                })
            })
            .filter_map(|name| name.parse().ok())
            .collect()
    }

    /// Waits until nothing of the product is left: no process, no profile.
    pub async fn is_left_clean(&self) {
        let clean = async {
            while !self.processes().is_empty() || !self.profiles().is_empty() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        if timeout(Duration::from_secs(10), clean).await.is_err() {
            panic!("left behind: {:?} {:?}", self.processes(), self.profiles());
        }
    }

    /// `pyproc-control` with these arguments; its home and temporary directory
    /// are here, its boot images are shared by all tests.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary("pyproc-control"));
        command
            .args(arguments)
            .env("TMPDIR", self.temporary())
            .env("HOME", self.path())
            .env("XDG_CACHE_HOME", shared_cache())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Serves on pipes.
    pub fn serve(&self) -> Product {
        let config = self.config();
        let config = config.to_str().expect("temporary paths are text");
        Product::spawn(self.command(&["--config", config]))
    }

    /// Serves and says hello.
    pub async fn open(&self) -> Product {
        let mut product = self.serve();
        product.send(&hello()).await;
        let reply = product.frame().await;
        assert_eq!(reply["type"], "hello", "{reply}");
        product
    }

    /// Serves a client.
    pub async fn connect(&self) -> Machine {
        let mut product = self.serve();
        let reader = product.output.take().expect("not taken").into_inner();
        let writer = product.input.take().expect("not taken");
        let peer = Peer::new("tests", "1").expect("a peer");
        let client = ControlClient::connect(reader, writer, peer)
            .await
            .expect("a hello");
        Machine { client, product }
    }
}

/// Boot images are the same for all tests: made by the first one.
fn shared_cache() -> PathBuf {
    profile_folder().join("test-cache")
}

/// A client hello as every client says it.
pub fn hello() -> Value {
    frame(
        "hello",
        json!({
            "requestId": "h:1",
            "role": "client",
            "peer": {"name": "tests", "version": "1"},
            "capabilities": {"cancel": true, "events": false, "attachments": {"encoding": "base64", "maxChunkBytes": 65536}},
        }),
    )
}

/// A frame with the common members.
pub fn frame(kind: &str, members: Value) -> Value {
    let mut frame = json!({"protocol": "pyproc-control", "version": 1, "type": kind});
    let (Value::Object(frame_members), Value::Object(members)) = (&mut frame, members) else {
        panic!("members are an object");
    };
    frame_members.extend(members);
    frame
}

/// A request frame.
pub fn request(id: &str, operation: &str, input: Value) -> Value {
    frame(
        "request",
        json!({"requestId": id, "operation": operation, "input": input}),
    )
}

/// A run request.
pub fn run(id: &str, code: &str) -> Value {
    request(id, "machine.run", json!({"code": code}))
}

/// A cancel frame.
pub fn cancel(id: &str, reason: &str) -> Value {
    frame("cancel", json!({"requestId": id, "reason": reason}))
}

/// Members of an object, for requests built by hand.
pub fn members(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        other => panic!("not an object: {other}"),
    }
}

/// What a product answers to `bytes` after its hello when they end the
/// connection: the fatal code and the frames before it.
pub async fn fatal_after_hello(bytes: &[u8]) -> (String, Vec<Value>) {
    let home = Home::default();
    let mut product = home.open().await;
    product.write(bytes).await;
    let end = product.fatal().await;
    home.is_left_clean().await;
    end
}

/// What a product answers to `bytes` as its first input when they end the
/// connection: the fatal code. No hello was answered.
pub async fn fatal_at_first(bytes: &[u8]) -> String {
    let home = Home::default();
    let mut product = home.serve();
    product.write(bytes).await;
    let (code, before) = product.fatal().await;
    assert_eq!(before, Vec::<Value>::new());
    home.is_left_clean().await;
    code
}

/// A frame as one line.
pub fn line(frame: &Value) -> Vec<u8> {
    format!("{frame}\n").into_bytes()
}
