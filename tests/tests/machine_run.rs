//! What one run is: its value, its output, its errors (machine 12, 13;
//! conformance 1 to 10).
//!
//! Left to the tests of the page, which see more than the wire shows:
//! conformance 38 with walls off, 39 (renamed engine internals, an extra
//! global), sweeps and `diff` after a restore, reading of damaged images, and
//! the error `MACHINE_INTERRUPTED` itself, because a client that cancels has
//! its terminal before the interrupt ends the run.

use std::time::Duration;

use pyproc_protocol::FailureOutcome::{Applied, NotSent, Rejected};
use pyproc_tests::python::{detail, is_error};
use pyproc_tests::{Home, run};
use serde_json::{Value, json};

/// Longest serialized reply, bytes (machine 13).
const REPLY_BYTES: usize = 983_040;

#[tokio::test]
async fn values_output_and_names() {
    let home = Home::default();
    let machine = home.connect().await;

    machine.exec("x = 1").await;
    assert_eq!(machine.value("x").await, "1");
    for nothing in ["y = 3", "1 + 1\ny = 4", "None", "", "for i in range(3): i"] {
        machine.exec(nothing).await;
    }
    assert_eq!(machine.value("x = 20\nx + 22").await, "42");
    assert_eq!(machine.value("'text'").await, "'text'");
    assert_eq!(machine.value("__name__, y").await, "('__main__', 4)");

    let output = machine
        .output(
            "machine.run",
            json!({"code": "import os, sys\nprint('a', end='')\nprint('b', end='', file=sys.stderr)\nos.write(1, b'c')\n\
                            os.write(2, b'dd')\nprint('\\u00e9')\n7"}),
        )
        .await;
    assert_eq!(output["stdout"], "abcdd\u{e9}\n");
    assert_eq!(output["stdoutBytes"], 8);
    assert_eq!(output["stderrBytes"], 3);
    assert_eq!(output["value"], "7");
    assert!(output["durationMs"].is_u64(), "{output}");
    let next = machine.output("machine.run", json!({"code": ""})).await;
    assert_eq!(
        next["runSeq"].as_u64(),
        output["runSeq"].as_u64().map(|n| n + 1)
    );
    assert_eq!(next["stdout"], "");

    // Closed standard streams are open again in the next run.
    machine.exec("os.close(1)\nos.close(2)").await;
    assert_eq!(machine.printed("print('again')").await, "again\n");
    let error = machine.error("input()").await;
    assert_eq!(detail(&error, "type"), "EOFError");

    // Lone surrogates and everything else that JSON escapes.
    assert_eq!(
        machine.value("'\\ud800', '\\0\\x7f\\u2028\"\\\\'").await,
        r#"('\ud800', '\x00\x7f\u2028"\\')"#
    );
    machine.close().await;
}

#[tokio::test]
async fn await_works_at_top_level_and_inside() {
    let home = Home::default();
    let machine = home.connect().await;
    let cases = [
        (
            "import asyncio\nawait asyncio.gather(*(asyncio.sleep(0.01 * (3 - i), i) for i in range(3)))",
            "[0, 1, 2]",
        ),
        ("asyncio.run(asyncio.sleep(0.01, 'ran'))", "'ran'"),
        (
            "a = await asyncio.sleep(0, 1)\nb = asyncio.run(asyncio.sleep(0, 2))\na, b",
            "(1, 2)",
        ),
        (
            "async def count():\n    yield 1\n    yield 2\n[i async for i in count()]",
            "[1, 2]",
        ),
    ];
    for (code, value) in cases {
        assert_eq!(machine.value(code).await, value, "{code}");
    }
    machine
        .exec(
            "steps = []\nasync def work():\n    for i in range(3):\n        steps.append(i)\n        await asyncio.sleep(0)\n\
             job = asyncio.create_task(work())\nawait asyncio.sleep(0)",
        )
        .await;
    let seen = machine.value("len(steps)").await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(machine.value("len(steps)").await, seen);
    assert_eq!(machine.value("await job\nsteps").await, "[0, 1, 2]");
    let error = machine
        .error("await asyncio.get_event_loop().create_future()")
        .await;
    assert_eq!(detail(&error, "type"), "RuntimeError");
    machine.close().await;
}

