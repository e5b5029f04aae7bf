//! Every kind of state comes back as it was saved, in the same worker and in a
//! fresh one (machine 7, 9; conformance 11 to 28 and 35).

use pyproc_protocol::FailureOutcome::Rejected;
use pyproc_tests::python::{detail, is_error};
use pyproc_tests::{Home, Machine};
use serde_json::json;

/// State that is made and saved, then changed; looking at it after a restore
/// shows what was made.
struct Scenario {
    name: &'static str,
    make: &'static str,
    change: &'static str,
    look: &'static str,
    /// What the look shows; `None` when it shows the same before the save.
    shows: Option<&'static str>,
}

const IMPORTS: &str = "import asyncio, ctypes, gc, hashlib, mmap, os, random, shutil, sqlite3, sys, zlib\n\
                       os.chdir('/home/user')";

const SCENARIOS: [Scenario; 18] = [
    Scenario {
        name: "closed pipes and sockets",
        make: "import socket\nsocket.socket().close()\nfor end in os.pipe(): os.close(end)\nopen('beside', 'w').close()",
        change: "socket.socket().close()\nos.unlink('beside')",
        look: "os.path.exists('beside')",
        shows: Some("True"),
    },
    Scenario {
        name: "variables and a generator in mid-iteration",
        make: "x = [1]\ng = (i * i for i in range(10))\nnext(g), next(g)\nNone",
        change: "x.append(2)\ndel g\nx = 'other'",
        look: "x, next(g)",
        shows: Some("([1], 4)"),
    },
    Scenario {
        name: "a file with unflushed text",
        make: "f = open('t', 'w')\nf.write('half')\nNone",
        change: "f.write(' more')\nf.close()\nos.unlink('t')",
        look: "f.closed, f.name, os.path.getsize('t'), f.write('!'), f.flush(), open('t').read(), f.tell()",
        shows: Some("(False, 't', 0, 1, None, 'half!', 5)"),
    },
    Scenario {
        name: "a duplicated descriptor",
        make: "one = os.open('d', os.O_RDWR | os.O_CREAT)\nos.write(one, b'0123456789')\ntwo = os.dup(one)\n\
               os.lseek(one, 3, 0)\nNone",
        change: "os.close(two)\nos.lseek(one, 9, 0)\nNone",
        look: "os.read(two, 2), os.read(one, 2)",
        shows: Some("(b'34', b'56')"),
    },
    Scenario {
        name: "an open file without a name",
        make: "u = open('u', 'w+b')\nu.write(b'ghost')\nu.flush()\nos.unlink('u')",
        change: "u.truncate(0)\nu.close()",
        look: "os.pread(u.fileno(), 9, 0), os.path.exists('u'), u.tell()",
        shows: Some("(b'ghost', False, 5)"),
    },
    Scenario {
        name: "a tree of files",
        make: "os.makedirs('tree/a/b')\nos.mkdir('tree/empty')\nfor i in range(8):\n    with open(f'tree/a/f{i}', 'w') as f: f.write('x' * i)\n\
               os.chmod('tree/a/f1', 0o600)\nos.utime('tree/a/f2', (5, 7.25))\nos.symlink('a/f3', 'tree/link')\nos.chdir('tree/a')\n\
               def listing(path='/home/user'):\n    for entry in sorted(os.scandir(path), key=lambda e: e.name):\n\
               \x20       s = entry.stat(follow_symlinks=False)\n\
               \x20       yield entry.path, s.st_ino, s.st_mode, s.st_size, s.st_mtime_ns, s.st_ctime_ns\n\
               \x20       if entry.is_symlink(): yield os.readlink(entry.path)\n\
               \x20       elif entry.is_dir(): yield from listing(entry.path)\n\
               \x20       else: yield open(entry.path, 'rb').read()",
        change: "os.chdir('/home/user')\nshutil.rmtree('tree/empty')\nos.rename('tree/a/f4', 'tree/g4')\nos.truncate('tree/a/f7', 2)\n\
                 os.unlink('tree/link')\nos.symlink('nowhere', 'tree/link')\nos.chmod('tree/a/f1', 0o777)\nos.utime('tree/a/f2')\n\
                 os.rename('tree/a/b', 'c')\nshutil.rmtree('tree')\nopen('new', 'w').close()",
        look: "os.getcwd(), list(listing())",
        shows: None,
    },
    Scenario {
        name: "a file that is edited in place",
        make: "with open('e', 'wb') as f: f.write(b'a' * 3_000_000)",
        change: "with open('e', 'r+b') as f:\n    f.seek(1_500_000)\n    f.write(b'zz')\nwith open('e', 'ab') as f: f.write(b'end')",
        look: "set(open('e', 'rb').read()), os.path.getsize('e')",
        shows: Some("({97}, 3000000)"),
    },
    Scenario {
        name: "modules that are imported later",
        make: "pass",
        change: "import colorsys, wave",
        look: "'wave' in sys.modules, 'colorsys' in sys.modules, __import__('wave').__name__",
        shows: Some("(False, False, 'wave')"),
    },
    Scenario {
        name: "a database with an open transaction",
        make: "db = sqlite3.connect('db')\ndb.execute('create table t(a)')\ndb.commit()\ndb.execute('insert into t values(1)')\nNone",
        change: "db.commit()\ndb.execute('drop table t')\ndb.close()\nos.unlink('db')",
        look: "count = lambda: db.execute('select count(*) from t').fetchall()\n\
               db.in_transaction, count(), db.execute('pragma integrity_check').fetchall(), db.rollback(), count()",
        shows: Some("(True, [(1,)], [('ok',)], None, [(0,)])"),
    },
    Scenario {
        name: "a mapped file",
        make: "with open('m', 'wb') as f: f.write(b'old' + bytes(5000))\nm = open('m', 'r+b')\nmapped = mmap.mmap(m.fileno(), 5003)",
        change: "mapped[:3] = b'new'\nmapped.flush()\nNone",
        look: "mapped[:3], open('m', 'rb').read(3)",
        shows: Some("(b'old', b'old')"),
    },
    Scenario {
        name: "a foreign-function callback",
        make: "C = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)\nback = C(lambda a: a + 100)\nback(1)\nNone",
        change: "del back\ngc.collect()\nothers = [C(lambda a, i=i: i) for i in range(40)]\n[other(1) for other in others]\nNone",
        look: "back(5)",
        shows: Some("105"),
    },
    Scenario {
        name: "tasks that are pending",
        make: "results = []\nasync def work(k):\n    for i in range(3):\n        await asyncio.sleep(0.001)\n        results.append((k, i))\n    return k\n\
               tasks = [asyncio.create_task(work(k)) for k in range(3)]\nawait asyncio.sleep(0)",
        change: "await asyncio.gather(*tasks)\ntasks.clear()",
        look: "await asyncio.gather(*tasks), sorted(results) == [(k, i) for k in range(3) for i in range(3)]",
        shows: Some("([0, 1, 2], True)"),
    },
    Scenario {
        name: "a queue, a lock and a timer of the event loop",
        make: "queue = asyncio.Queue()\nlock = asyncio.Lock()\nawait lock.acquire()\nwaiting = asyncio.create_task(queue.get())\n\
               fired = []\nhandle = asyncio.get_running_loop().call_later(0.05, fired.append, 1)\nawait asyncio.sleep(0)",
        change: "queue.put_nowait('later')\nawait waiting\nlock.release()\nawait asyncio.sleep(0.1)",
        look: "before = lock.locked(), waiting.done(), list(fired)\nqueue.put_nowait('now')\nbefore, await waiting, await asyncio.sleep(0.1), fired",
        shows: Some("((True, False, []), 'now', None, [1])"),
    },
    Scenario {
        name: "hashes and compressors in the middle of their work",
        make: "h = hashlib.sha256(b'one')\nz = zlib.compressobj()\npart = z.compress(b'data' * 1000)",
        change: "h.update(b'two')\nz.flush()\nNone",
        look: "h.hexdigest() == hashlib.sha256(b'one').hexdigest(), zlib.decompress(part + z.flush()) == b'data' * 1000",
        shows: Some("(True, True)"),
    },
    Scenario {
        name: "random numbers and the series they belong to",
        make: "random.seed(5)\nrandom.random()\nNone",
        change: "random.seed(6)",
        look: "random.random(), random.getrandbits(64), random.sample(range(1000), 5)",
        shows: Some("(0.7417869892607294, 12736496262939004471, [965, 861, 757, 667, 944])"),
    },
    Scenario {
        name: "cycles and weak references",
        make: "import weakref\nclass Node: pass\nnode = Node()\nnode.self = node\nweak = weakref.ref(node)",
        change: "del node\ngc.collect()\nassert weak() is None",
        look: "weak() is node, node.self is node, node.__class__ is Node",
        shows: Some("(True, True, True)"),
    },
    Scenario {
        name: "the environment and the interpreter's settings",
        make: "os.environ['PLACE'] = 'here'\nsys.setrecursionlimit(777)\nsys.path.append('/extra')",
        change: "del os.environ['PLACE']\nsys.setrecursionlimit(1500)\nsys.path.clear()",
        look: "os.environ['PLACE'], os.getenv('PLACE'), sys.getrecursionlimit(), '/extra' in sys.path",
        shows: Some("('here', 'here', 777, True)"),
    },
    Scenario {
        name: "a directory that is being read",
        make: "os.mkdir('many')\nfor i in range(20): open(f'many/{i:02}', 'w').close()\nwalk = os.scandir('many')\nfirst = next(walk).name",
        change: "rest = [entry.name for entry in walk]\nshutil.rmtree('many')",
        look: "len([entry.name for entry in walk]), len(os.listdir('many'))",
        shows: Some("(19, 20)"),
    },
];

