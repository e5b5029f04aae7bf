//! What a checkpoint holds, step by step: every row is one step of the same
//! session (machine 2, 7, 9; control protocol 7.3, 7.4).

use std::collections::BTreeSet;

use pyproc_protocol::FailureOutcome::{NotSent, Rejected};
use pyproc_tests::python::is_error;
use pyproc_tests::{Home, Machine};
use serde_json::{Value, json};

const MAKE: &str = r#"
import array, hashlib, os, random, sys
n = 1
os.makedirs('/box/sub')
with open('/box/a.txt', 'w') as f: f.write('first')
os.chmod('/box/a.txt', 0o640)
with open('/box/data.bin', 'wb') as f: f.write(bytes(range(256)) * 40)
os.symlink('/box/data.bin', '/box/link')
random.seed(7)
first_draw = random.random()
def count():
    k = 0
    while True:
        k += 1
        yield k
gen = count()
next(gen), next(gen)
numbers = array.array('q', range(1000))
digest = hashlib.sha256(b'one')
class Loop: pass
loop = Loop()
loop.self = loop
loop.text = 'round'
None
"#;

const CHANGE: &str = r#"
import colorsys, shutil, wave
n = 2
shutil.rmtree('/box')
os.makedirs('/other')
with open('/other/b.txt', 'w') as f: f.write('second')
for _ in range(50): random.random()
for _ in range(10): next(gen)
numbers[0] = -1
numbers.extend(range(50))
digest.update(b'two')
loop.text = 'changed'
loop.self = None
big = bytearray(50_000_000)
big[::4096] = b'x' * len(big[::4096])
fresh = 'only later'
"#;

/// Everything of `MAKE` without changing it; the copy of the digest leaves the
/// original as it is.
const LOOK: &str = r#"
(n, os.path.isdir('/box/sub'), open('/box/a.txt').read(), oct(os.stat('/box/a.txt').st_mode & 0o777),
 hashlib.md5(open('/box/data.bin', 'rb').read()).hexdigest() == hashlib.md5(bytes(range(256)) * 40).hexdigest(),
 os.readlink('/box/link'), os.path.samefile('/box/link', '/box/data.bin'), len(numbers), numbers[0], numbers[999],
 digest.copy().hexdigest() == hashlib.sha256(b'one').hexdigest(), loop.self is loop, loop.text,
 os.path.exists('/other'), 'big' in globals(), 'fresh' in globals(), 'wave' in sys.modules, 'colorsys' in sys.modules)
"#;

const AS_SAVED: &str = "(1, True, 'first', '0o640', True, '/box/data.bin', True, 1000, 0, 999, True, True, 'round', \
                        False, False, False, False, False)";

const LOOK_LATER: &str = r#"
(n, os.path.exists('/box'), open('/other/b.txt').read(), len(numbers), numbers[0],
 digest.copy().hexdigest() == hashlib.sha256(b'onetwo').hexdigest(), loop.self, loop.text, len(big), big[4096], big[4097],
 fresh, 'wave' in sys.modules, next(gen))
"#;

/// The second draw of the saved series, taken without touching its state.
const SECOND_DRAW: &str =
    "series = random.Random(7)\n(series.random() == first_draw, series.random())";

async fn refused(machine: &Machine, input: Value, code: &str) {
    let error = machine
        .refusal("machine.checkpoint.restore", input.clone())
        .await;
    let outcome = if code == "PYPROC_INPUT_INVALID" {
        NotSent
    } else {
        Rejected
    };
    is_error(&error, code, outcome, false);
}

