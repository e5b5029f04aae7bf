// Case 37 of machine 23: a durable image in another browser process, damaged, or for another installation.

import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { CASES } from "./checkpoint-cases.mjs";
import { openBench } from "./checkpoint-page.mjs";
import { openBrowser } from "./support/browser.mjs";

const WHEELS = process.env.PYPROC_TEST_WHEELS;
const CARRIED = CASES.filter(({ name }) => /unflushed|duplicated|without a name|open transaction|pending|compression/.test(name));

let makers;
let users;
const extra = new Map();
const wheels = {};
before(async () => {
  for (const file of WHEELS === undefined ? [] : await readdir(WHEELS)) {
    const bytes = await readFile(join(/** @type {string} */ (WHEELS), file));
    extra.set(`/wheels/${file}`, bytes);
    wheels[file.split("-")[0]] = { url: `/wheels/${file}`, bytes: bytes.length };
  }
  makers = await openBrowser({ extra: new Map(extra) });
  users = await openBrowser({ extra: new Map(extra) });
});
after(async () => {
  await makers?.close();
  await users?.close();
});

async function made(/** @type {string} */ setup) {
  const bench = await openBench(makers, { wheels });
  await bench.value(setup);
  const { seq } = await bench.ok("save");
  const { base64 } = await bench.call("exportImage", seq);
  await bench.close();
  return base64;
}

for (const { name, setup, look, expect } of CARRIED) {
  test(`an image carries ${name}`, async () => {
    const image = await made(setup);
    const bench = await openBench(users);
    await bench.value("import os; noise = os.urandom(1 << 20); open('/tmp/noise', 'wb').write(noise)");
    await bench.ok("save");
    const { seq } = await bench.ok("importImage", image);
    await bench.ok("recycle", seq);
    assert.equal(await bench.value(look), expect);
    assert.equal(await bench.value("'noise' in globals() or __import__('os').path.exists('/tmp/noise')"), "False");
    // The imported state is a state like any other.
    await bench.value("after = 1");
    await bench.ok("save");
    await bench.ok("restore", seq);
    assert.equal(await bench.value("'after' in globals()"), "False");
    await bench.close();
  });
}

test("an image carries a native package with callbacks", { skip: WHEELS === undefined ? "PYPROC_TEST_WHEELS is not set" : false }, async () => {
  const image = await made(`
import pydantic, ctypes
class Point(pydantic.BaseModel):
    x: int
point = Point(x='4')
callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda v: v + point.x)`);
  const bench = await openBench(users);
  const { seq } = await bench.ok("importImage", image);
  await bench.ok("recycle", seq);
  assert.equal(await bench.value("(point.x, Point(x=5).x, callback(1))"), "(4, 5, 5)");
  await bench.close();
});

test("a damaged image is refused wherever the damage is, and changes nothing", async () => {
  const image = await made("x = 1; open('/tmp/f', 'w').write('content')");
  const bench = await openBench(users);
  await bench.value("here = 7");
  const codes = await bench.page.evaluate(async (base64) => {
    const length = atob(base64).length;
    const seen = [];
    const slots = globalThis.bench.storeSlots;
    for (const at of [0, 4, 9, 20, 5000, Math.floor(length / 2), length - 40, length - 1]) {
      const change = (bytes) => {
        bytes[at] ^= 4;
      };
      seen.push((await globalThis.bench.importImage(base64, { change })).code);
    }
    seen.push((await globalThis.bench.importImage(btoa(atob(base64).slice(0, -1)))).code);
    seen.push((await globalThis.bench.importImage("")).code);
    return { seen, moved: globalThis.bench.storeSlots - slots };
  }, image);
  assert.deepEqual(codes, { seen: Array(10).fill("MACHINE_IMAGE_INVALID"), moved: 0 });
  assert.equal(await bench.value("here"), "7");
  await bench.close();
});

test("an image of another engine, boot image or prelude is refused", async () => {
  const image = await made("x = 1");
  const bench = await openBench(users);
  for (const other of [{ engine: "c".repeat(64) }, { boot: "c".repeat(64) }, { prelude: 2 }, { interposition: 9 }]) {
    const installation = { engine: "a".repeat(64), boot: "b".repeat(64), prelude: 1, interposition: 1, ...other };
    const reply = await bench.call("importImage", image, { installation });
    assert.deepEqual([reply.ok, reply.code], [false, "MACHINE_IMAGE_ENGINE_MISMATCH"]);
  }
  await bench.close();
});