/// Ends the worker: whatever is restored next was made by another one.
async fn end_worker(machine: &Machine) {
    let error = machine.error("import os\nos._exit(1)").await;
    assert_eq!(error.code().as_str(), "MACHINE_ENGINE_FAILED");
}

#[tokio::test]
async fn every_kind_of_state_comes_back() {
    let home = Home::default();
    let machine = home.connect().await;
    for scenario in SCENARIOS {
        let name = scenario.name;
        machine.output("machine.reset", json!({})).await;
        machine.exec(IMPORTS).await;
        machine.exec(scenario.make).await;
        let shows = match scenario.shows {
            Some(shows) => shows.to_owned(),
            None => machine.value(scenario.look).await,
        };
        let index = machine.save().await["index"].clone();
        for turn in 0..2 {
            // Looking may use things up: each turn changes the saved state.
            machine.restore(index.clone()).await;
            machine.exec(scenario.change).await;
            let moved = machine.restore(index.clone()).await;
            assert_eq!(moved["recycled"], false, "{name}");
            let seen = machine.value(scenario.look).await;
            assert_eq!(seen, shows, "{name}, turn {turn}");
        }
        end_worker(&machine).await;
        machine.restore(index.clone()).await;
        let seen = machine.value(scenario.look).await;
        assert_eq!(seen, shows, "{name}, in a fresh worker");
        machine.restore(index.clone()).await;
        machine.exec(scenario.change).await;
        machine.restore(index).await;
        let seen = machine.value(scenario.look).await;
        assert_eq!(seen, shows, "{name}, again in the fresh worker");
    }
    machine.close().await;
}

