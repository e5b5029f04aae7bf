// Case 40 of machine 23. `PYPROC_TEST_SEEDS` and `PYPROC_TEST_ROUNDS` widen it.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { openBrowser } from "./support/browser.mjs";

const ROUNDS = Number(process.env.PYPROC_TEST_ROUNDS ?? 60);
const SEEDS = Number(process.env.PYPROC_TEST_SEEDS ?? 3);

let opened;
let program;
before(async () => {
  opened = await openBrowser();
  program = await readFile(new URL("checkpoint-program.py", import.meta.url), "utf8");
});
after(() => opened?.close());

for (let seed = 1; seed <= SEEDS; seed += 1) {
  test(`random work is the same after every restore and adoption, seed ${seed}`, { timeout: 600_000 }, async () => {
    const page = await opened.newPage();
    const done = await page.evaluate(
      async (given) => (await import("/test/checkpoint-client.js")).randomWork(given),
      { program, seed, rounds: ROUNDS, recycle: true },
    );
    await page.close();
    assert.ok(done.saves > 1 && done.restores > 0, JSON.stringify(done));
  });
}
