//! Durable images: the machine's state outlives the process (machine 17.5, 18;
//! conformance 37).

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pyproc_native_shell::client::{ControlClient, Pending};
use pyproc_protocol::ControlError;
use pyproc_protocol::FailureOutcome::{NotSent, Rejected};
use pyproc_protocol::frame::Peer;
use pyproc_protocol::limits::MAX_ATTACHMENT;
use pyproc_tests::{Home, Machine, Product, manifest_with, members};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// An end with nothing running, and one with work running, take at most this
/// long.
const IDLE: Duration = Duration::from_secs(3);
const BUSY: Duration = Duration::from_secs(10);

/// Bytes of the seal behind an image, and of the digest before it.
const SEAL: usize = 40;
const DIGEST: usize = 32;

const MAKE: &str = "
import asyncio, hashlib, os, sqlite3
numbers = (i * i for i in range(10))
next(numbers), next(numbers)
os.makedirs('/home/user/kept', exist_ok=True)
with open('/home/user/kept/big', 'wb') as f: f.write(bytes(range(256)) * 8192)
half = open('/home/user/kept/half', 'w+')
half.write('unflushed')
ghost = open('/home/user/kept/ghost', 'w+b')
ghost.write(b'boo'); ghost.flush(); os.unlink('/home/user/kept/ghost')
digest = hashlib.sha256(b'first')
db = sqlite3.connect(':memory:', isolation_level=None)
db.execute('create table t (x)'); db.execute('begin'); db.execute('insert into t values (7)')
done = []
async def later(name):
    await gate.wait()
    done.append(name)
async def begin():
    global gate, tasks
    gate = asyncio.Event()
    tasks = [asyncio.ensure_future(later(name)) for name in 'ab']
    await asyncio.sleep(0)
await begin()
";

const LOOK: &str = "
async def finish():
    gate.set()
    await asyncio.gather(*tasks)
await finish()
digest.update(b'second')
half.write('!'); half.seek(0)
(next(numbers), half.read(), os.pread(ghost.fileno(), 9, 0), sum(open('/home/user/kept/big', 'rb').read()),
 digest.hexdigest() == hashlib.sha256(b'firstsecond').hexdigest(), db.in_transaction,
 db.execute('select x from t').fetchall(), sorted(done))";

const SEEN: &str = "(4, 'unflushed!', b'boo', 267386880, True, True, [(7,)], ['a', 'b'])";

/// A home whose manifest has these image settings; paths are below `folder`.
fn home(image: Value) -> Home {
    Home::new(manifest_with(json!({"machine": {"image": image}})))
}

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    (folder, path)
}

/// A machine of this home whose boot images are kept in another place.
async fn connect_with_cache(home: &Home, cache: &Path) -> Machine {
    let config = home.config();
    let mut command = home.command(&["--config", config.to_str().unwrap()]);
    command.env("XDG_CACHE_HOME", cache);
    let mut product = Product::spawn(command);
    let reader = product.output.take().unwrap().into_inner();
    let writer = product.input.take().unwrap();
    let peer = Peer::new("tests", "1").unwrap();
    let client = ControlClient::connect(reader, writer, peer).await.unwrap();
    Machine { client, product }
}

/// Starts code that is running by then.
async fn running(machine: &Machine, input: Value) -> Pending {
    let pending = machine.client.start("machine.run", members(input)).unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    pending
}

/// Entries of a folder.
fn entries(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name());
    names.map(|name| name.into_string().unwrap()).collect()
}

/// An image of a machine on which `code` ran, saved at its end.
async fn saved(path: &Path, code: &str) -> Vec<u8> {
    let home = home(json!({"saveOnExit": path}));
    let machine = home.connect().await;
    machine.run(code).await.unwrap();
    let (status, stderr) = machine.close().await;
    assert!(status.success(), "{stderr}");
    assert!(!stderr.contains("not saved"), "{stderr}");
    home.is_left_clean().await;
    fs::read(path).unwrap()
}

async fn import(machine: &Machine, input: Value) -> Result<Value, ControlError> {
    let ending = machine.request("machine.image.import", input).await;
    ending.map(|completed| completed.output)
}

async fn export(machine: &Machine) -> Vec<u8> {
    let ending = machine.request("machine.image.export", json!({})).await;
    ending.unwrap().attachments.remove(0).bytes
}

fn code(result: Result<Value, ControlError>) -> String {
    result.unwrap_err().code().as_str().to_owned()
}

