/**
 * What guest code and the engine find under the few browser names that remain (machine 16.3).
 *
 * @module
 */

import { fillRandom, now } from "./primitives.js";

/** @returns {import("./context.js").MachineClock} */
export function createClock() {
  let offset = 0;
  const read = () => now() + offset;
  return {
    now: read,
    offset: () => offset,
    advanceTo: (ms) => {
      offset += Math.max(0, ms - read());
    },
  };
}

/** @param {Record<string, any>} members */
function nullObject(members) {
  const object = Object.create(null);
  for (const [name, value] of Object.entries(members)) object[name] = value;
  return Object.freeze(object);
}

const nothing = () => {};

/**
 * The stand-ins by global name.
 * @param {import("./context.js").MachineClock} clock
 * @param {() => void} onEntropy called for each request for random bytes
 * @returns {Record<string, any>}
 */
export function createStandIns(clock, onEntropy) {
  return {
    performance: nullObject({ now: () => clock.now() }),
    crypto: nullObject({
      getRandomValues: (/** @type {ArrayBufferView} */ view) => {
        onEntropy();
        fillRandom(view);
        return view;
      },
    }),
    navigator: nullObject({ userAgent: "machine", language: "en-US" }),
    console: nullObject(
      Object.fromEntries(["debug", "error", "info", "log", "trace", "warn"].map((name) => [name, nothing])),
    ),
    setTimeout: () => {
      throw new TypeError("there are no timers in the machine");
    },
    clearTimeout: nothing,
  };
}
