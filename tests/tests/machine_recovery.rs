//! What happens when a run must be stopped or its worker fails: interrupts,
//! kills, the guard, engine failures, resets (machine 9.4, 14, 15;
//! conformance 29, 31 to 34).

use std::time::Duration;

use pyproc_protocol::FailureOutcome::{Applied, Rejected};
use pyproc_tests::python::{detail, is_error};
use pyproc_tests::{Home, Machine};
use serde_json::{Value, json};

/// Longer than the time after which an idle machine guards its state.
const GUARDED: Duration = Duration::from_millis(400);

/// A run that is cancelled may not have begun on its code; then it is run again
/// and given more time.
const BEGUN: [Duration; 3] = [
    Duration::from_millis(150),
    Duration::from_secs(1),
    Duration::from_secs(5),
];

/// The output of a run that must succeed.
async fn output(machine: &Machine, code: &str) -> Value {
    machine.output("machine.run", json!({"code": code})).await
}

/// What the next reply says about the machine's recovery.
fn recovered(kind: &str, index: Value, lost_runs: u64) -> Value {
    json!({
        "reason": "MACHINE_KILLED",
        "restored": {"kind": kind, "index": index, "lostRuns": lost_runs},
    })
}

#[tokio::test]
async fn code_that_can_be_interrupted_keeps_its_state() {
    let home = Home::default();
    let machine = home.connect().await;
    machine
        .exec("import asyncio, json, re, threading, time, zlib\nmarker = -1\nlarge = [list(range(100)) for _ in range(60_000)]\nlock = threading.Lock()\nlock.acquire()\nNone")
        .await;
    let classes = [
        "while True: pass",
        "n = 0\nwhile True:\n    n += 1\n    print(n)",
        "hold = []\nwhile True:\n    hold.append(1)\n    if len(hold) > 1000: hold.clear()",
        "import gc\nwhile True: gc.collect()",
        "time.sleep(60)",
        "await asyncio.sleep(60)",
        "asyncio.run(asyncio.sleep(60))",
        "re.match(r'(a+)+$', 'a' * 60 + 'b')",
        "pow(3, 10 ** 8)",
        "while True: json.dumps(large)",
        "any(map(lambda x: False, iter(int, 1)))",
        "lock.acquire()",
        "sorted(range(10 ** 6), key=lambda x: time.sleep(0) or -x)",
        "try:\n    while True: pass\nexcept KeyboardInterrupt: cleaned = marker",
        "async def many():\n    await asyncio.gather(*(asyncio.sleep(60) for _ in range(20)))\nawait many()",
    ];
    for (number, class) in (0_i32..).zip(classes) {
        let code = format!("marker = {number}\n{class}");
        let mut begun = false;
        for wait in BEGUN {
            // A kill would take the marker away; there is time enough for none.
            let run = machine.start(json!({"code": code, "interruptGraceMs": 30_000}));
            machine.cancel_after(run, wait).await;
            let next = output(&machine, "6 * 7, marker").await;
            assert_eq!(next.get("recovered"), None, "{class}: {next}");
            begun = next["value"] == format!("(42, {number})");
            if begun {
                break;
            }
            assert_eq!(next["value"], format!("(42, {})", number - 1), "{class}");
        }
        assert!(begun, "{class}");
    }
    assert_eq!(machine.value("cleaned").await, "13");
    machine.close().await;
}

#[tokio::test]
async fn code_that_cannot_be_interrupted_is_killed_and_the_guard_restored() {
    let home = Home::with_machine(json!({"interruptGraceMs": 300}));
    let machine = home.connect().await;
    machine
        .exec("import collections, itertools, signal, sqlite3")
        .await;
    let stubborn = [
        "sum(range(10 ** 12))",
        "collections.deque(itertools.count(), maxlen=0)",
        "sqlite3.connect(':memory:').execute('with recursive r(n) as (select 1 union all select n + 1 from r) select max(n) from r').fetchall()",
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass",
    ];
    for (number, code) in stubborn.iter().enumerate() {
        machine.exec(&format!("before = {number}")).await;
        tokio::time::sleep(GUARDED).await;
        let mut next = Value::Null;
        for wait in BEGUN {
            let run = machine.start(json!({"code": format!("print('part')\nafter = 1\n{code}")}));
            machine.cancel_after(run, wait).await;
            next = output(&machine, "before, 'after' in globals()").await;
            assert_eq!(next["value"], format!("({number}, False)"), "{code}");
            if next.get("recovered").is_some() {
                break;
            }
        }
        assert_eq!(
            next["recovered"],
            recovered("guard", Value::Null, 0),
            "{code}"
        );
        assert_eq!(next["stdout"], "", "{code}");
        assert_eq!(
            output(&machine, "1").await.get("recovered"),
            None,
            "said once"
        );
    }
    machine.close().await;
}

