// Case 36 of machine 23: a native package before, after and between saves. Needs a directory with the wheels of pydantic
// and what it depends on in `PYPROC_TEST_WHEELS`.

import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { openBench } from "./checkpoint-page.mjs";
import { openBrowser } from "./support/browser.mjs";

const WHEELS = process.env.PYPROC_TEST_WHEELS;

const USE = `
import pydantic
class Point(pydantic.BaseModel):
    x: int
    label: str = 'p'
point = Point(x='4')
try:
    Point(x='four')
except pydantic.ValidationError as caught:
    problem = caught`;
const LOOK = "(point.x, Point.model_validate_json('{\"x\": 9}').x, problem.error_count(), Point(x=1) == Point(x=1))";
const EXPECT = "(4, 9, 1, True)";
const CALLBACKS = `
import ctypes
T = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)
callback = T(lambda v: v + point.x)
class Checked(pydantic.BaseModel):
    v: int
    @pydantic.field_validator('v')
    @classmethod
    def double(cls, value): return value * 2`;

describe("a native package", { skip: WHEELS === undefined ? "PYPROC_TEST_WHEELS is not set" : false }, () => {
  let opened;
  let wheels;
  before(async () => {
    const extra = new Map();
    wheels = {};
    for (const file of await readdir(/** @type {string} */ (WHEELS))) {
      const bytes = await readFile(join(/** @type {string} */ (WHEELS), file));
      extra.set(`/wheels/${file}`, bytes);
      wheels[file.split("-")[0]] = { url: `/wheels/${file}`, bytes: bytes.length };
    }
    opened = await openBrowser({ extra });
  });
  after(() => opened?.close());

  test("is imported again after a restore to before its import (hazard H8)", async () => {
    const bench = await openBench(opened, { wheels });
    await bench.value("marker = 'before'");
    const early = await bench.ok("save");
    await bench.value(USE);
    const first = await bench.ok("save");
    assert.equal(first.portable, true);
    await bench.ok("restore", early.seq);
    assert.equal(await bench.value("('pydantic_core' in __import__('sys').modules, 'Point' in globals())"), "(False, False)");
    await bench.value(USE.replace("'4'", "'44'"));
    const second = await bench.ok("save");
    for (const [seq, x] of [[first.seq, 4], [second.seq, 44], [first.seq, 4], [early.seq, 0], [second.seq, 44]]) {
      await bench.ok("restore", seq);
      if (x === 0) assert.equal(await bench.value("marker"), "'before'");
      else assert.equal(await bench.value(LOOK), EXPECT.replace("4,", `${x},`));
    }
    await bench.close();
  });

  test("continues in another incarnation with its objects, exceptions and callbacks", async () => {
    const bench = await openBench(opened, { wheels });
    await bench.value(USE);
    await bench.value(CALLBACKS);
    const saved = await bench.ok("save");
    assert.equal(saved.portable, true);
    await bench.value("point = None");
    for (let round = 0; round < 2; round += 1) {
      await bench.ok("recycle", saved.seq);
      assert.equal(await bench.value(LOOK), EXPECT);
      assert.equal(await bench.value("(callback(10), Checked(v=21).v, T(lambda v: v - 1)(5))"), "(14, 42, 4)");
      assert.equal(await bench.value("str(problem).splitlines()[0]"), "'1 validation error for Point'");
    }
    // A state that is saved there has the library of another incarnation as its own.
    await bench.value("point = Point(x=77)");
    const later = await bench.ok("save");
    assert.equal(later.portable, true);
    await bench.ok("recycle", later.seq);
    assert.equal(await bench.value("(point.x, callback(1), Checked(v=1).v)"), "(77, 78, 2)");
    await bench.ok("restore", 0);
    assert.equal(await bench.value("'pydantic' in __import__('sys').modules"), "False");
    await bench.value(USE);
    assert.equal(await bench.value(LOOK), EXPECT);
    await bench.close();
  });

  test("is portable when closures were made before its import", async () => {
    const bench = await openBench(opened, { wheels });
    await bench.value("import ctypes; T = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int); early = T(lambda v: v * 3)");
    await bench.value(USE);
    const saved = await bench.ok("save");
    assert.equal(saved.portable, true);
    await bench.ok("recycle", saved.seq);
    assert.equal(await bench.value(LOOK), EXPECT);
    assert.equal(await bench.value("early(7)"), "21");
    await bench.close();
  });

  test("is refused elsewhere when the library file does not fit its record, and base stays", async () => {
    const bench = await openBench(opened, { wheels });
    await bench.value(USE);
    const { seq } = await bench.ok("save");
    await bench.ok("recycle");
    const reply = await bench.page.evaluate(
      (state) =>
        globalThis.bench.adopt(state, (record) => {
          record.libs.libraries[0].memorySize += 16;
          return record;
        }),
      seq,
    );
    assert.equal(reply.ok, false);
    assert.match(reply.unsupported, /not the library that was recorded/);
    assert.equal(await bench.value("import os; ('point' in globals(), os.getcwd(), os.listdir('/home/user'))"), "(False, '/home/user', [])");
    await bench.ok("recycle", seq);
    assert.equal(await bench.value(LOOK), EXPECT);
    await bench.close();
  });

  test("costs a save only once", async () => {
    const bench = await openBench(opened, { wheels });
    await bench.value(USE);
    const first = await bench.ok("save");
    await bench.value("point = Point(x=5)");
    const second = await bench.ok("save");
    assert.ok(second.changedPages < first.changedPages / 4, `${second.changedPages} after ${first.changedPages}`);
    assert.equal(second.sent, 0);
    await bench.close();
  });
});
