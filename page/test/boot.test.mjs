// Cold start (machine 5, 6): what the image holds, what differs between boots, what makes a start fail. Conformance 28
// and 39 at the page level, hazards H15 and H16.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { readPrefix } from "../worker/image-format.js";
import { openBrowser, openMachine } from "./support/browser.mjs";

/** @type {Awaited<ReturnType<typeof openBrowser>>} */
let opened;
before(async () => {
  opened = await openBrowser({ imageKind: "", timezone: "America/New_York" });
});
after(() => opened?.close());

/** @param {string} code @param {Record<string, any>} [assets] */
async function once(code, assets) {
  const machine = await openMachine(opened, assets);
  assert.equal(machine.first.type, "ready", JSON.stringify(machine.first));
  const { value, error } = await machine.run(code);
  await machine.close();
  return value ?? error;
}

/** The first message of a machine that starts from a changed image. @param {(image: Buffer) => Buffer} change */
async function firstFrom(change) {
  const { bytes } = opened.image;
  opened.server.extra.set("/changed.bin", change(Buffer.from(bytes)));
  const page = await opened.newPage();
  const first = await page.evaluate(async () => {
    const { start } = await import("/test/support/client.js");
    try {
      const { table, ...rest } = (await start({ imageUrl: "/changed.bin" })).first;
      return rest;
    } catch (error) {
      return { type: "rejected", message: String(error) };
    }
  });
  await page.close();
  return first;
}

test("the image lists about half of the heap, and only interpreter start and random draw entropy", () => {
  const prefix = readPrefix(opened.image.bytes);
  assert.equal(prefix.totalBytes, opened.image.bytes.length);
  assert.ok(prefix.listed > 0.3 * prefix.pages && prefix.listed < 0.8 * prefix.pages, `${prefix.listed} of ${prefix.pages}`);
  assert.notEqual(prefix.fingerprint, 0);
  assert.ok(opened.image.entropy.start > 0);
  assert.deepEqual(Object.keys(opened.image.entropy.modules).filter((name) => name !== "random"), []);
});

test("a machine boots from the image and keeps its state between runs", async () => {
  const machine = await openMachine(opened);
  assert.equal(machine.first.type, "ready", JSON.stringify(machine.first));
  assert.equal(machine.first.pages * 4096, machine.first.heapBytes);
  assert.equal((await machine.run("40+2")).value, "42");
  const assigned = await machine.run("x = 20\nprint('hi')\nx + 22");
  assert.equal(assigned.value, "42");
  assert.equal(assigned.stdout, "hi\n");
  assert.equal((await machine.run("x")).value, "20");
  await machine.close();
});

test("several incarnations share one store and nothing else", async () => {
  const machine = await openMachine(opened);
  await machine.run("x = 'first'");
  const other = await machine.page.evaluate(async () => {
    const { Machine } = await import("/test/support/client.js");
    const spare = new Machine(globalThis.boot, 2);
    await spare.first();
    const reply = await spare.run("x");
    spare.kill();
    return reply;
  });
  assert.equal(other.error.type, "NameError");
  assert.equal((await machine.run("x")).value, "'first'");
  await machine.close();
});

test("two boots draw different random numbers, hash alike, and agree with a seed", async () => {
  const code = "import random, secrets\na = random.random(), secrets.token_hex(8)\nrandom.seed(7)\n(*a, random.random(), hash('abc'))";
  const [first, second] = [await once(code), await once(code)].map((text) => text.slice(1, -1).split(", "));
  assert.notEqual(first[0], second[0]);
  assert.notEqual(first[1], second[1]);
  assert.deepEqual(first.slice(2), second.slice(2));
});

test("zone, environment, start time and temporary names are this boot's", async () => {
  assert.equal(await once("import time\n(time.timezone, time.altzone, time.daylight)"), "(18000, 14400, 1)");
  assert.equal(await once("import time\ntime.tzname, time.strftime('%Z', time.localtime(0))"), "(('UTC-0500', 'UTC-0400'), 'UTC-0500')");
  const assets = { env: { GREETING: "hello" }, timezone: "America/New_York" };
  assert.equal(
    await once("import os\nos.environ['GREETING'], os.environ['TZ'], os.getenv('USER'), os.environ.get('PYTHONINSPECT')", assets),
    "('hello', 'America/New_York', None, None)",
  );
  assert.equal(await once("import logging, time\nabs(logging._startTime / 1e9 - time.time()) < 60"), "True");
  assert.equal(await once("import tempfile\ntempfile._name_sequence is None"), "True");
});

