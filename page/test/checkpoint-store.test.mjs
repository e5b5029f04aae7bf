// Refusals, limits and what is stored (machine 8, 9.6, 19; cases 25 and 30 of machine 23).

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { openHooked } from "./checkpoint-hooks.mjs";
import { openBench } from "./checkpoint-page.mjs";

const MEBIBYTE = 1 << 20;

let opened;
before(async () => {
  opened = await openHooked();
});
after(() => opened?.close());

describe("a save is refused", () => {
  let bench;
  before(async () => {
    bench = await openBench(opened);
  });
  after(() => bench?.close());

  const refusals = [
    {
      reason: "stream",
      what: "a pipe",
      cause: (/** @type {any} */ b) => b.value("import os; ends = os.pipe()"),
      cure: (/** @type {any} */ b) => b.value("[os.close(fd) for fd in ends]"),
    },
    {
      reason: "stream",
      what: "a socket",
      cause: (/** @type {any} */ b) => b.value("import socket; s = socket.socket()"),
      cure: (/** @type {any} */ b) => b.value("s.close()"),
    },
    {
      reason: "hostObjects",
      cause: (/** @type {any} */ b) => b.value("from pyodide.ffi import to_js, create_proxy; held = [to_js([1]), to_js([2]), create_proxy(len)]"),
      cure: (/** @type {any} */ b) => b.value("del held; import gc; gc.collect()"),
      details: { count: 3, kinds: ["Array", "PyProxy"] },
    },
    {
      reason: "mount",
      cause: (/** @type {any} */ b) => b.call("hook", "mount"),
      cure: (/** @type {any} */ b) => b.call("hook", "unmount"),
    },
    {
      reason: "stack",
      cause: (/** @type {any} */ b) => b.call("hook", "stack", -16),
      cure: (/** @type {any} */ b) => b.call("hook", "stack", 16),
    },
  ];
  for (const { reason, what = reason, cause, cure, details = {} } of refusals) {
    test(`because of ${what}, and works when the cause is gone`, async () => {
      await bench.ok("restore", 0);
      await bench.value("x = 1");
      await cause(bench);
      const slots = await bench.page.evaluate(() => globalThis.bench.storeSlots);
      const reply = await bench.call("save");
      assert.deepEqual([reply.ok, reply.refused], [false, { reason, ...details }]);
      assert.equal(await bench.page.evaluate(() => globalThis.bench.storeSlots), slots);
      await cure(bench);
      const { seq } = await bench.ok("save");
      await bench.value("x = 2");
      await bench.ok("restore", seq);
      assert.equal(await bench.value("x"), "1");
    });
  }
});

describe("a full page store", () => {
  test("refuses the save, keeps machine and states, and works again after a reset", async () => {
    const bench = await openBench(opened, { limits: { storeBytes: 96 * MEBIBYTE } });
    await bench.value("import os; keep = bytearray(os.urandom(1 << 20)); mark = keep[:8].hex()");
    const first = await bench.ok("save");
    await bench.value("big = bytearray(os.urandom(1 << 20)) * 90");
    for (let attempt = 0; attempt < 2; attempt += 1) {
      const slots = await bench.page.evaluate(() => globalThis.bench.storeSlots);
      const full = await bench.call("save");
      assert.deepEqual([full.ok, full.limit], [false, true]);
      assert.equal(await bench.page.evaluate(() => globalThis.bench.storeSlots), slots, "the counter must not move");
    }
    assert.equal(await bench.value("len(big)"), String(90 * MEBIBYTE));
    await bench.ok("restore", first.seq);
    assert.equal(await bench.value("(len(keep), keep[:8].hex() == mark, 'big' in globals())"), "(1048576, True, False)");
    await bench.ok("restore", 0);
    await bench.ok("forget", first.seq);
    assert.ok((await bench.call("sweep")) > 200);
    await bench.value("import os; fresh = bytearray(os.urandom(20 << 20)); tail = fresh[-8:].hex()");
    const again = await bench.ok("save");
    await bench.value("del fresh");
    await bench.ok("restore", again.seq);
    assert.equal(await bench.value("fresh[-8:].hex() == tail"), "True");
    await bench.close();
  });

  test("is not needed when swept slots are enough", async () => {
    const bench = await openBench(opened);
    await bench.value("import os; data = os.urandom(4 << 20)");
    const { seq } = await bench.ok("save");
    await bench.ok("restore", 0);
    await bench.ok("forget", seq);
    const free = await bench.call("sweep");
    assert.ok(free > 1000);
    const slots = await bench.page.evaluate(() => globalThis.bench.storeSlots);
    await bench.value("import os; data = os.urandom(2 << 20)");
    await bench.ok("save");
    assert.equal(await bench.page.evaluate(() => globalThis.bench.storeSlots), slots);
    await bench.close();
  });
});

