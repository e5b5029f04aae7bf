//! What Python displays arrives as verified attachments (operations reference,
//! `machine.run`).

use std::fs;

use pyproc_protocol::FailureOutcome::Applied;
use pyproc_tests::Home;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// A picture of `size` bytes and more, drawn without a library.
const DRAW: &str = "
import pyproc, struct, zlib
class Picture:
    def __init__(self, seed, size=0): self.seed, self.size = seed, size
    def __repr__(self): return f'Picture({self.seed})'
    def _repr_png_(self):
        def chunk(kind, data):
            return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
        head = struct.pack('>IIBBBBB', 1, 1, 8, 2, 0, 0, 0)
        pixel = zlib.compress(bytes([0, self.seed, 0, 0]))
        return (b'\\x89PNG\\r\\n\\x1a\\n' + chunk(b'IHDR', head) + chunk(b'teXt', bytes(self.size))
                + chunk(b'IDAT', pixel) + chunk(b'IEND', b''))
";

fn hex(bytes: &[u8]) -> String {
    (Sha256::digest(bytes).iter())
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[tokio::test]
async fn displays_of_any_size_arrive_whole_beside_a_plain_result() {
    let home = Home::default();
    let machine = home.connect().await;
    machine.run(DRAW).await.unwrap();
    let plain = machine.run("print('said'); 42").await.unwrap();
    assert!(plain.attachments.is_empty());
    assert_eq!(plain.output.get("displays"), None);

    let code = "import hashlib\nfor seed, size in ((1, 0), (2, 2_000_000), (3, 6_000_000)):\n  \
                pyproc.display(Picture(seed, size))\n\
                [hashlib.sha256(Picture(*given)._repr_png_()).hexdigest() for given in ((1, 0), (2, 2_000_000), (3, 6_000_000))]";
    let shown = machine.run(code).await.unwrap();
    let digests: Value =
        serde_json::from_str(&shown.output["value"].as_str().unwrap().replace('\'', "\"")).unwrap();
    assert_eq!(shown.attachments.len(), 3);
    for (at, attachment) in shown.attachments.iter().enumerate() {
        assert_eq!(attachment.kind.as_str(), "machine.display");
        assert_eq!(attachment.mime_type.as_str(), "image/png");
        assert_eq!(hex(&attachment.bytes), digests[at].as_str().unwrap());
        let told = json!({"mimeType": "image/png", "byteLength": attachment.bytes.len()});
        assert_eq!(shown.output["displays"][at], told);
    }

    // The value of a run is displayed too, and the machine is as before.
    let value = machine.run("Picture(7)").await.unwrap();
    assert_eq!(value.output["value"], "Picture(7)");
    assert_eq!(value.attachments.len(), 1);
    machine.save().await;
    assert_eq!(machine.value("40 + 2").await, "42");
    let (status, stderr) = machine.close().await;
    assert!(status.success(), "{stderr}");
}

#[tokio::test]
async fn an_error_says_how_much_it_takes_away() {
    let home = Home::default();
    let machine = home.connect().await;
    machine.run(DRAW).await.unwrap();
    let code = "pyproc.display(Picture(1), Picture(2))\n1/0";
    let error = machine.run(code).await.unwrap_err();
    assert_eq!(error.outcome(), Applied);
    assert_eq!(error.details().unwrap()["displaysDropped"], 2);
    assert!(machine.run("1").await.unwrap().attachments.is_empty());
    machine.close().await;
}

/// Guest code can reach what the prelude holds. What it makes of it costs it
/// its worker and nobody else anything.
#[tokio::test]
async fn forged_displays_end_the_worker_and_not_the_machine() {
    let home = Home::default();
    let machine = home.connect().await;
    for forged in [
        "('text/plain', 'QQ==')",
        "('image/png', '')",
        "('image/png', 'no base64!')",
        "('image/png\",\"QQ==\"],[\"x', 'QQ==')",
        "('image/png\"', 'QQ==')",
    ] {
        let code = format!("import pyproc\npyproc.display.__globals__['_shown'].append({forged})");
        let error = machine.run(&code).await.unwrap_err();
        assert!(
            error.details().unwrap()["restored"].is_object(),
            "{forged}: {error:?}"
        );
        assert_eq!(machine.value("40 + 2").await, "42", "{forged}");
    }
    machine.close().await;
}

#[tokio::test]
async fn the_command_line_keeps_pictures_as_files() {
    let home = Home::default();
    let kept = tempfile::tempdir().unwrap();
    let folder = kept.path().join("pictures");
    let code = format!("{DRAW}\npyproc.display(Picture(1))\nprint('said')");
    let run = async |more: &[&str]| {
        let config = home.config();
        let config = config.to_str().unwrap();
        let given = ["run", "--config", config, "--code", &code];
        let mut command = home.command(&[&given, more].concat());
        let output = command.output().await.unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        assert!(output.status.success(), "{}", text(output.stderr));
        (text(output.stdout), text(output.stderr))
    };
    let (stdout, stderr) = run(&[]).await;
    assert_eq!(stdout, "said\n");
    assert!(stderr.contains("displayed image/png"), "{stderr}");
    assert!(stderr.contains("--pictures DIR"), "{stderr}");

    let path = folder.to_str().unwrap();
    let (stdout, stderr) = run(&["--pictures", path]).await;
    assert_eq!(stdout, "said\n");
    assert!(stderr.contains("picture-1.png"), "{stderr}");
    let picture = fs::read(folder.join("picture-1.png")).unwrap();
    assert!(picture.starts_with(b"\x89PNG"));

    // A folder that cannot be is refused before anything runs.
    let file = folder.join("picture-1.png");
    let config = home.config();
    let given = [
        "run",
        "--config",
        config.to_str().unwrap(),
        "--code",
        "print('ran')",
    ];
    let refused = [&given[..], &["--pictures", file.to_str().unwrap()]].concat();
    let output = home.command(&refused).output().await.unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("picture-1.png"), "{stderr}");

    let (stdout, _) = run(&["--json", "--pictures", path]).await;
    let result: Value = serde_json::from_str(&stdout).unwrap();
    let told = &result["attachments"][0];
    assert_eq!(told["sha256"], hex(&picture));
    assert_eq!(told["path"], folder.join("picture-2.png").to_str().unwrap());
}
