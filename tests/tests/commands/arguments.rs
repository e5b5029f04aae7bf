//! Arguments, files and the environment (control protocol 1.1, 2.1 to 2.5).

use pyproc_tests::{Home, engine, hello, manifest, run};
use serde_json::json;

use crate::{command, refused, refuses, report};

#[tokio::test]
async fn manifests_that_cannot_be_read_are_one_line() {
    let home = Home::default();
    let missing = command(&home, &["--config", "none.json"]).await;
    assert!(refused(&missing, "missing").contains("none.json"));
    let texts: [&[u8]; 7] = [
        b"",
        b"{",
        b"[]",
        b"{\"schemaVersion\":1} x",
        b"\xef\xbb\xbf{}",
        b"{\"schemaVersion\":1,\"schemaVersion\":1}",
        b"{\"\xff\":1}",
    ];
    for text in texts {
        std::fs::write(home.config(), text).expect("a manifest");
        for arguments in [
            &["--config", "machine.json"][..],
            &["--config", "machine.json", "--check"],
        ] {
            refused(
                &command(&home, arguments).await,
                &String::from_utf8_lossy(text),
            );
        }
    }
    let padded = format!("{}{}", manifest(), " ".repeat(1 << 20));
    std::fs::write(home.config(), padded).expect("a manifest");
    refused(
        &command(&home, &["--config", "machine.json", "--check"]).await,
        "too long",
    );
    assert_eq!(home.profiles(), Vec::<std::path::PathBuf>::new());
}

#[tokio::test]
async fn arguments_are_all_read_before_any_of_them_acts() {
    let home = Home::default();
    let wrong: [&[&str]; 6] = [
        &["--help", "--bogus"],
        &["--bogus"],
        &["--version", "stray", "--check"],
        &["--config"],
        &["--check", "--config"],
        &["--config", "machine.json", "--check=yes"],
    ];
    for arguments in wrong {
        refused(&command(&home, arguments).await, &format!("{arguments:?}"));
    }
    for argument in ["-h", "--help"] {
        let help = command(&home, &[argument]).await;
        assert_eq!(help.status.code(), Some(0));
        assert!(String::from_utf8_lossy(&help.stdout).contains("--config"));
        assert_eq!(help.stderr, b"");
    }
    for argument in ["-v", "--version"] {
        let version = command(&home, &[argument, "--config", "none.json"]).await;
        assert_eq!(version.status.code(), Some(0));
        assert_eq!(
            version.stdout,
            format!("{}\n", env!("CARGO_PKG_VERSION")).into_bytes()
        );
    }
    let both = [
        "--config",
        "none.json",
        "--config",
        "machine.json",
        "--check",
    ];
    assert_eq!(
        command(&home, &both).await.status.code(),
        Some(0),
        "the last one wins"
    );
}

#[tokio::test]
async fn the_environment_changes_nothing() {
    let variables = [
        ("PYPROC_BROWSER", "/nonexistent"),
        ("PYPROC_BROWSER_MAX_RISK", "externalEffect"),
        ("PYPROC_BROWSER_CONTROL", "1"),
        ("PYPROC_BROWSER_ACTIONS", "click"),
        ("PYPROC_MCP_ENGINE_ROOT", "/nonexistent"),
        ("PYPROC_INDEX_URL", "http://127.0.0.1:9/"),
        ("PYPROC_MCP_TIMEOUT", "1"),
        ("PYPROC_HEADED", "1"),
    ];
    let home = Home::default();
    let arguments = ["--config", "machine.json", "--check"];
    let plain = command(&home, &arguments).await;
    let mut with = home.command(&arguments);
    let with = with.current_dir(home.path()).envs(variables).output();
    assert_eq!(with.await.expect("it runs").stdout, plain.stdout);
    let config = home.config();
    let mut command = home.command(&["--config", config.to_str().expect("text")]);
    command.envs(variables);
    let mut product = pyproc_tests::Product::spawn(command);
    product.send(&hello()).await;
    let greeting = product.frame().await;
    assert_eq!(greeting["operations"].as_array().map(Vec::len), Some(4));
    product
        .send(&run(
            "r:1",
            "import os; [n for n in os.environ if n.startswith('PYPROC')]",
        ))
        .await;
    assert_eq!(product.frame().await["output"]["value"], "[]");
    let shell = product.child.id().map(u32::cast_signed);
    for process in home
        .processes()
        .into_iter()
        .filter(|pid| Some(*pid) != shell)
    {
        let environment = std::fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        let environment = String::from_utf8_lossy(&environment);
        assert!(!environment.contains("PYPROC_"), "{process}: {environment}");
    }
}

#[tokio::test]
async fn a_damaged_engine_fails_the_check_and_is_named() {
    let copy = tempfile::tempdir().expect("a directory");
    for entry in std::fs::read_dir(engine()).expect("the engine") {
        let entry = entry.expect("an entry");
        std::fs::copy(entry.path(), copy.path().join(entry.file_name())).expect("a copy");
    }
    let manifest = json!({"schemaVersion": 1, "engine": {"root": copy.path()}});
    report(&manifest).await;
    let file = copy.path().join("python_stdlib.zip");
    let mut bytes = std::fs::read(&file).expect("the file");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, bytes).expect("the file");
    refuses(manifest, "python_stdlib.zip").await;
}