describe("file contents", () => {
  let bench;
  before(async () => {
    bench = await openBench(opened);
  });
  after(() => bench?.close());

  test("are sent once, and a small change in a large file sends one piece", async () => {
    await bench.value("import os; open('/tmp/large', 'wb').write(os.urandom(5 << 20) + b'tail')");
    const first = await bench.ok("save");
    assert.deepEqual([first.sent, first.sentBytes], [6, 5 * MEBIBYTE + 4]);
    assert.equal((await bench.ok("save")).sent, 0);
    await bench.value("f = open('/tmp/large', 'r+b'); f.seek((2 << 20) + 7); f.write(b'changed'); f.close()");
    const edited = await bench.ok("save");
    assert.deepEqual([edited.sent, edited.sentBytes], [1, MEBIBYTE]);
    await bench.value("f = open('/tmp/large', 'ab'); f.write(b'!'); f.close()");
    const appended = await bench.ok("save");
    assert.deepEqual([appended.sent, appended.sentBytes], [1, 5]);
    await bench.value("os.truncate('/tmp/large', 3 << 20)");
    assert.equal((await bench.ok("save")).sent, 0);
    await bench.ok("recycle", edited.seq);
    assert.equal(
      await bench.value("(lambda d: (len(d), d[(2 << 20) + 7 :][:7], d[-4:]))(open('/tmp/large', 'rb').read())"),
      `(${5 * MEBIBYTE + 4}, b'changed', b'tail')`,
    );
    assert.equal((await bench.ok("save")).sent, 0);
  });

  test("are sent again when every state that named them was forgotten", async () => {
    await bench.ok("restore", 0);
    await bench.value("open('/tmp/only', 'w').write('x' * 100)");
    const first = await bench.ok("save");
    assert.equal(first.sent, 1);
    await bench.ok("forget", first.seq);
    const second = await bench.ok("save");
    assert.deepEqual([second.sent, second.sentBytes], [1, 100]);
    const third = await bench.ok("save");
    assert.equal(third.sent, 0);
    await bench.ok("forget", second.seq);
    assert.equal((await bench.ok("save")).sent, 0);
    await bench.ok("recycle", third.seq);
    assert.equal(await bench.value("open('/tmp/only').read() == 'x' * 100"), "True");
  });

  test("that grow over an old length read as zero", async () => {
    await bench.ok("restore", 0);
    await bench.value("import os; fd = os.open('/tmp/sparse', os.O_RDWR | os.O_CREAT); os.write(fd, b'a' * 300)");
    const short = await bench.ok("save");
    await bench.value("os.write(fd, b'b' * 100)");
    await bench.ok("restore", short.seq);
    assert.equal(await bench.value("(os.pwrite(fd, b'c', 450), os.pread(fd, 200, 299) == b'a' + bytes(150) + b'c')"), "(1, True)");
  });

  test("are limited", async () => {
    const limited = await openBench(opened, { limits: { fileBytes: 8 * MEBIBYTE } });
    const { seq } = await limited.ok("save");
    const reply = await limited.run("open('/tmp/huge', 'wb').write(bytes(9 << 20))");
    assert.match(reply.error.message, /No space left/);
    await limited.ok("restore", seq);
    assert.equal(await limited.value("open('/tmp/ok', 'wb').write(bytes(1 << 20))"), String(MEBIBYTE));
    await limited.close();
  });
});

test("the page kernel finds, takes and puts exactly the pages that differ", async () => {
  const page = await opened.newPage();
  const seen = await page.evaluate(async () => {
    const { generator } = await import("/test/checkpoint-client.js");
    const compiled = await WebAssembly.compileStreaming(fetch("/worker/kernel.wasm"));
    const guest = new WebAssembly.Memory({ initial: 32 });
    const store = new WebAssembly.Memory({ initial: 64, maximum: 64, shared: true });
    const { exports } = await WebAssembly.instantiate(compiled, { guest: { memory: guest }, store: { memory: store } });
    const below = generator(5);
    const pages = 512;
    const heap = new Uint8Array(guest.buffer);
    const slots = new Uint8Array(store.buffer);
    const scratch = new Uint32Array(exports.scratch.buffer);
    for (let i = 0; i < heap.length; i += 1) heap[i] = i % 3 === 0 ? below(256) : 0;
    heap.fill(0, 100 * 4096, 200 * 4096);
    const table = new Uint32Array(pages);
    const at = pages * 4;
    const bad = [];
    scratch.set(table);
    let count = exports.diff(pages, 0, at);
    if (count !== pages - 100) bad.push(`diff against zero: ${count}`);
    const list = scratch.slice(at / 4, at / 4 + count);
    list.forEach((heapPage, i) => {
      scratch[at / 4 + 2 * i] = heapPage;
      scratch[at / 4 + 2 * i + 1] = i + 1;
      table[heapPage] = i + 1;
    });
    exports.take(count, at);
    const copy = heap.slice();
    for (let round = 0; round < 200; round += 1) {
      const changed = new Set();
      for (let i = below(8); i >= 0; i -= 1) {
        const byte = below(heap.length);
        heap[byte] ^= 1 + below(255);
        if (heap[byte] !== copy[byte]) changed.add(byte >> 12);
      }
      for (const heapPage of changed) {
        const start = heapPage * 4096;
        if (heap.subarray(start, start + 4096).every((value, i) => value === copy[start + i])) changed.delete(heapPage);
      }
      scratch.set(table);
      count = exports.diff(pages, 0, at);
      const found = [...scratch.slice(at / 4, at / 4 + count)].join();
      const expected = [...changed].sort((a, b) => a - b).join();
      if (found !== expected) bad.push(`round ${round}: ${found} instead of ${expected}`);
      if (exports.put(pages, 0) !== count) bad.push(`round ${round}: put wrote another number`);
      if (exports.diff(pages, 0, at) !== 0) bad.push(`round ${round}: differs after put`);
    }
    if (heap.some((value, i) => value !== copy[i])) bad.push("the heap is not what it was");
    if (slots.subarray(0, 4096).some((value) => value !== 0)) bad.push("the zero slot was written");
    if (exports.diff(0, 0, at) !== 0 || exports.put(0, 0) !== 0) bad.push("no pages are not nothing");
    return bad;
  });
  assert.deepEqual(seen, []);
  await page.close();
});