#[tokio::test]
async fn a_grown_heap_is_empty_where_the_state_does_not_reach() {
    let home = Home::default();
    let machine = home.connect().await;
    machine.exec("small = 1").await;
    let first = machine.save().await;
    machine.exec("big = bytearray(b'x') * 50_000_000").await;
    let second = machine.save().await;
    let bytes = |saved: &serde_json::Value| saved["heapBytes"].as_u64().unwrap();
    assert!(bytes(&second) > bytes(&first).max(50_000_000));
    for _ in 0..2 {
        machine.restore(first["index"].clone()).await;
        let fresh = "fresh = bytearray(50_000_000)\n'big' in globals(), any(fresh), small";
        assert_eq!(machine.value(fresh).await, "(False, False, 1)");
        machine.restore(second["index"].clone()).await;
        assert_eq!(
            machine.value("len(big), set(big), small").await,
            "(50000000, {120}, 1)"
        );
    }
    end_worker(&machine).await;
    machine.restore(second["index"].clone()).await;
    assert_eq!(
        machine.value("len(big), set(big)").await,
        "(50000000, {120})"
    );
    machine.close().await;
}

#[tokio::test]
async fn checkpoints_form_a_tree() {
    let home = Home::default();
    let machine = home.connect().await;
    let mut saved = Vec::new();
    for step in ["path = ['A']", "path.append('B')", "path.append('C')"] {
        machine.exec(step).await;
        saved.push(machine.save().await["index"].clone());
    }
    machine.restore(saved[0].clone()).await;
    machine.exec("path.append('D')").await;
    saved.push(machine.save().await["index"].clone());
    let paths = ["['A']", "['A', 'B']", "['A', 'B', 'C']", "['A', 'D']"];
    for round in 0..3 {
        for visit in [2, 3, 1, 0, 3, 0, 2] {
            if round == 1 {
                machine.exec("path.append('noise')").await;
            }
            machine.restore(saved[visit].clone()).await;
            assert_eq!(machine.value("path").await, paths[visit]);
        }
        if round == 1 {
            end_worker(&machine).await;
        }
    }
    machine.close().await;
}

