// A page with a `Bench` of `checkpoint-client.js`, driven from a test.

import assert from "node:assert/strict";

/**
 * @param {Awaited<ReturnType<typeof import("./support/browser.mjs").openBrowser>>} opened
 * @param {Record<string, any>} [assets]
 */
export async function openBench(opened, assets = {}) {
  const page = await opened.newPage();
  await page.evaluate(async (given) => {
    const { Bench } = await import("/test/checkpoint-client.js");
    globalThis.bench = await Bench.open(given);
  }, assets);

  /** @param {string} method @param {...any} given */
  const call = (method, ...given) =>
    page.evaluate(([name, values]) => globalThis.bench[name](...values), [method, given]);

  return {
    page,
    call,
    /** A reply that must be a success. */
    ok: async (/** @type {string} */ method, /** @type {any[]} */ ...given) => {
      const reply = await call(method, ...given);
      assert.equal(reply.ok, true, JSON.stringify(reply));
      return reply;
    },
    /** @param {string} code */
    run: (code) => call("run", code),
    /** @param {string} code */
    value: (code) => call("value", code),
    close: () => page.close(),
  };
}
