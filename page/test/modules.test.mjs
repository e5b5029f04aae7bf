// The list of scripts that the worker's policy allows (machine 16.1) is exactly what the worker imports.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { test } from "node:test";

const PAGE = join(dirname(fileURLToPath(import.meta.url)), "..");

/** Paths of the modules that `entry` imports statically, itself included. @param {string} entry */
async function graph(entry) {
  const found = new Set();
  const pending = [entry];
  for (let path = pending.pop(); path !== undefined; path = pending.pop()) {
    if (found.has(path)) continue;
    found.add(path);
    if (path.startsWith("engine/")) continue;
    const source = (await readFile(join(PAGE, path), "utf8")).replace(/\/\*[\s\S]*?\*\//g, "");
    assert.doesNotMatch(source, /\bimport\s*\(/, `${path} imports dynamically`);
    for (const [, specifier] of source.matchAll(/^(?:import|export)[^;]*?["'](\.[^"']+)["'];/gms)) {
      pending.push(relative(PAGE, join(PAGE, dirname(path), specifier)));
    }
  }
  return [...found].sort();
}

test("the worker's policy lists exactly the scripts that the worker imports", async () => {
  const list = JSON.parse(await readFile(join(PAGE, "worker", "modules.json"), "utf8"));
  assert.deepEqual([...list.modules, ...list.engine].sort(), await graph(list.entry));
});

test("durable images name the version that the prelude has", async () => {
  const text = async (/** @type {string} */ path) => await readFile(join(PAGE, path), "utf8");
  const version = async (/** @type {string} */ path, /** @type {RegExp} */ pattern) => (await text(path)).match(pattern)?.[1];
  const prelude = await version("worker/prelude.py", /^VERSION = (\d+)$/m);
  assert.notEqual(prelude, undefined);
  assert.equal(await version("machine/images.js", /^export const PRELUDE_VERSION = (\d+);$/m), prelude);
});
