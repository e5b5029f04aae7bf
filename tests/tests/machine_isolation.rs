//! Guest code reaches nobody (machine 16.6; conformance 38 with all walls).
//!
//! Every attempt runs in the product while servers listen on other ports of
//! the loopback; they must not even see a connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pyproc_tests::python::detail;
use pyproc_tests::{Home, Machine};
use serde_json::json;
use tokio::net::{TcpListener, UdpSocket};

/// Counts whoever comes.
struct Outside {
    port: u16,
    seen: Arc<AtomicUsize>,
}

impl Outside {
    async fn listen(address: &str) -> Self {
        let tcp = TcpListener::bind((address, 0)).await.expect("a port");
        let port = tcp.local_addr().expect("an address").port();
        let udp = UdpSocket::bind((address, port)).await.expect("a port");
        let seen = Arc::new(AtomicUsize::new(0));
        let counted = seen.clone();
        tokio::spawn(async move {
            while tcp.accept().await.is_ok() {
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
        let counted = seen.clone();
        tokio::spawn(async move {
            while udp.recv_from(&mut [0; 1]).await.is_ok() {
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
        Self { port, seen }
    }

    fn seen(&self) -> usize {
        self.seen.load(Ordering::SeqCst)
    }
}

/// Attempts that must raise; `HOST` stands for the authority of a listening
/// server, `PORT` for its port.
const RAISES: &[&str] = &[
    // 1, 2, 3, 4, 5, 9: no JavaScript names.
    "import js",
    "import pyodide_js",
    "from pyodide_js import loadPackage",
    "import pyodide_js._api",
    "import micropip",
    "from js import fetch",
    "from js import XMLHttpRequest, EventSource, WebSocket, WebTransport",
    "from js import importScripts, Worker",
    "from js import indexedDB, caches, navigator, BroadcastChannel",
    "from js import postMessage, self",
    "import importlib\nimportlib.import_module('js')",
    // 8: Python's own ways.
    "import pyodide.http\nawait pyodide.http.pyfetch('http://HOST/')",
    "import pyodide.http\npyodide.http.open_url('http://HOST/')",
    "import pyodide.http\npyodide.http.open_url('data:text/plain,x')",
    "import urllib.request\nurllib.request.urlopen('http://HOST/', timeout=2)",
    "import http.client\nc = http.client.HTTPConnection('HOST', timeout=2)\nc.request('GET', '/')\nc.getresponse()",
    "import socket\nsocket.create_connection(('127.0.0.1', PORT), 2)",
    "import asyncio\nawait asyncio.open_connection('127.0.0.1', PORT)",
    "import asyncio\nawait asyncio.wait_for(asyncio.start_server(print, '127.0.0.1', 0), 2)",
    "import socket\nsocket.getaddrinfo('localhost', PORT)[0][0].nothing",
    "import socket, ssl\nssl.create_default_context().wrap_socket(socket.create_connection(('127.0.0.1', PORT), 2))",
    // 6, 7, 11: code from strings, timers.
    "import pyodide.code\npyodide.code.run_js('1')",
    "from pyodide.ffi import to_js\nto_js([1]).constructor.constructor('return 1')()",
    "from pyodide.ffi import to_js\nto_js([1]).constructor.constructor.new('return 1')",
    "from pyodide.ffi import to_js\nto_js(print).constructor('return import(\"http://HOST/\")')()",
    "import pyodide.ffi\npyodide.ffi.run_sync(1)",
    "from pyodide import webloop\nfrom pyodide.ffi import create_proxy\nwebloop.scheduleCallback(create_proxy(print), 0)",
    // 10: intrinsics.
    "from pyodide.ffi import to_js\nto_js([1]).constructor.prototype.push = 1",
    "from pyodide.ffi import to_js\nto_js([1]).constructor.prototype.__proto__.polluted = 1",
    "from pyodide.ffi import to_js\nto_js([1]).constructor.constructor.prototype.call = 1",
    // 13: processes, threads, host files.
    "import subprocess\nsubprocess.run(['ls'])",
    "import threading\nthreading.Thread(target=print).start()",
    "import os\nos.fork()",
    "import os\nos.execv('/bin/ls', ['ls'])",
    "open('/etc/passwd')",
    "open('/proc/self/environ')",
    "import os\nos.listdir('/root')",
    "import multiprocessing\nmultiprocessing.Process(target=print).start()",
    "import webbrowser\nwebbrowser.get().open('http://HOST/')",
    "import pyprocJail\npyprocJail.net('127.0.0.1')",
    "import pyprocJail\npyprocJail.home()",
];

/// Attempts that may end in any way but must not be heard.
const SILENT: &[&str] = &[
    "import os\nos.system('curl http://HOST/')",
    "import socket\ns = socket.socket()\ns.setblocking(False)\ns.connect_ex(('127.0.0.1', PORT))",
    "import socket\ns = socket.socket()\ns.connect(('127.0.0.1', PORT))",
    "import socket\nu = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\nu.sendto(b'x', ('127.0.0.1', PORT))",
    "import socket\ns = socket.socket(socket.AF_INET6)\ns.connect(('::1', PORT))",
    "import ctypes\nctypes.CDLL(None).emscripten_run_script(b'fetch(\"http://HOST/\")')",
    "import ctypes\nctypes.CDLL('http://HOST/lib.so')",
    "import ctypes\nctypes.CDLL(None).emscripten_async_wget_data(b'http://HOST/', 0, 0, 0)",
    "import ctypes\nctypes.CDLL(None).emscripten_fetch(0, b'http://HOST/')",
    "import sys\nsys.path.insert(0, 'http://HOST/')\nimport from_there",
    "import zipimport\nzipimport.zipimporter('http://HOST/x.zip')",
    "import xml.sax\nxml.sax.parseString('<!DOCTYPE a SYSTEM \"http://HOST/x\"><a/>', xml.sax.ContentHandler())",
    "import logging.handlers\nlogging.handlers.SysLogHandler(('127.0.0.1', PORT))",
];

async fn attempt(machine: &Machine, outside: &Outside, code: &str) -> bool {
    let port = outside.port.to_string();
    let code = code.replace("HOST", &format!("127.0.0.1:{port}"));
    let code = code.replace("PORT", &port);
    let failed = machine.run(&code).await.is_err();
    assert_eq!(outside.seen(), 0, "{code}");
    failed
}

#[tokio::test]
async fn no_way_leads_to_another_server() {
    let home = Home::default();
    let machine = home.connect().await;
    let outside = Outside::listen("127.0.0.1").await;
    assert_eq!(machine.value("6 * 7").await, "42");
    for code in RAISES {
        assert!(
            attempt(&machine, &outside, code).await,
            "nothing raised: {code}"
        );
    }
    for code in SILENT {
        attempt(&machine, &outside, code).await;
        // The machine, renewed or not, goes on.
        assert_eq!(machine.value("6 * 7").await, "42", "{code}");
    }
    // What waits for a later turn gets one.
    for _ in 0..5 {
        machine.exec("import time\ntime.sleep(0.1)").await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(outside.seen(), 0);
    // The counter counts.
    drop(
        tokio::net::TcpStream::connect(("127.0.0.1", outside.port))
            .await
            .expect("it listens"),
    );
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(outside.seen(), 1);
    machine.close().await;
}

#[tokio::test]
async fn only_the_configured_environment_is_visible() {
    let home = Home::default();
    let config = home.config();
    let mut command = home.command(&["--config", config.to_str().unwrap()]);
    command.env("SECRET_OF_THE_HOST", "hidden");
    let mut product = pyproc_tests::Product::spawn(command);
    product.send(&pyproc_tests::hello()).await;
    product.frame().await;
    let code = "import os\nsorted(set(os.environ) - {'HOME', 'PYTHONINSPECT', 'PATH', 'PWD', 'LANG', '_', 'USER', 'LOGNAME', 'LD_LIBRARY_PATH'}), 'SECRET_OF_THE_HOST' in os.environ";
    product.send(&pyproc_tests::run("env", code)).await;
    let reply = product.terminal("env").await;
    assert_eq!(reply["output"]["value"], "([], False)", "{reply}");
}

#[tokio::test]
async fn the_host_object_gives_nothing_away() {
    let home = Home::default();
    let machine = home.connect().await;
    machine
        .exec(
            "import gc\nfrom pyodide.ffi import JsProxy\nseen = {}\n\
             def visit(o):\n    if isinstance(o, JsProxy): seen[o.js_id] = o\n\
             for o in gc.get_objects():\n    visit(o)\n    for r in gc.get_referents(o): visit(r)\n\
             host = next(o for o in seen.values() if hasattr(o, 'wheel'))",
        )
        .await;
    let kinds = machine
        .value("sorted(o.typeof for o in seen.values())")
        .await;
    assert_eq!(kinds, "['function', 'object', 'object']");
    let nothing = "[host.wheel(x) for x in (1, None, '', '../x', '/etc/passwd', 'http://h/', 'a b', 'x' * 1000, 'no_such_module')]";
    assert_eq!(
        machine.value(nothing).await,
        format!("[{}]", ["None"; 9].join(", "))
    );
    assert_eq!(
        machine
            .value("[host.sleep(x) for x in ('x', None, float('nan'), -1)]")
            .await,
        "[None, None, None, None]"
    );
    for code in [
        "host.constructor",
        "host.sleep.constructor",
        "host.__proto__",
    ] {
        let error = machine.error(code).await;
        assert_eq!(detail(&error, "type"), "AttributeError", "{code}");
    }
    for code in [
        "host.eval('1')",
        "host.sleep = 1",
        "host.extra = 1",
        "del host.sleep",
    ] {
        machine.error(code).await;
    }
    machine.output("machine.reset", json!({})).await;
    assert_eq!(machine.value("6 * 7").await, "42");
    machine.close().await;
}
