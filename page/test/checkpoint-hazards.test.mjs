// Hazards of machine 10 that checkpoints fix. Each scenario tells what it saw; it is right with the fix and wrong when
// the worker is served without it.

import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { openHooked } from "./checkpoint-hooks.mjs";
import { openBench } from "./checkpoint-page.mjs";

const WHEELS = process.env.PYPROC_TEST_WHEELS;

const HOLD = "from pyodide.ffi import create_proxy\np = create_proxy(lambda: 41)\n";

/**
 * @typedef {object} Hazard
 * @property {string} name
 * @property {{file: string, from: string, to?: string}} fault
 * @property {(bench: any) => Promise<any>} scenario
 * @property {any} right
 * @property {boolean} [wheels]
 */

/** @type {Hazard[]} */
const HAZARDS = [
  {
    name: "H1: descriptors that were closed after the save work after the restore",
    fault: { file: "checkpoint.js", from: "this.#files.restore(live.files);" },
    scenario: async (bench) => {
      await bench.value("import os; fd = os.open('/tmp/h1', os.O_RDWR | os.O_CREAT)");
      const { seq } = await bench.ok("save");
      await bench.value("os.close(fd)");
      await bench.ok("restore", seq);
      return (await bench.run("os.write(fd, b'abc')")).value;
    },
    right: "3",
  },
  {
    name: "H2: a file that was changed in place has its old content",
    fault: { file: "state/contents.js", from: "this.#frozen.has(before) && ", to: "false && " },
    scenario: async (bench) => {
      await bench.value("import os; open('/tmp/h2', 'w').write('old')");
      const { seq } = await bench.ok("save");
      await bench.value("fd = os.open('/tmp/h2', os.O_WRONLY); os.write(fd, b'new'); os.close(fd)");
      await bench.ok("restore", seq);
      return bench.value("open('/tmp/h2').read()");
    },
    right: "'old'",
  },
  {
    name: "H3: host proxies of a state that was left are collected without harm",
    fault: { file: "state/proxies.js", from: "registry.replace(copies.map((copy) => copy.registration));" },
    scenario: async (bench) => {
      const { seq } = await bench.ok("save");
      const before = (await bench.call("hook", "registrations")).count;
      await bench.value(`${HOLD}
made = [create_proxy((lambda k: lambda: k)(i)) for i in range(4000)]
made.clear()`);
      await bench.ok("restore", seq);
      const after = (await bench.call("hook", "registrations")).count;
      await bench.value("kept = [object() for _ in range(20000)]");
      await bench.call("hook", "collect");
      const sum = await bench.run("import gc; gc.collect(); (len(kept), len({id(k) for k in kept}))");
      return [after - before, sum.value];
    },
    right: [0, "(20000, 20000)"],
  },
  {
    name: "H4: a late call on a proxy of a state that was left throws an ordinary error",
    fault: { file: "state/proxies.js", from: "if (!kept.has(registration)) this.#disarm(registration);" },
    scenario: async (bench) => {
      const { seq } = await bench.ok("save");
      await bench.value(HOLD);
      await bench.call("hook", "hold");
      await bench.ok("restore", seq);
      await bench.value("filler = [dict(a=i) for i in range(2000)]");
      const { threw = "nothing" } = await bench.call("hook", "call");
      return [/left by a restore/.test(threw), (await bench.run("1 + 1")).value];
    },
    right: [true, "2"],
  },
  {
    name: "H5: a proxy that was destroyed after the save works after the restore",
    fault: { file: "state/proxies.js", from: "for (const copy of copies) reinstate(copy);" },
    scenario: async (bench) => {
      await bench.value(HOLD);
      await bench.call("hook", "hold");
      await bench.value("del p");
      const { seq } = await bench.ok("save");
      await bench.call("hook", "destroy");
      await bench.ok("restore", seq);
      return (await bench.call("hook", "call")).returned;
    },
    right: 41,
  },
  {
    name: "H6: references name the objects that they named at the save",
    fault: { file: "checkpoint.js", from: "this.#references.restore(live.references, occupied);" },
    scenario: async (bench) => {
      await bench.value("import time; from pyodide.ffi import to_js; wait = time.sleep.__globals__['__host__'].sleep");
      const { seq } = await bench.ok("save");
      await bench.value("del wait; lists = [to_js([i]) for i in range(50)]");
      await bench.ok("restore", seq);
      return (await bench.run("wait(1), hasattr(wait, 'push')")).value;
    },
    right: "(None, False)",
  },
  {
    name: "H7: the table entry of a freed closure is not used again",
    fault: {
      file: "state/closures.js",
      from: "context.module.freeTableIndexes.push = () => context.module.freeTableIndexes.length;",
    },
    scenario: async (bench) => {
      await bench.value("import ctypes, gc; T = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int); old = T(lambda v: v + 1)");
      const { seq } = await bench.ok("save");
      await bench.value(`
del old; gc.collect()
D = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_double)
new = [D(lambda a, b: a * b) for _ in range(20)]`);
      await bench.ok("restore", seq);
      return (await bench.run("old(6)")).value;
    },
    right: "7",
  },
  {
    name: "H8: a library that was loaded after the save is loaded again",
    fault: { file: "checkpoint.js", from: "this.#libraries.restore(live.libraries);" },
    wheels: true,
    scenario: async (bench) => {
      const { seq } = await bench.ok("save");
      await bench.value("import pydantic_core");
      await bench.ok("restore", seq);
      const again = await bench.run("import pydantic_core; pydantic_core.to_json([1])");
      return again.value;
    },
    right: "b'[1]'",
  },
  {
    name: "H12: memory beyond a smaller state is zero",
    fault: { file: "state/pages.js", from: "this.#kernel.put(table.length, 0)", to: "this.#kernel.put(target.length, 0)" },
    scenario: async (bench) => {
      const { seq } = await bench.ok("save");
      await bench.value("big = bytearray(b'\\xff') * 60_000_000");
      const reply = await bench.call("restore", seq);
      return [reply.ok, (await bench.run("any(bytearray(60_000_000))")).value];
    },
    right: [true, "False"],
  },
];

for (const { name, fault, scenario, right, wheels } of HAZARDS) {
  const skip = wheels === true && WHEELS === undefined ? "PYPROC_TEST_WHEELS is not set" : false;
  test(name, { skip, timeout: 120_000 }, async () => {
    const { extra, assets } = wheels === true ? await wheelFiles() : { extra: new Map(), assets: {} };
    /** @param {Hazard["fault"] | undefined} without */
    const see = async (without) => {
      const opened = await openHooked(without, new Map(extra));
      try {
        return await scenario(await openBench(opened, assets));
      } catch (error) {
        if (without === undefined) throw error;
        return error;
      } finally {
        await opened.close();
      }
    };
    assert.deepEqual(await see(undefined), right);
    assert.notDeepEqual(await see(fault), right, "the scenario does not notice the missing fix");
  });
}

async function wheelFiles() {
  const extra = new Map();
  /** @type {Record<string, any>} */
  const wheels = {};
  for (const file of await readdir(/** @type {string} */ (WHEELS))) {
    const bytes = await readFile(join(/** @type {string} */ (WHEELS), file));
    extra.set(`/wheels/${file}`, bytes);
    wheels[file.split("-")[0]] = { url: `/wheels/${file}`, bytes: bytes.length };
  }
  return { extra, assets: { wheels } };
}
