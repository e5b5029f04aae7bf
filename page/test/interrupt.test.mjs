// Soft interrupts (machine 14): conformance 31 and 33 at the page level, hazards H10 and H14.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { openBrowser, openMachine } from "./support/browser.mjs";

/** @type {Awaited<ReturnType<typeof openBrowser>>} */
let opened;
/** @type {Awaited<ReturnType<typeof openMachine>>} */
let machine;
before(async () => {
  opened = await openBrowser();
  machine = await openMachine(opened);
  await machine.run("import asyncio, time, re, threading, signal\nkept = 'state'");
});
after(() => opened?.close());

/** Milliseconds within which a soft interrupt must have ended the code; far above what is usual, far below the code. */
const SOON = 4000;

const STOPPED = {
  "an endless loop": "while True: pass",
  "endless printing": "while True: print('x')",
  "a growing list": "l = []\nwhile True:\n    l.append(1)\n    if len(l) > 1000: l.clear()",
  "time.sleep": "time.sleep(60)",
  "an awaited sleep": "await asyncio.sleep(60)",
  "asyncio.run": "asyncio.run(asyncio.sleep(60))",
  "a regular expression with backtracking": "re.match('(a+)+$', 'a' * 40 + 'b')",
  "a big power": "3 ** 30000000",
  "a lock": "lock = threading.Lock()\nlock.acquire()\nlock.acquire()",
  "a map chain": "for _ in map(str, range(10**9)): pass",
  "an endless repr": "class R:\n    def __repr__(self):\n        while True: pass\nR()",
};

for (const [what, code] of Object.entries(STOPPED)) {
  test(`a soft interrupt stops ${what} and keeps the state`, async () => {
    const reply = await machine.interrupted(code, 80);
    assert.equal(reply.ok, false, JSON.stringify(reply).slice(0, 500));
    assert.equal(reply.error.kind, "interrupted");
    assert.equal(reply.error.type, "KeyboardInterrupt");
    assert.ok(reply.after < SOON, `${reply.after} ms`);
    assert.equal((await machine.run("kept")).value, "'state'");
  });
}

test("an interrupt at any moment after the command was sent is never lost", async () => {
  const lost = await machine.page.evaluate(async () => {
    const lost = [];
    // The first loop looks for signals now and then, the second one at nearly every instruction.
    for (const source of ["for _ in range(10**8): pass", "big = 3 ** 1000000\nfor _ in range(100): big * big"]) {
      for (let round = 0; round < 150; round += 1) {
        const reply = await globalThis.machine.interrupted(source, round % 15);
        if (reply.error?.kind !== "interrupted") lost.push([source, round, reply]);
      }
      for (let round = 0; round < 20; round += 1) {
        const reply = await globalThis.machine.interrupted(source, null);
        if (reply.error?.kind !== "interrupted") lost.push([source, "at once", round, reply]);
      }
    }
    return lost;
  });
  assert.deepEqual(lost, []);
});

test("code that catches the interrupt finishes", async () => {
  const reply = await machine.interrupted("try:\n    while True: pass\nexcept KeyboardInterrupt:\n    print('cleanup')\n7", 80);
  assert.equal(reply.value, "7");
  assert.equal(reply.stdout, "cleanup\n");
});

test("a second interrupt stops the cleanup of the first", async () => {
  const reply = await machine.interrupted("try:\n    while True: pass\nfinally:\n    while True: pass", 80, 150);
  assert.equal(reply.error.kind, "interrupted");
});

test("asyncio.run cancels its task, and a top-level await is cancelled too", async () => {
  await machine.run("async def work():\n    try:\n        await asyncio.sleep(60)\n    except asyncio.CancelledError:\n        print('cancelled')\n        raise");
  assert.equal((await machine.interrupted("asyncio.run(work())", 80)).stdout, "cancelled\n");
  assert.equal((await machine.interrupted("await work()", 80)).stdout, "cancelled\n");
});

test("a guest's own handler is called, persists, and does not shorten a sleep", async () => {
  await machine.run("signal.signal(signal.SIGINT, lambda *_: print('handled'))");
  const reply = await machine.interrupted("t = time.monotonic()\ntime.sleep(0.4)\ntime.monotonic() - t >= 0.4", 100);
  assert.equal(reply.stdout, "handled\n");
  assert.equal(reply.value, "True");
  assert.match((await machine.run("signal.getsignal(signal.SIGINT)")).value, /lambda/);
  await machine.run("signal.signal(signal.SIGINT, signal.default_int_handler)");
});

