//! Pages that never come and pages that go away (control protocol 6.6).

use std::time::Duration;

use pyproc_tests::{Home, Product, engine, run};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::booted;

/// Processes of this home whose command line contains `text`.
fn processes_with(home: &Home, text: &str) -> Vec<Pid> {
    let of = |pid: &i32| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let found = home.processes().into_iter();
    found
        .filter(|pid| {
            String::from_utf8_lossy(&of(pid))
                .replace('\0', " ")
                .contains(text)
        })
        .filter_map(Pid::from_raw)
        .collect()
}

/// The two requests around a loss.
async fn the_page_is_lost(mut product: Product, home: &Home, kind: &str) {
    product
        .send(&run("r:1", "import time; time.sleep(30)"))
        .await;
    product.send(&run("r:2", "1")).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let victims = processes_with(home, kind);
    assert!(!victims.is_empty(), "there is no process with {kind}");
    for victim in victims {
        // It may have ended with another one.
        let _ = kill_process(victim, Signal::KILL);
    }
    let answers = [product.frame().await, product.frame().await];
    let of = |id: &str| {
        let found = answers.iter().find(|answer| answer["requestId"] == id);
        found.unwrap_or_else(|| panic!("{answers:?}"))["error"].clone()
    };
    let (delivered, queued) = (of("r:1"), of("r:2"));
    assert_eq!(delivered["code"], "CONTROL_PAGE_REPLACED", "{kind}");
    assert_eq!(delivered["outcome"], "outcomeUnknown", "{kind}");
    assert_eq!(delivered["retryable"], false, "{kind}");
    assert_eq!(queued["code"], "CONTROL_BRIDGE_CLOSED", "{kind}");
    assert_eq!(queued["outcome"], "notSent", "{kind}");
    assert_eq!(queued["retryable"], false, "{kind}");
    product.send(&run("r:3", "1")).await;
    let later = product.frame().await;
    assert_eq!(later["error"]["code"], "CONTROL_BRIDGE_CLOSED", "{kind}");
    assert_eq!(later["error"]["outcome"], "notSent", "{kind}");
    product.end_input();
    let (status, stderr) = product.exited_within(Duration::from_secs(3)).await;
    assert_eq!(status.code(), Some(0), "{stderr}");
    home.is_left_clean().await;
}

#[tokio::test]
async fn a_crash_of_the_page_ends_its_requests_at_once() {
    let home = Home::default();
    let (product, _) = booted(&home).await;
    the_page_is_lost(product, &home, "--type=renderer").await;
}

#[tokio::test]
async fn the_end_of_the_browser_ends_its_requests_at_once() {
    let home = Home::default();
    let (product, _) = booted(&home).await;
    the_page_is_lost(product, &home, "--user-data-dir=").await;
}

#[tokio::test]
async fn a_killed_product_leaves_no_process_and_its_profile_goes_at_the_next_start() {
    let home = Home::default();
    let (product, _) = booted(&home).await;
    product.signal(Signal::KILL);
    let gone = async {
        while !home.processes().is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let gone = tokio::time::timeout(Duration::from_secs(5), gone).await;
    assert!(gone.is_ok(), "left: {:?}", home.processes());
    let (mut product, _) = booted(&home).await;
    assert_eq!(home.profiles().len(), 1, "{:?}", home.profiles());
    product.end_input();
    assert_eq!(product.exited().await.0.code(), Some(0));
    home.is_left_clean().await;
}

#[tokio::test]
async fn a_browser_that_ends_at_once_is_a_failed_boot() {
    let home = Home::with_browser("exit 3");
    let mut product = home.open().await;
    product.send(&run("r:1", "1")).await;
    for id in ["r:1", "r:2"] {
        let answer = product.frame().await;
        assert_eq!(answer["requestId"], id);
        assert_eq!(answer["error"]["code"], "PYPROC_BOOT_FAILED", "{answer}");
        assert_eq!(answer["error"]["outcome"], "notSent");
        assert_eq!(answer["error"]["retryable"], false);
        product.send(&run("r:2", "1")).await;
        if id == "r:2" {
            break;
        }
    }
}

#[tokio::test]
async fn a_damaged_engine_is_a_failed_boot() {
    for name in ["pyodide.asm.wasm", "pyodide.mjs", "python_stdlib.zip"] {
        let home = Home::default();
        let root = home.path().join("engine");
        std::fs::create_dir(&root).expect("a directory");
        for entry in std::fs::read_dir(engine()).expect("the engine") {
            let entry = entry.expect("an entry");
            std::fs::copy(entry.path(), root.join(entry.file_name())).expect("a copy");
        }
        let file = root.join(name);
        let mut bytes = std::fs::read(&file).expect("the file");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&file, bytes).expect("the file");
        let manifest = json!({"schemaVersion": 1, "engine": {"root": root}});
        std::fs::write(home.config(), manifest.to_string()).expect("a manifest");
        let mut product = home.open().await;
        product.send(&run("r:1", "1")).await;
        let answer = product.frame().await;
        assert_eq!(answer["error"]["code"], "PYPROC_BOOT_FAILED", "{answer}");
        assert_eq!(answer["error"]["outcome"], "notSent");
        let message = answer["error"]["message"].as_str().expect("a message");
        assert!(message.contains(name), "{message}");
        product.end_input();
        assert_eq!(product.exited().await.0.code(), Some(0));
    }
}