#[tokio::test]
async fn a_kill_says_what_was_lost() {
    // Without a guard only what the client saved can come back.
    let home = Home::with_machine(json!({"guardIdleMs": 60_000, "interruptGraceMs": 0}));
    let machine = home.connect().await;
    let kill = async || {
        let run = machine.start(json!({"code": "while True: pass"}));
        machine.cancel_after(run, Duration::from_millis(100)).await;
    };
    machine.exec("x = 1").await;
    machine.exec("x = 2").await;
    kill().await;
    let next = output(&machine, "'x' in globals()").await;
    assert_eq!(next["value"], "False");
    assert_eq!(next["recovered"], recovered("base", Value::Null, 2));

    machine.exec("x = 3").await;
    assert_eq!(machine.save().await["index"], 1);
    kill().await;
    let next = output(&machine, "x").await;
    assert_eq!(
        (&next["value"], &next["recovered"]),
        (&json!("3"), &recovered("checkpoint", json!(1), 0))
    );

    machine.exec("x = 4").await;
    kill().await;
    // An error tells of the loss as a result does, and then it is told.
    let error = machine.error("1 / 0").await;
    assert_eq!(detail(&error, "type"), "ZeroDivisionError");
    assert_eq!(
        detail(&error, "recovered"),
        recovered("checkpoint", json!(1), 2)
    );
    let next = output(&machine, "x").await;
    assert_eq!((&next["value"], next.get("recovered")), (&json!("3"), None));

    // An engine failure tells its own client.
    machine.exec("x = 5").await;
    let error = machine.error("import os\nos._exit(1)").await;
    is_error(&error, "MACHINE_ENGINE_FAILED", Applied, false);
    let restored = detail(&error, "restored");
    // The look, the failed division and the last assignment.
    assert_eq!(restored["kind"], "checkpoint");
    assert_eq!(restored["index"], 1);
    assert_eq!(machine.value("x").await, "3");
    machine.close().await;
}

#[tokio::test]
async fn a_failed_engine_is_replaced_and_the_guard_restored() {
    let home = Home::default();
    let machine = home.connect().await;
    let nested = "deep = []\nfor _ in range(100_000): deep = [deep]\n";
    let triggers = [
        format!("{nested}repr(deep)"),
        format!("{nested}import json\njson.dumps(deep)"),
        format!("{nested}import pickle\npickle.dumps(deep)"),
        "it = iter([1])\nfor _ in range(200_000): it = map(int, it)\nnext(it)".to_owned(),
        "import sys\nsys.setrecursionlimit(10 ** 7)\ndef down(x): return sorted([x, x], key=down)\ndown(1)".to_owned(),
        "import os\nos.abort()".to_owned(),
        "import os\nos._exit(0)".to_owned(),
        "import faulthandler\nfaulthandler._sigsegv()".to_owned(),
        "import ctypes\nctypes.CFUNCTYPE(ctypes.c_int)(123_456_789)()".to_owned(),
    ];
    for (number, code) in triggers.iter().enumerate() {
        machine.exec(&format!("kept = {number}\nhandle = open('/home/user/file', 'w')\nhandle.write('buffered')\nNone")).await;
        tokio::time::sleep(GUARDED).await;
        let error = machine
            .error(&format!("print('said')\nkept = -1\n{code}"))
            .await;
        is_error(&error, "MACHINE_ENGINE_FAILED", Rejected, true);
        assert_eq!(
            detail(&error, "restored"),
            json!({"kind": "guard", "index": null, "lostRuns": 0}),
            "{code}"
        );
        assert_eq!(detail(&error, "stdout"), "said\n", "{code}");
        assert_eq!(
            machine.value("kept, handle.tell(), handle.closed").await,
            format!("({number}, 8, False)"),
            "{code}"
        );
    }
    machine.close().await;
}

