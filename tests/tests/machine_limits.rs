//! Settings of the manifest's `machine` object as the guest and the client
//! meet them (machine 19; conformance 30).

use pyproc_protocol::FailureOutcome::Rejected;
use pyproc_tests::Home;
use pyproc_tests::python::{detail, is_error};
use serde_json::json;

#[tokio::test]
async fn a_full_list_refuses_saves_until_a_reset() {
    let home = Home::with_machine(json!({"maxCheckpoints": 2}));
    let machine = home.connect().await;
    machine.exec("x = 1").await;
    assert_eq!(machine.save().await["index"], 1);
    machine.exec("x = 2").await;
    assert_eq!(machine.save().await["index"], 2);
    machine.exec("x = 3").await;
    for _ in 0..2 {
        let error = machine.refusal("machine.checkpoint.save", json!({})).await;
        is_error(&error, "MACHINE_CHECKPOINT_LIMIT", Rejected, true);
    }
    assert_eq!(machine.value("x").await, "3");
    machine.restore(json!(1)).await;
    assert_eq!(machine.value("x").await, "1");
    machine.restore(json!(null)).await;
    assert_eq!(machine.value("x").await, "2");
    machine.output("machine.reset", json!({})).await;
    assert_eq!(machine.save().await["index"], 3);
    machine.close().await;
}

#[tokio::test]
async fn a_full_store_refuses_saves_and_keeps_what_it_has() {
    let home = Home::with_machine(json!({"storeLimitBytes": 64 << 20}));
    let machine = home.connect().await;
    machine
        .exec("import os, zlib\nbig = bytearray(os.urandom(6_000_000))\ncheck = zlib.crc32(big)")
        .await;
    machine.save().await;
    let mut saved = vec![(json!(1), machine.value("check").await)];
    let change =
        "for i in range(0, len(big), 4096): big[i:i + 8] = os.urandom(8)\ncheck = zlib.crc32(big)";
    let refused = loop {
        machine.exec(change).await;
        match machine.request("machine.checkpoint.save", json!({})).await {
            Ok(done) => {
                let store = done.output["storeBytes"].as_u64().unwrap();
                assert!(store <= 64 << 20, "{}", done.output);
                saved.push((done.output["index"].clone(), machine.value("check").await));
            }
            Err(error) => break error,
        }
        assert!(saved.len() < 20, "the store is never full");
    };
    is_error(&refused, "MACHINE_CHECKPOINT_LIMIT", Rejected, true);
    assert!(saved.len() >= 3, "only {} fit", saved.len());
    assert_eq!(machine.value("check == zlib.crc32(big)").await, "True");
    for (index, check) in saved.iter().rev() {
        machine.restore(index.clone()).await;
        let value = machine.value("check, check == zlib.crc32(big)").await;
        assert_eq!(value, format!("({check}, True)"));
    }
    machine.output("machine.reset", json!({})).await;
    machine
        .exec("import os, zlib\nbig = bytearray(os.urandom(6_000_000))")
        .await;
    for _ in 0..2 {
        machine.exec(change).await;
        machine.save().await;
    }
    machine.close().await;
}