test("no frame of the host's scripts is in the traceback", async () => {
  const reply = await machine.interrupted("time.sleep(60)", 80);
  assert.doesNotMatch(reply.error.traceback, /http:|host-object/);
  assert.match(reply.error.traceback, /<run \d+>/);
});

test("an interrupt between two commands reaches neither", async () => {
  await machine.run("1");
  await machine.page.evaluate(() => globalThis.machine.interrupt());
  assert.equal((await machine.run("sum(range(200000))")).value, "19999900000");
});

test("endless output keeps its beginning and end and costs no memory", async () => {
  const reply = await machine.interrupted("i = 0\nwhile True:\n    print(i)\n    i += 1", 1500);
  assert.match(reply.stdout, /^0\n1\n2\n/);
  assert.ok(reply.stdout.length <= (1 << 20) + 64);
  const last = (await machine.run("i")).value;
  if (reply.stdoutDropped > 0) {
    assert.match(reply.stdout, /\n\[\.\.\. \d+ bytes left out \.\.\.\]\n/);
    assert.ok(Math.abs(Number(reply.stdout.trimEnd().split("\n").at(-1)) - Number(last)) <= 1);
  }
});

test("runs with random interrupts always answer, and the next run is right", async () => {
  const wrong = await machine.page.evaluate(async () => {
    const { machine } = globalThis;
    let seed = 20240607;
    const random = () => (seed = (Math.imul(seed, 1103515245) + 12345) >>> 0) / 2 ** 32;
    const sources = [
      "for _ in range(200000): pass",
      "import time; time.sleep(0.02)",
      "await asyncio.sleep(0.02)",
      "asyncio.run(asyncio.sleep(0.01))",
      "print('x' * 1000)",
      "1 / 0",
      "[str(i) for i in range(20000)]",
    ];
    const wrong = [];
    for (let round = 0; round < 120; round += 1) {
      const delays = Array.from({ length: 1 + Math.floor(random() * 3) }, () => random() * 12);
      const reply = await machine.interrupted(sources[Math.floor(random() * sources.length)], ...delays);
      if (typeof reply.ok !== "boolean" || reply.failed !== undefined) wrong.push([round, reply]);
      const next = await machine.run(`${round} + 1`);
      if (next.value !== String(round + 1)) wrong.push([round, next]);
    }
    return wrong;
  });
  assert.deepEqual(wrong, []);
});

test("a killed incarnation neither takes the successor's interrupt nor writes its output", async () => {
  const result = await machine.page.evaluate(async () => {
    const { Machine } = await import("/test/support/client.js");
    const first = new Machine(globalThis.boot, 7);
    await first.first();
    void first.run("while True: print('old')");
    await new Promise((done) => setTimeout(done, 200));
    first.kill();
    const kept = first.output();
    const second = new Machine(globalThis.boot, 8);
    const ready = await second.first();
    const stopped = await second.interrupted("while True: pass", 50);
    const next = await second.run("print('new')\n1");
    second.kill();
    return { kept: kept.stdout.slice(0, 8), type: ready.type, kind: stopped.error?.kind, output: stopped.stdout + next.stdout, value: next.value };
  });
  assert.deepEqual(result, { kept: "old\nold\n", type: "ready", kind: "interrupted", output: "new\n", value: "1" });
});

test("a sleeping worker can be killed at once and its output is readable", async () => {
  const result = await machine.page.evaluate(async () => {
    const { Machine } = await import("/test/support/client.js");
    const victim = new Machine(globalThis.boot, 9);
    await victim.first();
    let answered = false;
    void victim.run("print('partial')\nimport time\ntime.sleep(60)").then(() => (answered = true));
    await new Promise((done) => setTimeout(done, 200));
    victim.kill();
    const { stdout } = victim.output();
    await new Promise((done) => setTimeout(done, 300));
    return { stdout, answered };
  });
  assert.deepEqual(result, { stdout: "partial\n", answered: false });
});