test("an image carries the boot image that it was made with, and only an installation with another one takes it", async () => {
  const bench = await openBench(makers);
  const { seq } = await bench.ok("save");
  const served = await bench.page.evaluate(async () => {
    const response = await fetch("/image.bin");
    const bytes = new Uint8Array(await response.arrayBuffer());
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
    return { bytes: bytes.length, digest: Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("") };
  });
  await bench.call("keepCarrying", seq, served.digest);
  assert.deepEqual(await bench.call("carried", {}), served);
  assert.equal(await bench.call("carried", { boot: served.digest }), null);
  assert.equal(await bench.call("carried", { engine: "c".repeat(64) }), null);
  assert.equal(await bench.call("carried", { prelude: 2 }), null);
  assert.equal((await bench.call("importKept", { boot: served.digest })).ok, true);
  // One that says something else of its boot image is damaged.
  const other = "d".repeat(64);
  await bench.call("keepCarrying", seq, other);
  assert.equal(await bench.call("carried", {}), null);
  assert.equal((await bench.call("importKept", { boot: other })).code, "MACHINE_IMAGE_INVALID");
  await bench.call("keepBare", seq);
  assert.equal(await bench.call("carried", { boot: served.digest }), null);
  await bench.close();
});

test("an image fills free slots before it takes new ones", async () => {
  const image = await made("data = bytes(range(256)) * 4096");
  const bench = await openBench(users);
  const moved = await bench.page.evaluate(async (base64) => {
    const { bench } = globalThis;
    await bench.run("import os; noise = os.urandom(1 << 20)");
    const { seq } = await bench.save();
    await bench.run("del noise");
    const states = bench.states.get(seq);
    const first = bench.storeSlots;
    await bench.importImage(base64);
    const all = bench.storeSlots - first;
    // Slots of a state that is forgotten, and of no other.
    const free = Uint32Array.from(new Set(states.table)).filter((slot) => slot >= first - 200);
    await bench.importImage(base64, { free });
    return { all, free: free.length, more: bench.storeSlots - first - all };
  }, image);
  assert.ok(moved.free > 0, JSON.stringify(moved));
  assert.equal(moved.more, Math.max(0, moved.all - moved.free));
  await bench.close();
});

test("a state that is not portable is not exported, and limits hold for imports", async () => {
  const bench = await openBench(makers);
  await bench.value("data = bytearray(30 << 20)");
  const { seq } = await bench.ok("save");
  const codes = await bench.page.evaluate(async (state) => {
    const { record } = globalThis.bench.states.get(state);
    const refused = await globalThis.bench
      .exportImage(state, { record: { ...record, portable: false } })
      .catch((error) => error.code);
    const { base64 } = await globalThis.bench.exportImage(state);
    const small = { limits: { heapBytes: 32 << 20, fileBytes: 1 << 20 } };
    return [refused, (await globalThis.bench.importImage(base64, small)).code];
  }, seq);
  assert.deepEqual(codes, ["MACHINE_IMAGE_UNSUPPORTED", "MACHINE_IMAGE_INVALID"]);
  await bench.close();
});

test("a malformed record with a right digest is refused", async () => {
  const bench = await openBench(makers);
  await bench.value("import os; os.makedirs('/tmp/a/b'); f = open('/tmp/a/b/c', 'w')");
  const { seq } = await bench.ok("save");
  const messages = await bench.page.evaluate(async (state) => {
    const { record } = globalThis.bench.states.get(state);
    const edits = {
      cycle: (r) => {
        const named = (name) => r.fs.nodes.find((node) => node[2] === name);
        named("a")[1] = named("b")[0];
        named("b")[1] = named("a")[0];
        named("b")[8] = [named("a")[0]];
        named("a")[8] = [named("b")[0]];
        const tmp = named("tmp");
        tmp[8] = tmp[8].filter((inode) => inode !== named("a")[0]);
      },
      label: (r) => r.references.slots.push([r.references.extent - 1, "x9"]),
      stream: (r) => r.fs.streams.push([99, 123456, 0, "/tmp/none", null]),
      type: (r) => {
        r.fs.nodes.at(-1)[3] = 0o010644;
      },
      extra: (r) => {
        r.more = 1;
      },
    };
    const seen = {};
    for (const [name, edit] of Object.entries(edits)) {
      const changed = structuredClone(record);
      changed.fs.nodes = changed.fs.nodes.split("\n").map((line) => JSON.parse(line));
      edit(changed);
      changed.fs.nodes = changed.fs.nodes.map((node) => JSON.stringify(node)).join("\n");
      const { base64 } = await globalThis.bench.exportImage(state, { record: changed });
      const reply = await globalThis.bench.importImage(base64);
      seen[name] = reply.ok ? "accepted" : reply.code;
    }
    const { base64 } = await globalThis.bench.exportImage(state);
    seen.unchanged = (await globalThis.bench.importImage(base64)).ok;
    return seen;
  }, seq);
  const bad = "MACHINE_IMAGE_INVALID";
  assert.deepEqual(messages, { cycle: bad, label: bad, stream: bad, type: bad, extra: bad, unchanged: true });
  await bench.close();
});