/// The image with another header: its digest is right again, its seal is not.
fn with_header(image: &[u8], change: impl Fn(&str) -> String) -> Vec<u8> {
    let length = u32::from_le_bytes(image[8..12].try_into().unwrap()) as usize;
    let header = std::str::from_utf8(&image[16..16 + length]).unwrap();
    let changed = change(header);
    assert_eq!(changed.len(), length);
    assert_ne!(changed, header);
    let mut made = image[..image.len() - SEAL - DIGEST].to_vec();
    made[16..16 + length].copy_from_slice(changed.as_bytes());
    let digest = Sha256::digest(&made);
    made.extend(digest);
    made
}

/// The image as another engine would have made it.
fn with_engine(image: &[u8]) -> Vec<u8> {
    with_header(image, |header| {
        let at = header.find("\"engine\":\"").unwrap() + 10;
        let other = match header.as_bytes()[at] {
            b'0' => "1",
            _ => "0",
        };
        format!("{}{other}{}", &header[..at], &header[at + 1..])
    })
}

#[tokio::test]
async fn state_outlives_the_process() {
    let (_folder, folder) = folder();
    let path = folder.join("state.img");
    let image = saved(&path, MAKE).await;
    assert_eq!(&image[..4], b"MIMG");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }
    assert_eq!(entries(&folder), ["state.img"]);

    let home = home(json!({"load": path, "saveOnExit": path}));
    let machine = home.connect().await;
    assert_eq!(machine.value(LOOK).await, SEEN);
    // What was loaded is not listed, and reset leaves it.
    assert_eq!(machine.save().await["index"], 1);
    machine.run("count = 1").await.unwrap();
    machine.output("machine.reset", json!({})).await;
    assert_eq!(machine.value("'numbers' in globals()").await, "False");
    machine.run("count = 2").await.unwrap();
    let (status, stderr) = machine.close().await;
    assert!(status.success(), "{stderr}");

    let machine = home.connect().await;
    assert_eq!(
        machine.value("count, 'numbers' in globals()").await,
        "(2, False)"
    );
    machine.close().await;
    home.is_left_clean().await;
}

#[tokio::test]
async fn a_killed_run_goes_on_from_the_loaded_state() {
    let (_folder, folder) = folder();
    let path = folder.join("state.img");
    saved(&path, "x = [1, 2, 3]").await;
    let home = home(json!({"load": path}));
    let machine = home.connect().await;
    let input = json!({"code": "x.append(4)\nwhile True: pass", "interruptGraceMs": 0});
    let run = running(&machine, input).await;
    machine.client.cancel(&run.id, None).unwrap();
    let cancelled = run.ending().await.unwrap_err();
    assert_eq!(cancelled.code().as_str(), "CONTROL_CANCELLED");
    assert_eq!(machine.value("x").await, "[1, 2, 3]");
    machine.close().await;
}

#[tokio::test]
async fn export_answers_with_a_sealed_attachment_that_can_be_imported() {
    let (_folder, folder) = folder();
    let path = folder.join("mine.img");
    let home = home(json!({"saveOnExit": folder.join("exit.img"), "operations": true}));
    let machine = home.connect().await;
    machine.run(MAKE).await.unwrap();
    let exported = machine
        .request("machine.image.export", json!({}))
        .await
        .unwrap();
    let [attachment] = &exported.attachments[..] else {
        panic!("one attachment");
    };
    assert_eq!(attachment.kind.as_str(), "machine.image");
    assert_eq!(attachment.mime_type.as_str(), "application/octet-stream");
    let bytes = &attachment.bytes;
    assert_eq!(exported.output["byteLength"], bytes.len());
    assert_eq!(exported.output["sha256"], attachment.sha256.as_str());
    let end = bytes.len() - SEAL;
    assert_eq!(
        &Sha256::digest(&bytes[..end - DIGEST])[..],
        &bytes[end - DIGEST..end]
    );
    // The export changed nothing.
    assert_eq!(machine.value("next(numbers)").await, "4");
    fs::write(&path, bytes).unwrap();

    machine.run("numbers = 'lost'").await.unwrap();
    let output = import(&machine, json!({"path": path})).await.unwrap();
    assert_eq!(output["index"], 1);
    assert_eq!(output["recycled"], true);
    assert_eq!(machine.value(LOOK).await, SEEN);
    // It is a checkpoint like any other.
    machine.run("numbers = 'lost again'").await.unwrap();
    machine.restore(json!(1)).await;
    assert_eq!(machine.value(LOOK).await, SEEN);
    assert_eq!(machine.save().await["index"], 2);
    let (status, stderr) = machine.close().await;
    assert!(status.success(), "{stderr}");
    home.is_left_clean().await;
}

