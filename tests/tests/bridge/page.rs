//! What guest code can reach of the page and of the network (control protocol
//! 6.2, 7.6; machine 16).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pyproc_tests::{Home, run};
use tokio::net::TcpListener;

use crate::{booted, still_serves};

/// A listener that counts connections, and its address.
async fn witness() -> (Arc<AtomicUsize>, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let count = Arc::new(AtomicUsize::new(0));
    let counter = count.clone();
    tokio::spawn(async move {
        while listener.accept().await.is_ok() {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    });
    (count, address)
}

#[tokio::test]
async fn guest_code_reaches_no_server() {
    let home = Home::default();
    let (mut product, authority) = booted(&home).await;
    let (count, other) = witness().await;
    let attempts = [
        "import js",
        "import pyodide_js",
        "from pyodide.http import pyfetch; await pyfetch(URL)",
        "from pyodide.http import open_url; open_url(URL)",
        "import urllib.request; urllib.request.urlopen(URL, timeout=2)",
        "import socket; socket.create_connection((HOST, PORT), timeout=2).sendall(b'GET / HTTP/1.0\\n\\n')",
        "import pyodide.code; pyodide.code.run_js('fetch(\"' + URL + '\")')",
        "import ctypes; ctypes.CDLL(None).emscripten_run_script(('fetch(\"' + URL + '\")').encode())",
        "import subprocess; subprocess.run(['curl', URL], check=True)",
    ];
    for address in [other, authority] {
        let (host, port) = address.split_once(':').expect("a port");
        for (number, attempt) in attempts.iter().enumerate() {
            let code =
                format!("URL = 'http://{address}/'; HOST = '{host}'; PORT = {port}\n{attempt}");
            let id = format!("t:{port}:{number}");
            product.send(&run(&id, &code)).await;
            let answer = product.terminal(&id).await;
            assert_eq!(answer["type"], "error", "{attempt}: {answer}");
        }
    }
    assert_eq!(count.load(Ordering::Relaxed), 0, "connections");
    still_serves(&mut product, "r:1").await;
}

#[tokio::test]
async fn guest_code_sees_no_secret_and_cannot_change_later_answers() {
    let home = Home::default();
    let (mut product, _) = booted(&home).await;
    let code = r"
import builtins, gc, io, json, os, sys
seen = repr(os.environ) + repr(sys.argv) + repr(vars(sys.modules['__main__']))
json.dumps = json.loads = lambda *a, **k: 'forged'
builtins.repr = builtins.compile = builtins.exec = builtins.eval = lambda *a, **k: 'forged'
sys.stdout = sys.stderr = io.StringIO()
sys.modules.pop('_machine', None)
'controlBootstrap' in seen or 'capability' in seen or 'token' in seen
";
    product.send(&run("r:1", code)).await;
    assert_eq!(product.frame().await["output"]["value"], "False");
    still_serves(&mut product, "r:2").await;
}