#[tokio::test]
async fn errors_say_what_happened_and_never_end_the_machine() {
    let home = Home::default();
    let machine = home.connect().await;

    machine.exec("def fail(x):\n    return 1 / x").await;
    let error = machine.error("kept = 1\nprint('before')\nfail(0)").await;
    is_error(&error, "MACHINE_PYTHON_ERROR", Applied, false);
    assert!(
        error
            .message()
            .ends_with("ZeroDivisionError: division by zero")
    );
    assert!(error.message().chars().count() <= 400);
    assert_eq!(detail(&error, "type"), "ZeroDivisionError");
    assert_eq!(detail(&error, "module"), "builtins");
    assert_eq!(detail(&error, "message"), "division by zero");
    assert_eq!(detail(&error, "stdout"), "before\n");
    assert_eq!(detail(&error, "runSeq"), 2);
    let traceback = detail(&error, "traceback");
    let traceback = traceback.as_str().unwrap();
    let frames: Vec<_> = traceback
        .lines()
        .filter(|line| line.contains("File "))
        .collect();
    assert_eq!(
        frames,
        [
            "  File \"<run 2>\", line 3, in <module>",
            "  File \"<run 1>\", line 2, in fail"
        ]
    );
    assert!(traceback.contains("return 1 / x"), "{traceback}");
    assert_eq!(machine.value("kept").await, "1");

    for source in [
        "kept = 2\nif",
        "kept = 2; )",
        "kept = 2\n  x",
        "return 5\nkept = 2",
    ] {
        let error = machine.error(source).await;
        is_error(&error, "MACHINE_PYTHON_ERROR", Rejected, false);
        let kind = detail(&error, "type");
        assert!(
            ["SyntaxError", "IndentationError"].contains(&kind.as_str().unwrap()),
            "{kind}"
        );
    }
    assert_eq!(machine.value("kept").await, "1");

    let exits = [
        ("import sys\nsys.exit(3)", json!(3)),
        ("sys.exit()", json!(0)),
        ("sys.exit('reason')", json!(1)),
        ("raise SystemExit", json!(0)),
    ];
    for (source, code) in exits {
        let error = machine.error(source).await;
        is_error(&error, "MACHINE_EXIT", Applied, false);
        assert_eq!(detail(&error, "exitCode"), code, "{source}");
    }

    let others = [
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        (
            "class Bad:\n    def __repr__(self): raise ValueError('no repr')\nBad()",
            "ValueError",
        ),
        (
            "class Odd(Exception):\n    def __str__(self): raise OSError('no str')\nraise Odd",
            "Odd",
        ),
        ("def down(): down()\ndown()", "RecursionError"),
        ("bytearray(2_000_000_000)", "MemoryError"),
        (
            "raise ExceptionGroup('many', [ValueError(1), TypeError(2)])",
            "ExceptionGroup",
        ),
        ("import nothing_like_this", "ModuleNotFoundError"),
        ("class Text(Exception): pass\nraise Text('\\ud800')", "Text"),
    ];
    for (source, kind) in others {
        let error = machine.error(source).await;
        is_error(&error, "MACHINE_PYTHON_ERROR", Applied, false);
        assert_eq!(detail(&error, "type"), kind, "{source}");
    }
    assert_eq!(
        detail(&machine.error("raise Odd").await, "message"),
        "<unprintable>"
    );
    let message = detail(
        &machine.error("raise ValueError('x' * 100_000)").await,
        "message",
    );
    assert_eq!(message.as_str().unwrap().chars().count(), 8192);
    let traceback = detail(
        &machine.error("raise ValueError('x' * 100_000)").await,
        "traceback",
    );
    assert!(traceback.as_str().unwrap().chars().count() <= 65_536);
    assert_eq!(machine.value("kept").await, "1");
    machine.close().await;
}