#[tokio::test]
async fn what_may_not_be_imported_is_refused_and_changes_nothing() {
    let (_folder, folder) = folder();
    let image = saved(&folder.join("theirs.img"), "x = 'theirs'").await;
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    let engine = write("engine.img", &with_engine(&image));
    let mut flipped = image.clone();
    flipped[image.len() / 2] ^= 4;
    let flipped = write("flipped.img", &flipped);
    let cut = write("cut.img", &image[..image.len() / 2]);
    let link = folder.join("link.img");
    std::os::unix::fs::symlink(folder.join("theirs.img"), &link).unwrap();

    // Another home is another installation: its key is its own.
    let home = home(json!({"saveOnExit": folder.join("exit.img"), "operations": true}));
    let machine = home.connect().await;
    machine.run("x = 'mine'").await.unwrap();
    let trusted = |path: &Path| json!({"path": path, "trusted": true});
    let foreign = import(&machine, json!({"path": folder.join("theirs.img")}))
        .await
        .unwrap_err();
    assert_eq!(foreign.code().as_str(), "MACHINE_IMAGE_INVALID");
    assert_eq!(foreign.outcome(), Rejected);
    assert!(foreign.message().contains("seal"), "{foreign}");
    for (path, expected) in [
        (&flipped, "MACHINE_IMAGE_INVALID"),
        (&cut, "MACHINE_IMAGE_INVALID"),
        (&engine, "MACHINE_IMAGE_ENGINE_MISMATCH"),
    ] {
        assert_eq!(
            code(import(&machine, trusted(path)).await),
            expected,
            "{path:?}"
        );
    }
    let up = folder.join("none/../theirs.img");
    for path in [
        &folder,
        &link,
        &up,
        &folder.join("missing.img"),
        Path::new("theirs.img"),
    ] {
        let refused = import(&machine, trusted(path)).await.unwrap_err();
        assert_eq!(refused.code().as_str(), "PYPROC_INPUT_INVALID", "{path:?}");
        assert_eq!(refused.outcome(), NotSent);
    }
    assert_eq!(machine.value("x").await, "'mine'");
    assert_eq!(machine.save().await["index"], 1);
    import(&machine, trusted(&folder.join("theirs.img")))
        .await
        .unwrap();
    assert_eq!(machine.value("x").await, "'theirs'");
    machine.restore(json!(1)).await;
    assert_eq!(machine.value("x").await, "'mine'");
    machine.close().await;
}

#[tokio::test]
async fn a_machine_that_starts_from_its_own_image_makes_it_the_first_time() {
    let (_folder, folder) = folder();
    let path = folder.join("own.img");
    let home = home(json!({"load": path, "saveOnExit": path}));
    for count in 1..=3 {
        let machine = home.connect().await;
        let code = "globals().setdefault('seen', []).append(len(seen)); len(seen)";
        let code = format!("seen = globals().get('seen', [])\n{code}");
        assert_eq!(machine.value(&code).await, count.to_string());
        let started = Instant::now();
        let (status, stderr) = machine.close().await;
        let took = started.elapsed();
        eprintln!("stored and gone after {took:?}");
        assert!(status.success() && took < IDLE, "{took:?} {stderr}");
    }
    home.is_left_clean().await;
}

#[tokio::test]
async fn an_image_outlives_the_boot_image_that_it_was_made_with() {
    let (_folder, folder) = folder();
    let path = folder.join("state.img");
    saved(&path, MAKE).await;
    let cache = folder.join("other-cache");
    fs::create_dir(&cache).unwrap();
    let loading = home(json!({"load": path, "saveOnExit": folder.join("again.img")}));
    let machine = connect_with_cache(&loading, &cache).await;
    assert_eq!(machine.value(LOOK).await, SEEN);
    // Workers that replace the first one have the same boot image.
    let output = machine.output("machine.reset", json!({"hard": true})).await;
    assert_eq!(output["recycled"], true);
    machine.run("x = 'after'").await.unwrap();
    machine.close().await;
    // What such a machine stores is no different.
    let again = home(json!({"load": folder.join("again.img")}));
    let machine = again.connect().await;
    assert_eq!(machine.value("x").await, "'after'");
    machine.close().await;

    let importing = home(json!({"operations": true}));
    let machine = connect_with_cache(&importing, &cache).await;
    let error = import(&machine, json!({"path": path, "trusted": true})).await;
    let error = error.unwrap_err();
    assert_eq!(error.code().as_str(), "MACHINE_IMAGE_ENGINE_MISMATCH");
    assert!(error.message().contains("machine.image.load"), "{error}");
    machine.close().await;
}

