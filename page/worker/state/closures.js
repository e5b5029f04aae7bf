/**
 * Foreign-function closures (machine 7, 9.3 step 6, hazard H7).
 *
 * A closure is a function table entry that reads its words from the heap when it is called. The table is append only
 * (`freeTableIndexes.push` does nothing), so an entry of an earlier state is never reused and nothing must be restored
 * in place except the list of living closures.
 *
 * @module
 */

/**
 * Pointer and preparation words of a closure: `[pointer, cif, function, userData, codeLocation]`.
 * @typedef {number[]} PackedClosure
 */

/** Words of a packed closure. */
export const CLOSURE_WORDS = 5;

export class Closures {
  #context;

  /** @param {import("../context.js").EngineContext} context */
  constructor(context) {
    this.#context = context;
    context.module.freeTableIndexes.push = () => context.module.freeTableIndexes.length;
  }

  /** @returns {readonly [number, readonly number[]][]} */
  capture() {
    return [...this.#context.closures];
  }

  /** @param {readonly [number, readonly number[]][]} live */
  restore(live) {
    const { closures } = this.#context;
    closures.clear();
    for (const [pointer, words] of live) closures.set(pointer, words);
  }

  /**
   * @param {readonly [number, readonly number[]][]} live
   * @returns {PackedClosure[]}
   */
  pack(live) {
    return live.map(([pointer, words]) => [pointer, ...words]);
  }

  /**
   * Makes the table entries of another incarnation's closures. The heap already holds their words and types; the
   * preparation writes the same words again.
   * @param {readonly PackedClosure[]} packed
   */
  adopt(packed) {
    this.#context.closures.clear();
    for (const [pointer, ...words] of packed) {
      if (this.#context.prepareClosure(pointer, ...words) !== 0) {
        throw new Error(`closure ${pointer} cannot be prepared again`);
      }
    }
    return this.capture();
  }
}