#[tokio::test]
async fn a_state_comes_back_after_every_way_a_run_can_fail() {
    let home = Home::default();
    let machine = home.connect().await;
    machine
        .exec("state = {'a': [1, 2, 3]}\ndef down(): down()")
        .await;
    let index = machine.save().await["index"].clone();
    let failures = [
        "state.clear()\ndown()",
        "state.clear()\nhold = []\nwhile True: hold.append(bytearray(20_000_000))",
        "state.clear()\nraise KeyboardInterrupt",
        "state.clear()\nimport sys\nsys.exit(1)",
        "state.clear()\nimport json\njson.loads('[' * 900)",
        "state.clear()\nasync def fail(): raise ValueError\nawait fail()",
    ];
    for code in failures {
        machine.error(code).await;
        assert_eq!(machine.value("state").await, "{}", "{code}");
        machine.restore(index.clone()).await;
        assert_eq!(machine.value("state").await, "{'a': [1, 2, 3]}", "{code}");
        let error = machine.error("down()").await;
        assert_eq!(detail(&error, "type"), "RecursionError");
    }
    machine.close().await;
}

#[tokio::test]
async fn what_cannot_be_saved_is_refused_until_it_is_gone() {
    let home = Home::default();
    let machine = home.connect().await;
    let cases = [
        (
            "import os\nends = os.pipe()",
            "os.close(ends[0])\nos.close(ends[1])",
            "stream",
        ),
        (
            "from pyodide.ffi import to_js\narray = to_js([1, 2])",
            "del array",
            "hostObjects",
        ),
    ];
    for (make, remove, reason) in cases {
        machine.exec(make).await;
        machine.exec("alive = 1").await;
        let error = machine.refusal("machine.checkpoint.save", json!({})).await;
        is_error(&error, "MACHINE_CHECKPOINT_REFUSED", Rejected, true);
        assert_eq!(detail(&error, "reason"), reason);
        if reason == "hostObjects" {
            assert!(detail(&error, "count").as_u64() >= Some(1), "{error}");
        }
        assert_eq!(machine.value("alive").await, "1");
        machine.exec(remove).await;
        machine.save().await;
    }
    machine.close().await;
}

#[tokio::test]
async fn boots_share_no_secret_and_no_random_series() {
    let home = Home::default();
    let (one, two) = (home.connect().await, home.connect().await);
    for draw in [
        "import random\nrandom.random()",
        "import secrets\nsecrets.token_hex()",
        "import uuid\nuuid.uuid4()",
    ] {
        assert_ne!(one.value(draw).await, two.value(draw).await, "{draw}");
    }
    let seeded = "random.seed(7)\n[random.random() for _ in range(5)]";
    assert_eq!(one.value(seeded).await, two.value(seeded).await);
    one.close().await;
    two.close().await;
    home.is_left_clean().await;
}