#[tokio::test]
async fn a_damaged_image_ends_the_boot_with_its_code() {
    let (_folder, folder) = folder();
    let path = folder.join("state.img");
    let image = saved(&path, "x = 1").await;
    let mut flipped = image.clone();
    flipped[image.len() / 2] ^= 1;
    let too_large = folder.join("hole.img");
    let hole = fs::File::create(&too_large).unwrap();
    hole.set_len((1 << 30) + 4096).unwrap();
    let cases = [
        (Some(flipped), "MACHINE_IMAGE_INVALID"),
        (Some(b"no image".to_vec()), "MACHINE_IMAGE_INVALID"),
        (Some(Vec::new()), "MACHINE_IMAGE_INVALID"),
        (Some(with_engine(&image)), "MACHINE_IMAGE_ENGINE_MISMATCH"),
        (None, "MACHINE_IMAGE_INVALID"),
    ];
    for (bytes, cause) in cases {
        let load = match bytes {
            Some(bytes) => {
                fs::write(&path, bytes).unwrap();
                &path
            }
            None => &too_large,
        };
        let before = fs::metadata(load).unwrap().len();
        let home = home(json!({"load": load, "saveOnExit": load}));
        let machine = home.connect().await;
        let error = machine.run("1").await.unwrap_err();
        assert_eq!(error.code().as_str(), "PYPROC_BOOT_FAILED");
        assert_eq!(error.outcome(), NotSent);
        assert_eq!(error.details().unwrap()["cause"], cause);
        let (status, stderr) = machine.close().await;
        assert!(status.success(), "{stderr}");
        // A machine that never was replaces nothing.
        assert!(stderr.contains("was not saved"), "{stderr}");
        assert_eq!(fs::metadata(load).unwrap().len(), before);
        home.is_left_clean().await;
    }
}

#[tokio::test]
async fn an_export_close_to_the_size_of_an_attachment_arrives_whole() {
    let (_folder, folder) = folder();
    let path = folder.join("mine.img");
    let home = home(json!({"operations": true}));
    let machine = home.connect().await;
    // What the machine itself takes differs from build to build: all the rest
    // is filled, but for a little that the code below may take.
    let limit = usize::try_from(MAX_ATTACHMENT).unwrap();
    machine.run("import hashlib, os").await.unwrap();
    let bare = export(&machine).await.len();
    let fill = limit - bare - (2 << 20);
    let code = format!("large = os.urandom({fill})\nhashlib.sha256(large).hexdigest()");
    let digest = machine.value(&code).await;
    let bytes = export(&machine).await;
    assert!(bytes.len() > limit - (4 << 20), "{bare}, {}", bytes.len());
    fs::write(&path, bytes).unwrap();
    machine.run("large = None").await.unwrap();
    import(&machine, json!({"path": path})).await.unwrap();
    let code = "hashlib.sha256(large).hexdigest()";
    assert_eq!(machine.value(code).await, digest);
    let (status, stderr) = machine.close().await;
    assert!(status.success(), "{stderr}");
}

#[tokio::test]
async fn an_image_larger_than_an_attachment_is_refused_and_still_saved_at_exit() {
    let (_folder, folder) = folder();
    let path = folder.join("large.img");
    let home = home(json!({"saveOnExit": path, "operations": true}));
    let machine = home.connect().await;
    machine
        .run("import os\nlarge = os.urandom(80 << 20)")
        .await
        .unwrap();
    let error = machine
        .request("machine.image.export", json!({}))
        .await
        .unwrap_err();
    assert_eq!(error.code().as_str(), "MACHINE_IMAGE_UNSUPPORTED");
    assert_eq!(error.outcome(), Rejected);
    assert!(error.message().contains("saveOnExit"), "{error}");
    assert_eq!(machine.value("len(large)").await, "83886080");
    let started = Instant::now();
    drop(machine.client);
    let (status, stderr) = machine.product.exited_within(BUSY).await;
    eprintln!(
        "80 MB were stored and the process gone after {:?}",
        started.elapsed()
    );
    assert!(
        status.success() && !stderr.contains("not saved"),
        "{stderr}"
    );
    assert!(fs::metadata(&path).unwrap().len() > 80 << 20);
}

#[tokio::test]
async fn a_machine_that_cannot_be_saved_says_so_and_ends() {
    let (_folder, folder) = folder();
    let path = folder.join("state.img");
    let home = home(json!({"saveOnExit": path}));
    let machine = home.connect().await;
    machine.run("import os\nends = os.pipe()").await.unwrap();
    let (status, stderr) = machine.close().await;
    assert_eq!(status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("the machine was not saved"), "{stderr}");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    home.is_left_clean().await;
}