#[tokio::test]
async fn heap_files_and_output_have_their_limits() {
    let home = Home::with_machine(json!({
        "heapLimitBytes": 64 << 20,
        "fileLimitBytes": 1 << 20,
        "outputBytes": 65_536,
    }));
    let machine = home.connect().await;

    machine.exec("kept = bytearray(10_000_000)").await;
    let error = machine.error("more = bytearray(40_000_000)").await;
    assert_eq!(detail(&error, "type"), "MemoryError");
    let saved = machine.save().await;
    assert!(saved["heapBytes"].as_u64().unwrap() <= 64 << 20, "{saved}");
    assert_eq!(machine.value("len(kept)").await, "10000000");

    let full = "import errno\n\
                try:\n    with open('/home/user/big', 'wb') as f:\n        for i in range(40): f.write(bytes(100_000))\n\
                except OSError as error: code = errno.errorcode[error.errno]\ncode";
    assert_eq!(machine.value(full).await, "'ENOSPC'");
    let again = "import os\nos.unlink('/home/user/big')\nopen('/home/user/small', 'wb').write(bytes(100_000))";
    assert_eq!(machine.value(again).await, "100000");

    // What does not fit the output block is counted, both ends are kept.
    let error = machine
        .error("print('begin')\nfor i in range(20_000): print(i)\nprint('end')")
        .await;
    assert_eq!(error.code().as_str(), "CONTROL_FRAME_TOO_LARGE");
    let stdout = detail(&error, "stdout");
    let stdout = stdout.as_str().unwrap();
    assert!(stdout.starts_with("begin\n0\n1\n"), "{}", &stdout[..100]);
    assert!(stdout.ends_with("19999\nend\n"));
    let written = detail(&error, "stdoutBytes").as_u64().unwrap();
    let dropped = detail(&error, "stdoutDropped").as_u64().unwrap();
    assert_eq!(written, 108_890 + 10);
    assert!(dropped > 0 && written - dropped <= 65_536, "{dropped}");
    assert_eq!(machine.printed("print('x' * 60_000)").await.len(), 60_001);
    machine.close().await;
}

#[tokio::test]
async fn environment_zone_and_preloaded_modules_are_there_from_the_start() {
    let home = Home::with_machine(json!({
        "env": {"PLACE": "here", "LANG_": "\u{e9}"},
        "timezone": "Asia/Tokyo",
        "preload": ["colorsys", "wave"],
    }));
    let machine = home.connect().await;
    let look = "import os, sys, time\n\
                ([os.environ.get(n) for n in ('PLACE', 'LANG_', 'HOME')], [n for n in os.environ if 'PYPROC' in n or n == 'PATH'],\n\
                 time.timezone, time.daylight, time.tzname[0], time.localtime(0).tm_hour, 'colorsys' in sys.modules, 'wave' in sys.modules)";
    let expected = "(['here', '\u{e9}', '/home/user'], [], -32400, 0, 'UTC+0900', 9, True, True)";
    assert_eq!(machine.value(look).await, expected);
    machine
        .exec("os.environ['PLACE'] = 'there'\ndel sys.modules['wave']")
        .await;
    machine.output("machine.reset", json!({"hard": true})).await;
    assert_eq!(machine.value(look).await, expected);
    machine.close().await;

    // Without a zone of its own the machine has no zone of its host.
    let home = Home::default();
    let machine = home.connect().await;
    let value = machine
        .value("import time\ntime.timezone, time.daylight, time.localtime(0).tm_hour")
        .await;
    assert_eq!(value, "(0, 0, 0)");
    machine.close().await;
}

/// Each worker stores about 2 MB of its own base, so without reuse the store would be full long
/// before the end.
#[tokio::test]
async fn workers_that_end_give_their_part_of_the_store_back() {
    const STORE_BYTES: u64 = 64 << 20;
    for spare in [true, false] {
        let home = Home::with_machine(json!({"spare": spare, "storeLimitBytes": STORE_BYTES}));
        let machine = home.connect().await;
        machine.exec("x = 1").await;
        machine.save().await;
        for _ in 0..30 {
            machine.error("import os\nos.abort()").await;
            assert_eq!(machine.value("x").await, "1");
        }
        let store = machine.save().await["storeBytes"].as_u64();
        assert!(
            store < Some(STORE_BYTES * 3 / 4),
            "{store:?}, spare {spare}"
        );
        machine.close().await;
    }
}

#[tokio::test]
async fn the_machine_recovers_without_a_spare() {
    let home = Home::with_machine(json!({"spare": false, "interruptGraceMs": 0}));
    let machine = home.connect().await;
    machine.exec("x = 1").await;
    machine.save().await;
    machine.exec("x = 2").await;
    for _ in 0..2 {
        machine.error("import os\nos._exit(1)").await;
        assert_eq!(machine.value("6 * 7").await, "42");
        machine.restore(json!(1)).await;
        assert_eq!(machine.value("x").await, "1");
    }
    machine.close().await;
}
