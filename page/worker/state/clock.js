/**
 * The monotonic clock as state (machine 7, 9.3 step 7): it never goes back, in place or elsewhere.
 *
 * @module
 */

export class Clock {
  #clock;

  /** @param {import("../context.js").EngineContext} context */
  constructor(context) {
    this.#clock = context.clock;
  }

  /** Milliseconds that guest code sees now. */
  capture() {
    return this.#clock.now();
  }

  /**
   * Continues where a state of another incarnation was saved.
   * @param {number} milliseconds
   */
  adopt(milliseconds) {
    this.#clock.advanceTo(milliseconds);
  }
}