#[tokio::test]
async fn work_that_runs_at_the_end_is_stopped_and_the_rest_is_saved() {
    let (_folder, folder) = folder();
    let path = folder.join("state.img");
    let home = home(json!({"saveOnExit": path}));
    let mut product = home.open().await;
    product.send(&pyproc_tests::run("a", "x = 1")).await;
    product.terminal("a").await;
    let code = "y = 2\nprint('up')\nwhile True: pass";
    product.send(&pyproc_tests::run("b", code)).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    product.end_input();
    product.terminal("b").await;
    let (status, stderr) = product.exited_within(BUSY).await;
    assert!(
        status.success() && !stderr.contains("not saved"),
        "{stderr}"
    );
    let home = self::home(json!({"load": path}));
    let machine = home.connect().await;
    assert_eq!(machine.value("x, y").await, "(1, 2)");
    machine.close().await;
}

#[tokio::test]
async fn a_client_that_is_gone_loses_nothing() {
    let (_folder, folder) = folder();
    let path = folder.join("state.img");
    let saving = home(json!({"saveOnExit": path}));
    let machine = saving.connect().await;
    machine.run("x = 1").await.unwrap();
    // Its terminal cannot be written any more.
    let run = running(&machine, json!({"code": "y = 2\nwhile True: pass"})).await;
    drop((run, machine.client));
    let (_, stderr) = machine.product.exited_within(BUSY).await;
    assert!(!stderr.contains("not saved"), "{stderr}");
    saving.is_left_clean().await;
    let loading = home(json!({"load": path}));
    let machine = loading.connect().await;
    assert_eq!(machine.value("x").await, "1");
    machine.close().await;
}

#[tokio::test]
async fn what_cannot_be_stored_is_told_and_harms_nothing() {
    let (_folder, folder) = folder();
    let (inside, other) = (folder.join("inside"), folder.join("other"));
    fs::create_dir(&inside).unwrap();
    fs::write(&other, b"other").unwrap();
    let path = inside.join("state.img");

    let home = home(json!({"saveOnExit": path}));
    let machine = home.connect().await;
    machine.run("x = 1").await.unwrap();
    std::os::unix::fs::symlink(&other, &path).unwrap();
    let (status, stderr) = machine.close().await;
    assert_eq!(status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("the machine was not saved"), "{stderr}");
    assert_eq!(fs::read(&other).unwrap(), b"other");
    assert_eq!(entries(&inside), ["state.img"]);

    fs::remove_file(&path).unwrap();
    let machine = home.connect().await;
    machine.run("x = 1").await.unwrap();
    fs::remove_dir(&inside).unwrap();
    let (status, stderr) = machine.close().await;
    assert_eq!(status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("the machine was not saved"), "{stderr}");
    home.is_left_clean().await;
}

#[tokio::test]
async fn a_signal_saves_too() {
    let (_folder, folder) = folder();
    let path = folder.join("state.img");
    let home = home(json!({"saveOnExit": path}));
    let machine = home.connect().await;
    machine.run("x = 1").await.unwrap();
    machine.product.signal(rustix::process::Signal::TERM);
    let (status, stderr) = machine.product.exited_within(BUSY).await;
    assert!(status.success(), "{stderr}");
    assert_eq!(entries(&folder), ["state.img"]);
    home.is_left_clean().await;
}

#[tokio::test]
async fn native_packages_live_in_images() {
    let Some(wheels) = std::env::var_os("PYPROC_TEST_WHEELS") else {
        eprintln!("skipped: PYPROC_TEST_WHEELS is not set");
        return;
    };
    let wheels = PathBuf::from(wheels).canonicalize().unwrap();
    let (_folder, folder) = folder();
    let path = folder.join("state.img");
    let manifest = |image: Value| {
        let machine = json!({"wheels": wheels, "image": image});
        Home::new(manifest_with(json!({"machine": machine})))
    };
    let home = manifest(json!({"saveOnExit": path}));
    let machine = home.connect().await;
    let point =
        "import pydantic\nclass Point(pydantic.BaseModel):\n    x: int\npoint = Point(x='4')";
    machine.run(point).await.unwrap();
    let (status, stderr) = machine.close().await;
    assert!(
        status.success() && !stderr.contains("not saved"),
        "{stderr}"
    );
    let home = manifest(json!({"load": path}));
    let machine = home.connect().await;
    assert_eq!(machine.value("point.x, Point(x='5').x").await, "(4, 5)");
    let error = machine.run("Point(x='no')").await.unwrap_err();
    assert!(error.message().contains("int_parsing"), "{error}");
    machine.close().await;
}
