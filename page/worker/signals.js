/**
 * The signals that the engine sees (machine 14.1).
 *
 * @module
 */

import { CONTROL } from "./layout.js";

/**
 * Returns the engine's interrupt buffer. The engine reads its element 0 and then writes 0 to it, in two steps. Here the
 * write takes back only the signal that was read, so one that the page sends between the two steps stays.
 * @param {Int32Array} control
 * @returns {{0: number}}
 */
export function createSignals(control) {
  let seen = 0;
  return Object.freeze({
    get 0() {
      seen = Atomics.load(control, CONTROL.signal);
      return seen;
    },
    set 0(_) {
      if (seen !== 0) Atomics.compareExchange(control, CONTROL.signal, seen, 0);
    },
  });
}