#[tokio::test]
async fn checkpoints_hold_what_was_there_and_nothing_else() {
    let home = Home::default();
    let machine = home.connect().await;
    let unknown = "MACHINE_CHECKPOINT_UNKNOWN";

    // 1: nothing is saved yet.
    refused(&machine, json!({}), unknown).await;
    refused(&machine, json!({"index": 1}), unknown).await;

    // 2, 3: the second save has nothing to add.
    machine.exec(MAKE).await;
    let saved = machine.save().await;
    assert_eq!(
        (&saved["index"], &saved["kind"]),
        (&json!(1), &json!("delta"))
    );
    assert!(saved["changedPages"].as_u64().unwrap() > 0, "{saved}");
    let saved = machine.save().await;
    assert_eq!(
        (&saved["index"], &saved["changedPages"]),
        (&json!(2), &json!(0))
    );

    // 4
    machine.exec(CHANGE).await;
    assert_eq!(machine.save().await["index"], 3);

    // 5, 6
    machine.exec("n = 33").await;
    let moved = machine.restore(json!(1)).await;
    assert_eq!(
        (&moved["index"], &moved["rehashed"]),
        (&json!(1), &json!(true))
    );
    assert!(moved["pagesWritten"].as_u64().unwrap() > 0, "{moved}");
    let moved = machine.restore(json!(1)).await;
    assert_eq!(
        (&moved["index"], &moved["rehashed"]),
        (&json!(1), &json!(false))
    );
    assert_eq!(moved["pagesWritten"], 0);

    // 7
    assert_eq!(machine.value(LOOK).await, AS_SAVED);
    let expected = machine.value(SECOND_DRAW).await;
    let expected = expected
        .strip_prefix("(True, ")
        .expect("the first draw was the first of its series");
    let expected = format!("(3, {expected}");
    assert_eq!(
        machine.value("(next(gen), random.random())").await,
        expected
    );

    // 8
    assert_eq!(machine.restore(json!(3)).await["index"], 3);
    assert_eq!(
        machine.value(LOOK_LATER).await,
        "(2, False, 'second', 1050, -1, True, None, 'changed', 50000000, 120, 0, 'only later', True, 13)"
    );

    // 9: an index is a number, whichever way it is written; secrets are fresh.
    let mut secrets = BTreeSet::new();
    for _ in 0..2 {
        assert_eq!(machine.restore(json!(1.0)).await["index"], 1);
        let drawn = machine
            .printed(
                "import secrets, uuid\n\
                 for _ in range(20): print(secrets.token_hex(16), uuid.uuid4(), os.urandom(16).hex(), sep='\\n')",
            )
            .await;
        secrets.extend(drawn.lines().map(str::to_owned));
    }
    assert_eq!(secrets.len(), 120);

    // 10
    machine.restore(json!(1)).await;
    assert_eq!(machine.value(LOOK).await, AS_SAVED);
    assert_eq!(
        machine.value("(next(gen), random.random())").await,
        expected
    );

    // 11, 12: a branch is the latest checkpoint.
    assert_eq!(machine.save().await["index"], 4);
    machine.exec("n = 44").await;
    assert_eq!(machine.restore(Value::Null).await["index"], 4);
    assert_eq!(machine.value("n, next(gen)").await, "(1, 4)");

    // 13, 14: what is refused changes nothing.
    machine.exec("n = 55").await;
    for index in [99, 0, -1] {
        refused(&machine, json!({"index": index}), unknown).await;
    }
    for index in [json!("1"), json!(1.5), json!(true)] {
        refused(&machine, json!({"index": index}), "PYPROC_INPUT_INVALID").await;
    }
    assert_eq!(machine.value("n, next(gen)").await, "(55, 5)");

    // 15
    let reset = machine.output("machine.reset", json!({})).await;
    assert_eq!(reset["index"], 0);
    assert_eq!(
        machine
            .value(
                "import os, sys\n('n' in globals(), 'gen' in globals(), os.path.exists('/box'), os.path.exists('/other'), \
                 'pyprocJail' in sys.modules, __name__)"
            )
            .await,
        "(False, False, False, False, True, '__main__')"
    );

    // 16, 17
    refused(&machine, json!({"index": 1}), unknown).await;
    assert_eq!(machine.save().await["index"], 5);
    machine.close().await;
}