test("an image for another function table is refused before anything is called", async () => {
  const first = await firstFrom((image) => {
    image.writeUInt32LE(image.readUInt32LE(28) + 1, 28);
    return image;
  });
  assert.equal(first.type, "failed");
  assert.equal(first.code, "MACHINE_ENGINE_INCOMPATIBLE");
  assert.equal(first.item, "wasmTable.length");
});

test("an image whose references are others is refused", async () => {
  const first = await firstFrom((image) => {
    image[32] ^= 1;
    return image;
  });
  assert.equal(first.code, "MACHINE_ENGINE_INCOMPATIBLE");
  assert.equal(first.item, "fingerprint");
});

test("an image that is cut, missing or of another format never starts a worker", async () => {
  assert.equal((await firstFrom((image) => image.subarray(0, image.length - 4096))).type, "rejected");
  assert.equal((await firstFrom((image) => Buffer.concat([Buffer.from("XXXX"), image.subarray(4)]))).type, "rejected");
  opened.server.extra.delete("/absent.bin");
  const page = await opened.newPage();
  const message = await page.evaluate(async () => {
    const { start } = await import("/test/support/client.js");
    return start({ imageUrl: "/absent.bin" }).then(() => "", String);
  });
  assert.match(message, /404/);
  await page.close();
});

/** @param {(path: string, text: string) => string} [patch] @param {(text: string) => string} [policy] */
async function firstWith(patch, policy) {
  const patched = await openBrowser({ patch, policy, image: opened.image.bytes });
  try {
    return (await openMachine(patched)).first;
  } finally {
    await patched.close();
  }
}

/** @param {string} path @param {string} from @param {string} to */
const replaceIn = (path, from, to) => (/** @type {string} */ served, /** @type {string} */ text) => {
  if (served !== path) return text;
  assert.ok(text.includes(from), `${path} does not contain ${from}`);
  return text.replaceAll(from, to);
};

test("an engine without one of the internals is refused by name", async () => {
  const first = await firstWith(replaceIn("/engine/pyodide.asm.mjs", 'Module["freeTableIndexes"]=', 'Module["otherName"]='));
  assert.equal(first.code, "MACHINE_ENGINE_INCOMPATIBLE");
  assert.equal(first.item, "Module.freeTableIndexes");
});

test("an engine without one of the replaced imports is refused by name", async () => {
  const first = await firstWith(
    replaceIn("/worker/interpose.js", 'replace("_setitimer_js"', 'replace("_renamed_js"'),
  );
  assert.equal(first.code, "MACHINE_ENGINE_INCOMPATIBLE");
  assert.equal(first.item, "env._renamed_js");
});

test("a global that cannot be removed means that the machine does not start", async () => {
  const first = await firstWith((path, text) =>
    path === "/worker/primitives.js"
      ? `${text}\nObject.defineProperty(globalThis, "leak", { value: 1, configurable: false });\n`
      : text,
  );
  assert.equal(first.code, "MACHINE_ISOLATION_FAILED");
  assert.equal(first.item, "leak");
});

test("a worker that was served with a weaker policy does not start", async () => {
  const origin = await firstWith(undefined, (text) => text.replace("sandbox allow-scripts; ", ""));
  assert.deepEqual([origin.code, origin.item], ["MACHINE_ISOLATION_FAILED", "origin"]);
  const strings = await firstWith(undefined, (text) => text.replace("'wasm-unsafe-eval'", "'wasm-unsafe-eval' 'unsafe-eval'"));
  assert.deepEqual([strings.code, strings.item], ["MACHINE_ISOLATION_FAILED", "script-src"]);
});

test("a worker whose scripts cannot be loaded is reported as lost", async () => {
  const machine = await openMachine(opened, { workerUrl: "/worker/absent.js" });
  assert.equal(machine.first.type, "lost");
  await machine.close();
});
