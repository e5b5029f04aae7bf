// Cases 11 to 24, 27 and 35 of machine 23: a state comes back, in place and in another incarnation.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { CASES } from "./checkpoint-cases.mjs";
import { openBench } from "./checkpoint-page.mjs";
import { openBrowser } from "./support/browser.mjs";

let opened;
before(async () => {
  opened = await openBrowser();
});
after(() => opened?.close());

describe("restored in place", () => {
  let bench;
  before(async () => {
    bench = await openBench(opened);
  });
  after(() => bench?.close());

  for (const { name, setup, change, look, expect } of CASES) {
    test(name, async () => {
      await bench.ok("restore", 0);
      await bench.value(setup);
      const { seq } = await bench.ok("save");
      await bench.value(change);
      for (let visit = 0; visit < 2; visit += 1) {
        await bench.ok("restore", seq);
        assert.equal(await bench.value(look), expect);
      }
    });
  }

  test("a tree of states is visited in any order", async () => {
    await bench.ok("restore", 0);
    const seqs = {};
    const enter = async (name, code) => {
      await bench.value(code);
      seqs[name] = (await bench.ok("save")).seq;
    };
    await enter("A", "path = ['A']; f = open('/tmp/p', 'w+'); f.write('A'); f.flush()");
    await enter("B", "path.append('B'); f.write('B'); f.flush()");
    await enter("C", "path.append('C'); f.write('C'); f.flush()");
    await bench.ok("restore", seqs.A);
    await enter("D", "path.append('D'); f.write('D'); f.flush()");
    for (const [name, expected] of [["C", "ABC"], ["D", "AD"], ["B", "AB"], ["A", "A"], ["C", "ABC"]]) {
      await bench.ok("restore", seqs[name]);
      assert.equal(await bench.value("(''.join(path), open('/tmp/p').read(), f.tell())"), `('${expected}', '${expected}', ${expected.length})`);
    }
  });

  test("a heap that grew gives zeroed memory after a smaller state is restored (hazard H12)", async () => {
    await bench.ok("restore", 0);
    await bench.value("small = 1");
    const small = await bench.ok("save");
    await bench.value("big = bytearray(b'\\xff') * 50_000_000");
    const large = await bench.ok("save");
    assert.ok(large.heapBytes > small.heapBytes);
    await bench.ok("restore", small.seq);
    assert.equal(await bench.value("fresh = bytearray(50_000_000); (any(fresh), 'big' in globals())"), "(False, False)");
    await bench.ok("restore", large.seq);
    assert.equal(await bench.value("(len(big), big.count(255), 'fresh' in globals())"), "(50000000, 50000000, False)");
    await bench.ok("restore", small.seq);
    assert.equal(await bench.value("small"), "1");
  });

  test("nothing is written when nothing ran since", async () => {
    await bench.ok("restore", 0);
    await bench.value("y = [1, 2]");
    const first = await bench.ok("save");
    assert.ok(first.changedPages > 0);
    assert.equal((await bench.ok("save")).changedPages, 0);
    await bench.value("y.append(3)");
    assert.ok((await bench.ok("restore", first.seq)).pagesWritten > 0);
    assert.equal((await bench.ok("restore", first.seq)).pagesWritten, 0);
  });

  test("kernel entropy differs after each restore and the random module repeats", async () => {
    await bench.ok("restore", 0);
    await bench.value("import random, secrets, os, uuid; random.seed(7)");
    const { seq } = await bench.ok("save");
    const draw = "(random.random(), secrets.token_hex(), os.urandom(8).hex(), str(uuid.uuid4()))";
    await bench.ok("restore", seq);
    const one = await bench.value(draw);
    await bench.ok("restore", seq);
    const two = await bench.value(draw);
    const [firstOfOne, ...secretsOfOne] = one.slice(1, -1).split(", ");
    const [firstOfTwo, ...secretsOfTwo] = two.slice(1, -1).split(", ");
    assert.equal(firstOfOne, firstOfTwo);
    assert.equal(secretsOfOne.length, 3);
    secretsOfOne.forEach((secret, i) => assert.notEqual(secret, secretsOfTwo[i]));
  });

  test("the monotonic clock does not go back", async () => {
    const { seq } = await bench.ok("save");
    const before = Number(await bench.value("import time; time.monotonic()"));
    await bench.ok("restore", seq);
    assert.ok(Number(await bench.value("__import__('time').monotonic()")) >= before);
  });
});

describe("adopted by another incarnation", () => {
  let bench;
  const seqs = new Map();
  before(async () => {
    bench = await openBench(opened);
    for (const { name, setup, change } of CASES) {
      await bench.ok("restore", 0);
      await bench.value(setup);
      const { seq, portable } = await bench.ok("save");
      assert.equal(portable, true, name);
      seqs.set(name, seq);
      await bench.value(change);
    }
  });
  after(() => bench?.close());

  for (const { name, change, look, expect } of CASES) {
    test(name, async () => {
      await bench.ok("recycle", seqs.get(name));
      assert.equal(await bench.value(look), expect);
      await bench.value(change);
      await bench.ok("restore", seqs.get(name));
      assert.equal(await bench.value(look), expect);
    });
  }

  test("what is saved there is adopted again", async () => {
    await bench.ok("recycle", seqs.get(CASES[1].name));
    await bench.value("f.write(' and more'); f.flush(); second = 2");
    const { seq } = await bench.ok("save");
    await bench.ok("recycle", seq);
    assert.equal(await bench.value("(f.seek(0), f.read(), second)"), "(0, 'flushed pending and more', 2)");
  });

  test("the monotonic clock continues", async () => {
    await bench.ok("restore", 0);
    await bench.value("import time; await __import__('asyncio').sleep(0.2); t = time.monotonic()");
    const { seq } = await bench.ok("save");
    await bench.ok("recycle", seq);
    assert.equal(await bench.value("__import__('time').monotonic() >= t"), "True");
  });

  test("a record of another base is refused and changes nothing", async () => {
    await bench.value("here = 5");
    const reply = await bench.page.evaluate(
      (seq) => globalThis.bench.adopt(seq, (record) => ({ ...record, base: "other" })),
      seqs.get(CASES[0].name),
    );
    assert.equal(reply.ok, false);
    assert.match(reply.unsupported, /another base/);
    assert.equal(await bench.value("here"), "5");
  });

  test("a state without portable host objects is refused", async () => {
    const reply = await bench.page.evaluate(
      (seq) => globalThis.bench.adopt(seq, (record) => ({ ...record, portable: false })),
      seqs.get(CASES[0].name),
    );
    assert.match(reply.unsupported, /portable/);
  });
});
