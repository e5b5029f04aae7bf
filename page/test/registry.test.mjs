import assert from "node:assert/strict";
import { test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { ManagedRegistry } from "../worker/registry.js";

setFlagsFromString("--expose-gc");
const collect = /** @type {() => void} */ (runInNewContext("gc"));

/** @param {() => boolean} reached */
async function collectUntil(reached) {
  for (let round = 0; round < 50 && !reached(); round += 1) {
    collect();
    await new Promise((resolve) => setImmediate(resolve));
  }
}

test("finalizers run when drained, never before", async () => {
  /** @type {string[]} */
  const ran = [];
  const registry = new ManagedRegistry((held) => ran.push(held));
  (() => registry.register({}, "gone"))();
  const kept = {};
  registry.register(kept, "kept");
  let drained = 0;
  await collectUntil(() => {
    assert.deepEqual(ran, drained === 0 ? [] : ["gone"]);
    drained += registry.drain();
    return drained > 0;
  });
  assert.deepEqual(ran, ["gone"]);
  assert.equal(registry.registrations().length, 1);
  assert.ok(kept);
});

test("an unregistered target is not finalized", async () => {
  const registry = new ManagedRegistry(() => assert.fail("finalized"));
  const token = {};
  (() => registry.register({}, "held", token))();
  assert.equal(registry.unregister(token), true);
  assert.equal(registry.unregister(token), false);
  await collectUntil(() => registry.drain() > 0);
  assert.equal(registry.registrations().length, 0);
});

test("a replacement forgets newer targets and finalizes those that vanished since", async () => {
  /** @type {string[]} */
  const ran = [];
  const registry = new ManagedRegistry((held) => ran.push(held));
  (() => registry.register({}, "old"))();
  const state = registry.registrations();
  await collectUntil(() => state[0].target.deref() === undefined);
  registry.drain();
  (() => registry.register({}, "newer"))();
  ran.length = 0;
  registry.replace(state);
  await collectUntil(() => registry.drain() > 0);
  assert.deepEqual(ran, ["old"]);
  assert.equal(registry.registrations().length, 0);
});