#[tokio::test]
async fn input_that_cannot_be_run_is_not_sent() {
    let home = Home::default();
    let machine = home.connect().await;
    machine.exec("kept = 1").await;
    let invalid = [
        json!({}),
        json!({"code": null}),
        json!({"code": 5}),
        json!({"code": "kept = 2", "interruptGraceMs": -1}),
        json!({"code": "kept = 2", "interruptGraceMs": 60_001}),
        json!({"code": "kept = 2", "interruptGraceMs": "1"}),
    ];
    for input in invalid {
        let error = machine.refusal("machine.run", input).await;
        is_error(&error, "PYPROC_INPUT_INVALID", NotSent, false);
    }
    let longest = format!("kept = 3 #{}", "x".repeat(524_288 - 10));
    let error = machine
        .refusal("machine.run", json!({"code": format!("{longest}x")}))
        .await;
    is_error(&error, "MACHINE_CODE_TOO_LARGE", NotSent, false);
    assert_eq!(machine.value("kept").await, "1");
    machine.exec(&longest).await;
    assert_eq!(machine.value("kept").await, "3");
    for input in [json!({"hard": 1}), json!({"hard": null})] {
        let error = machine.refusal("machine.reset", input).await;
        is_error(&error, "PYPROC_INPUT_INVALID", NotSent, false);
    }
    assert_eq!(machine.value("kept").await, "3");
    machine.close().await;
}

#[tokio::test]
async fn replies_stay_within_their_bound() {
    let home = Home::default();
    let mut product = home.open().await;
    let mut reply = async |id: &str, code: &str| {
        product.send(&run(id, code)).await;
        let line = product.line().await.expect("a reply");
        assert!(line.len() <= REPLY_BYTES, "{id}: {} bytes", line.len());
        let frame: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(frame["requestId"], id);
        frame
    };
    let long = reply("value", "'x' * 10_000_000").await;
    assert_eq!(long["output"]["valueChars"], 10_000_002);
    let value = long["output"]["value"].as_str().unwrap();
    assert_eq!(value.len(), 262_144);
    assert!(value.starts_with("'xxx"));

    let wide = reply("wide", "'\\U0001F600' * 262_000").await;
    let output = &wide["output"];
    assert_eq!(output["valueChars"], 262_002);

    // Print and value together must fit as well.
    let both = reply("both", "print('p' * 700_000, end='')\n'v' * 250_000").await;
    let output = &both["output"];
    assert_eq!(output["stdout"].as_str().unwrap().len(), 700_000);
    let value = output["value"].as_str().unwrap();
    assert!(value.len() > 200_000);

    // More than one reply may carry: the effects stay, both ends are told.
    let much = reply(
        "much",
        "done = 1\nprint('begin')\nprint('x' * 2_000_000)\nprint('end')",
    )
    .await;
    let error = &much["error"];
    assert_eq!(error["code"], "CONTROL_FRAME_TOO_LARGE");
    assert_eq!(
        (&error["outcome"], &error["retryable"]),
        (&json!("applied"), &json!(false))
    );
    let stdout = error["details"]["stdout"].as_str().unwrap();
    assert!(stdout.starts_with("begin\nxxx") && stdout.ends_with("xxx\nend\n"));
    assert_eq!(error["details"]["stdoutBytes"], 2_000_011);

    // Escapes are longer on the wire than in the block.
    let escaped = reply(
        "escaped",
        "print('\\x01' * 700_000)\nraise ValueError('\\x02' * 60_000)",
    )
    .await;
    assert_eq!(escaped["error"]["code"], "MACHINE_PYTHON_ERROR");
    assert_eq!(escaped["error"]["details"]["type"], "ValueError");
    assert_eq!(reply("after", "done").await["output"]["value"], "1");
}

#[tokio::test]
async fn nothing_the_guest_replaces_keeps_a_reply_away() {
    let home = Home::default();
    let machine = home.connect().await;
    let sabotage = [
        "import builtins\nfor name in ('repr', 'print', 'str', 'compile', 'exec', 'eval', 'BaseException'): delattr(builtins, name)",
        "import json\njson.dumps = json.loads = None",
        "import sys\nfor name in list(sys.modules): \n    if name not in ('sys', 'builtins', '__main__'): del sys.modules[name]",
        "sys.stdout = sys.stderr = None",
        "sys.settrace(lambda *a: 1 / 0)",
        "sys.setprofile(lambda *a: 1 / 0)",
        "sys.displayhook = sys.excepthook = None",
        "__builtins__ = {}",
        "globals().clear()",
    ];
    for code in sabotage {
        let before = machine.run(code).await;
        if let Err(error) = before {
            assert_eq!(
                error.code().as_str(),
                "MACHINE_PYTHON_ERROR",
                "{code}: {error}"
            );
        }
        assert_eq!(machine.value("6 * 7").await, "42", "{code}");
        machine.output("machine.reset", json!({})).await;
        assert_eq!(machine.printed("print('fine')").await, "fine\n", "{code}");
    }
    machine.close().await;
}
