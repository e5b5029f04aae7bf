// Isolation (machine 16): the lines of 16.6 with all walls, and with only the worker's policy and opaque origin left
// (conformance 38), hazards H17 and H18.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { openBrowser, openMachine } from "./support/browser.mjs";

/** A second origin that counts every connection. */
async function openOutside() {
  let connections = 0;
  const server = createServer((_, response) => {
    response.setHeader("Access-Control-Allow-Origin", "*");
    response.setHeader("Cross-Origin-Resource-Policy", "cross-origin");
    response.end("outside");
  });
  server.on("connection", () => {
    connections += 1;
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  return { host: `127.0.0.1:${port}`, connections: () => connections, close: () => server.close() };
}

/** @type {Awaited<ReturnType<typeof openOutside>>} */
let outside;
/** @type {Awaited<ReturnType<typeof openBrowser>>} */
let opened;
/** @type {Awaited<ReturnType<typeof openMachine>>} */
let machine;
/** @type {Awaited<ReturnType<typeof openBrowser>>} */
let bare;

/** Takes W3 and W4 away and gives Python the worker's real global object. */
const withoutScrub = (/** @type {string} */ path, /** @type {string} */ text) => {
  const replace = (/** @type {string} */ from, /** @type {string} */ to) => {
    assert.ok(text.includes(from), `${path} does not contain ${from}`);
    text = text.replace(from, to);
  };
  if (path === "/worker/worker.js") replace("  scrub(standIns);\n  lockdown();\n", "");
  if (path === "/worker/prelude.py") replace("    _hide_javascript()\n", "");
  if (path === "/worker/engine.js") {
    replace("jsglobals: host.object", "jsglobals: Object.assign(globalThis, { ...host.object, eval: globalThis.eval })");
    replace('define("fetch"', 'scope.realFetch = scope.fetch;\n  define("fetch"');
    replace("delete scope.MessageChannel;", "");
  }
  return text;
};

before(async () => {
  outside = await openOutside();
  opened = await openBrowser();
  machine = await openMachine(opened);
  await machine.run("from pyodide.ffi import to_js\nimport gc, os, sys");
});
after(async () => {
  await opened?.close();
  await bare?.close();
  outside?.close();
});

/** @param {string} code */
async function failure(code) {
  const reply = await machine.run(code);
  assert.equal(reply.ok, false, `${code}: ${JSON.stringify(reply)}`);
  assert.ok(reply.error, `${code}: ${JSON.stringify(reply)}`);
  return reply.error;
}

/** Requests the product's server has seen besides those of `act`. @param {() => Promise<void>} act */
async function silent(act) {
  const [requests, connections] = [opened.server.requests.length, outside.connections()];
  await act();
  await new Promise((resolve) => setTimeout(resolve, 300));
  assert.deepEqual(opened.server.requests.slice(requests), []);
  assert.equal(outside.connections(), connections);
}

test("there are no JavaScript names for Python", async () => {
  for (const name of ["js", "pyodide_js", "pyodide_js._api", "micropip"]) {
    assert.equal((await failure(`import ${name}`)).type, "ModuleNotFoundError", name);
  }
  assert.equal((await machine.run("[m for m in sys.modules if m.partition('.')[0] in ('js', 'pyodide_js')]")).value, "[]");
});

test("Python's own ways to the network fail and no server hears of it", async () => {
  const { host } = outside;
  const own = opened.server.origin;
  await silent(async () => {
    for (const url of [`http://${host}/`, `${own}/`, "data:text/plain,x"]) {
      await failure(`import pyodide.http\nawait pyodide.http.pyfetch(${JSON.stringify(url)})`);
      await failure(`pyodide.http.open_url(${JSON.stringify(url)})`);
    }
    await failure(`import urllib.request\nurllib.request.urlopen('http://${host}/', timeout=2)`);
    await failure(`import socket\nsocket.create_connection(('127.0.0.1', ${host.split(":")[1]}), 2)`);
    await failure(`await asyncio.open_connection('127.0.0.1', ${host.split(":")[1]})`);
    await failure("import pyodide.code\npyodide.code.run_js('1')");
    await failure("import pyodide.ffi\npyodide.ffi.run_sync(1)");
  });
});

test("code from strings is refused, whichever constructor is used", async () => {
  await machine.run("F = to_js([1]).constructor.constructor");
  for (const call of ["F('return 1')", "F.new('return 1')", "F.prototype.constructor('return 1')"]) {
    assert.match((await failure(`${call}()`)).message, /EvalError|Content Security Policy/);
  }
});

test("the engine's callback scheduler and the timers throw", async () => {
  await machine.run("from pyodide import webloop\nfrom pyodide.ffi import create_proxy");
  for (const delay of [0, 1, 50]) {
    assert.match((await failure(`webloop.scheduleCallback(create_proxy(print), ${delay})`)).message, /no timers/);
  }
});

test("intrinsics cannot be changed", async () => {
  await machine.run("A = to_js([1])\nP = A.constructor.prototype\nO = P.__proto__");
  await failure("O.polluted = 1");
  await failure("P.push = 1");
  await failure("A.constructor.constructor.prototype.call = 1");
  await failure("A.constructor.extra = 1");
  assert.equal((await failure("A.polluted")).type, "AttributeError");
  assert.equal((await machine.run("to_js([1]).push(2)")).value, "2");
});

test("ordinary assignment to objects that the guest makes still works", async () => {
  const reply = await machine.run("o = to_js([1]).constructor.constructor.prototype\no = to_js([1])\no.toString = 5\no.toString");
  assert.equal(reply.value, "5", JSON.stringify(reply));
});

test("a JavaScript error is an error in Python and keeps its message", async () => {
  const error = await failure("to_js([1]).constructor.new(-1)");
  assert.equal(error.type, "JsException");
  assert.match(error.message, /RangeError: Invalid array length/);
});

test("the heap holds no JavaScript references but the host object, one engine function and one empty object", async () => {
  const fresh = await openMachine(opened);
  const { value, error } = await fresh.run(
    "import gc\nfrom pyodide.ffi import JsProxy\n" +
      "seen = {}\n" +
      "def visit(o):\n    if isinstance(o, JsProxy): seen[o.js_id] = o\n" +
      "for o in gc.get_objects():\n    visit(o)\n    for r in gc.get_referents(o): visit(r)\n" +
      "own = lambda o: [n for n in dir(o) if n in ('sleep', 'wheel', '_module', '_api', 'FS', 'constructor')]\n" +
      "sorted((o.typeof, own(o)) for o in seen.values())",
  );
  const expected = "[('function', ['constructor']), ('object', ['constructor']), ('object', ['sleep', 'wheel'])]";
  assert.equal(value, expected, JSON.stringify(error));
  await fresh.close();
});

test("the host object has no constructor, ignores odd arguments and gives no path or address", async () => {
  const fresh = await openMachine(opened);
  await fresh.run("import gc\nhost = next(d for d in gc.get_objects() if type(d) is dict and callable(d.get('_prepare')))['__host__']");
  for (const name of ["host.constructor", "host.sleep.constructor", "host.__proto__"]) {
    assert.equal((await fresh.run(name)).error?.type, "AttributeError", name);
  }
  const odd = await fresh.run("[host.sleep(x) for x in ('x', None, float('nan'), float('inf'), -1)]");
  assert.equal(odd.value, "[None, None, None, None, None]", JSON.stringify(odd));
  const names = await fresh.run("[host.wheel(x) for x in (1, None, '', '../x', '/etc/passwd', 'http://h/', 'a b', 'x' * 1000)]");
  assert.equal(names.value, "[None, None, None, None, None, None, None, None]", JSON.stringify(names));
  assert.equal((await fresh.run("host.eval('1')")).ok, false);
  assert.equal((await fresh.run("host.sleep = 1")).ok, false);
  await fresh.close();
});

test("there are no processes, threads, host files or host variables", async () => {
  assert.equal((await failure("import subprocess\nsubprocess.run(['ls'])")).type, "OSError");
  assert.equal((await machine.run("os.system('ls')")).value, "-1");
  assert.equal((await failure("import threading\nthreading.Thread(target=print).start()")).type, "RuntimeError");
  assert.equal((await failure("open('/etc/passwd')")).type, "FileNotFoundError");
  assert.equal((await machine.run("[n for n in os.environ if 'PYPROC' in n]")).value, "[]");
});

test("a native call to the engine's script runner fails the engine and reaches nobody", async () => {
  const failing = await openMachine(opened);
  await silent(async () => {
    const reply = await failing.run("import ctypes\nctypes.CDLL(None).emscripten_run_script(b'fetch(\"/\")')");
    assert.equal(typeof reply.failed, "string", JSON.stringify(reply));
  });
  await failing.close();
});

test("nothing that the guest can do arrives at the page as a message", async () => {
  const fresh = await openMachine(opened);
  const stray = await fresh.page.evaluate(async () => {
    const seen = [];
    addEventListener("message", (event) => seen.push(event.data));
    await globalThis.machine.run("1");
    return seen;
  });
  assert.deepEqual(stray, []);
  await fresh.close();
});

test("with only the policy and the opaque origin left, the network is still closed", async () => {
  bare = await openBrowser({ patch: withoutScrub, imageKind: "bare" });
  const open = await openMachine(bare);
  assert.equal(open.first.type, "ready", JSON.stringify(open.first));
  assert.equal((await open.run("import js\njs.location.origin, js.crossOriginIsolated, js.self.origin")).value?.includes("'null'"), true);
  const own = bare.server.origin;
  const { host } = outside;
  const attempts = [
    `js.realFetch('${own}/probe')`,
    `js.realFetch('http://${host}/probe')`,
    "js.realFetch('data:text/plain,x')",
    `x = js.XMLHttpRequest.new()\nx.open('GET', '${own}/probe', False)\nx.send()`,
    `x = js.XMLHttpRequest.new()\nx.open('GET', 'http://${host}/probe', False)\nx.send()`,
    `js.EventSource.new('${own}/probe')`,
    `js.EventSource.new('http://${host}/probe')`,
    `js.WebSocket.new('ws://${host}/probe')`,
    `js.WebSocket.new('${own.replace("http", "ws")}/probe')`,
    `js.WebTransport.new('https://${host}/probe')`,
    `js.importScripts('${own}/probe')`,
    `js.Worker.new('${own}/worker/worker.js?probe')`,
    `js.Worker.new('http://${host}/probe')`,
    "js.Worker.new('data:text/javascript,postMessage(1)')",
    "js.indexedDB.open('probe')",
    "js.eval('1')",
    "js.Function.new('return 1')",
    "js.setTimeout('1', 0)",
    "js.caches.open('probe')",
    "js.navigator.storage.getDirectory()",
    "js.navigator.sendBeacon",
    `f = js.FontFace.new('probe', 'url(http://${host}/probe)')\nf.load()`,
    "js.postMessage('from the guest')",
  ];
  const [requests, connections] = [bare.server.requests.length, outside.connections()];
  await open.page.evaluate(() => {
    globalThis.stray = [];
    addEventListener("message", (event) => globalThis.stray.push(event.data));
  });
  /** @type {string[]} */
  const silentOnes = [];
  for (const attempt of attempts) {
    const reply = await open.run(attempt);
    assert.equal(reply.failed, undefined, `${attempt}: ${reply.failed}`);
    if (reply.ok) silentOnes.push(attempt);
  }
  for (let turn = 0; turn < 5; turn += 1) {
    await open.run("1");
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  assert.deepEqual(bare.server.requests.slice(requests), []);
  assert.equal(outside.connections(), connections);
  assert.deepEqual(await open.page.evaluate(() => [globalThis.stray, globalThis.machine.lost]), [[], undefined]);
  for (const refused of ["js.eval('1')", "js.Function.new('return 1')"]) assert.ok(!silentOnes.includes(refused), refused);
  assert.equal((await open.run("6 * 7")).value, "42");
});