#[tokio::test]
async fn errors_of_python_do_not_fail_the_engine() {
    let home = Home::default();
    let machine = home.connect().await;
    machine.exec("kept = 1").await;
    let harmless = [
        "def down(): return down() + 1\ndown()",
        "hold = []\nwhile True: hold.append(bytearray(30_000_000))",
        "eval('(' * 300 + ')' * 300)",
        "import ctypes\nctypes.pythonapi.PyList_Append(1)",
        "import builtins\nbuiltins.len = None\nlen('x')",
        "import os\nfor fd in range(3): os.close(fd)\nraise ValueError",
        "import sys\ndel sys.modules['_machine']\nraise ValueError",
    ];
    for code in harmless {
        let error = machine.error(code).await;
        let code_name = error.code().as_str();
        assert_eq!(code_name, "MACHINE_PYTHON_ERROR", "{code}: {error}");
        assert_eq!(machine.value("kept").await, "1", "{code}");
    }
    machine.close().await;
}

/// Each level of this recursion passes through C code. Whether Python's limit or the browser's
/// stack comes first depends on how far the browser has optimised the engine by then.
#[tokio::test]
async fn recursion_through_c_code_raises_or_is_recovered_from() {
    let home = Home::default();
    let machine = home.connect().await;
    machine.exec("kept = 1").await;
    tokio::time::sleep(GUARDED).await;
    let code = "class A:\n    def __getattr__(self, name): return getattr(self, name + 'x')\nA().a";
    let error = machine.error(code).await;
    match error.code().as_str() {
        "MACHINE_PYTHON_ERROR" => assert_eq!(detail(&error, "type"), "RecursionError"),
        "MACHINE_ENGINE_FAILED" => assert_eq!(detail(&error, "restored")["kind"], "guard"),
        other => panic!("{other}: {error}"),
    }
    assert_eq!(machine.value("kept").await, "1");
    machine.close().await;
}

#[tokio::test]
async fn resets_return_to_the_boot_state() {
    let home = Home::default();
    let machine = home.connect().await;
    let look = "import os, sys\nsorted(n for n in globals() if not n.startswith('__')), os.listdir('/home/user'), os.getcwd(), \
                'colorsys' in sys.modules, sys.getrecursionlimit()";
    let fresh = machine.value(look).await;
    for hard in [false, true, false] {
        machine
            .exec("import colorsys\nx = 1\nsys.setrecursionlimit(123)\nopen('/home/user/left', 'w').close()\nos.chdir('/')")
            .await;
        machine.save().await;
        let reset = machine.output("machine.reset", json!({"hard": hard})).await;
        assert_eq!(
            (&reset["index"], &reset["recycled"]),
            (&json!(0), &json!(hard))
        );
        assert_eq!(reset["pageBytes"], 4096);
        assert_eq!(machine.value(look).await, fresh, "hard: {hard}");
        let error = machine
            .refusal("machine.checkpoint.restore", json!({}))
            .await;
        is_error(&error, "MACHINE_CHECKPOINT_UNKNOWN", Rejected, false);
    }
    assert_eq!(machine.save().await["index"], 4);
    machine.close().await;
}

#[tokio::test]
async fn interrupts_at_any_moment_lose_no_reply_and_no_state() {
    let home = Home::with_machine(json!({"interruptGraceMs": 20_000}));
    let machine = home.connect().await;
    machine.exec("import time, asyncio\nruns = 0").await;
    let work = [
        "for i in range(30_000): pass",
        "time.sleep(0.01)",
        "await asyncio.sleep(0.01)",
        "x = [i for i in range(20_000)]",
        "print('x' * 1000)",
        "asyncio.run(asyncio.sleep(0.005))",
        "1",
    ];
    let mut random = pyproc_tests::random::Random::from_environment();
    let mut cancelled = 0;
    for round in 0..400_u64 {
        // The count is the first thing a run does, and one statement.
        let code = work[random.below(work.len())];
        let run = machine.start(json!({"code": code}));
        tokio::time::sleep(Duration::from_micros(random.below(14_000) as u64)).await;
        // A run that has ended already cannot be cancelled.
        let _ = machine.client.cancel(&run.id, Some("random"));
        let ending = tokio::time::timeout(pyproc_tests::PATIENCE, run.ending()).await;
        match ending.expect("every request ends") {
            Ok(_) => {}
            Err(error) => {
                cancelled += 1;
                let code = error.code().as_str();
                assert_eq!(code, "CONTROL_CANCELLED", "round {round}: {error}");
            }
        }
        let next = output(&machine, "runs += 1\nruns").await;
        assert_eq!(
            next["value"],
            (round + 1).to_string(),
            "round {round}, seed {}",
            random.seed
        );
        assert_eq!(
            next.get("recovered"),
            None,
            "round {round}, seed {}",
            random.seed
        );
    }
    assert!(cancelled > 50, "only {cancelled} were cancelled");
    machine.close().await;
}
