/**
 * Heap pages and page store: the current table of an incarnation, slot reservation, and the page kernel (machine 8).
 *
 * A page table is a `Uint32Array` with one slot per heap page, slot 0 being the zero page. Tables are never changed once
 * made, so they may be shared between states and messages.
 *
 * @module
 */

/** Bytes of a heap page and of a slot. */
export const PAGE_BYTES = 4096;

const WASM_PAGE_BYTES = 65536;

/** The store grows by at least this much, so that growing is rare. */
const STORE_STEP_BYTES = 4 * 1024 * 1024;

/**
 * @typedef {object} KernelExports
 * @property {WebAssembly.Memory} scratch
 * @property {(pages: number, table: number, out: number) => number} diff
 * @property {(pairs: number, list: number) => void} take
 * @property {(pages: number, table: number) => number} put
 */

/**
 * @typedef {object} Taken
 * @property {Uint32Array} table the heap's content at the moment of the call
 * @property {number} changed heap pages that differed from the current table
 * @property {boolean} fresh whether `table` shares no slot with the table before it
 */

export class Pages {
  #context;
  /** @type {KernelExports} */
  #kernel;
  /** @type {Uint32Array} */
  #current = new Uint32Array(0);
  /** @type {Uint32Array} */
  #free = new Uint32Array(0);
  #freeUsed = 0;

  /** @param {import("../context.js").EngineContext} context */
  constructor(context) {
    this.#context = context;
    const instance = new WebAssembly.Instance(context.kernel, {
      guest: { memory: context.memory },
      store: { memory: context.store },
    });
    this.#kernel = /** @type {KernelExports} */ (/** @type {unknown} */ (instance.exports));
  }

  /** Heap length in bytes. */
  get heapBytes() {
    return this.#context.memory.buffer.byteLength;
  }

  /** The table that the heap is compared with; what a sweep of the page must keep (machine 8, rule 2). */
  get current() {
    return this.#current;
  }

  /**
   * Makes the heap at least `bytes` long. The heap never shrinks.
   * @param {number} bytes
   */
  growHeap(bytes) {
    this.#context.growHeap(bytes);
  }

  /**
   * Replaces the list of slots that may be handed out before never-used ones.
   * @param {Uint32Array} slots
   */
  replaceFree(slots) {
    this.#free = slots;
    this.#freeUsed = 0;
  }

  /** How many heap pages differ from the current table now. */
  differing() {
    const table = this.#extended(this.#current);
    return this.#diff(table);
  }

  /**
   * Stores every heap page that differs from the current table. Nothing changes for the caller until `adopt(table)`.
   * @returns {Taken | null} `null` when the page store is full; no slot is taken then
   */
  take() {
    const before = this.#extended(this.#current);
    const changed = this.#diff(before);
    const slots = this.#reserve(changed);
    if (slots === null) return null;
    const table = before.slice();
    const scratch = new Uint32Array(this.#kernel.scratch.buffer);
    const list = this.#listAt(table.length) / 4;
    // Page numbers are spread to (page, slot) pairs in place, from the end so that none is overwritten unread.
    for (let i = changed - 1; i >= 0; i -= 1) {
      const page = scratch[list + i];
      scratch[list + 2 * i] = page;
      scratch[list + 2 * i + 1] = slots[i];
      table[page] = slots[i];
    }
    this.#kernel.take(changed, list * 4);
    return { table, changed, fresh: !sharesSlot(before, table) };
  }

  /**
   * Makes `table`, which describes the present heap, the current one.
   * @param {Uint32Array} table
   */
  adopt(table) {
    this.#current = table;
  }

  /**
   * Makes the heap equal to `target`; pages beyond it become zero (hazard H12). The heap must be long enough.
   * @param {Uint32Array} target
   * @returns {number} pages written
   */
  put(target) {
    const table = this.#extended(target);
    this.#prepare(table);
    const written = this.#kernel.put(table.length, 0);
    this.#current = table;
    return written;
  }

  /** @param {Uint32Array} table */
  #extended(table) {
    const pages = this.heapBytes / PAGE_BYTES;
    if (table.length === pages) return table;
    if (table.length > pages) throw new RangeError("the table is longer than the heap");
    const longer = new Uint32Array(pages);
    longer.set(table);
    return longer;
  }

  /** @param {number} pages byte address of the list behind a table of that many pages */
  #listAt(pages) {
    return (pages * 4 + 15) & ~15;
  }

  /** @param {Uint32Array} table */
  #prepare(table) {
    const { scratch } = this.#kernel;
    const missing = this.#listAt(table.length) + table.length * 8 - scratch.buffer.byteLength;
    if (missing > 0) scratch.grow(Math.ceil(missing / WASM_PAGE_BYTES));
    new Uint32Array(scratch.buffer).set(table);
  }

  /** @param {Uint32Array} table */
  #diff(table) {
    this.#prepare(table);
    return this.#kernel.diff(table.length, 0, this.#listAt(table.length));
  }

  /**
   * Free slots first, then never-used ones. The free list is consumed only when all slots can be had.
   * @param {number} count
   * @returns {Uint32Array | null}
   */
  #reserve(count) {
    const reused = Math.min(count, this.#free.length - this.#freeUsed);
    const first = count > reused ? this.#claim(count - reused) : 0;
    if (first < 0) return null;
    const slots = new Uint32Array(count);
    slots.set(this.#free.subarray(this.#freeUsed, this.#freeUsed + reused));
    this.#freeUsed += reused;
    for (let i = reused; i < count; i += 1) slots[i] = first + i - reused;
    return slots;
  }

  /**
   * Claims `count` never-used slots in a row. The store is grown before the counter moves (machine 8, rule 1): a counter
   * that names slots beyond the store would make the kernel trap later.
   * @param {number} count
   * @returns {number} the first slot, or -1
   */
  #claim(count) {
    const counter = this.#context.storeCounter;
    for (;;) {
      const next = Atomics.load(counter, 0);
      if (!this.#ensureStore((next + count) * PAGE_BYTES)) return -1;
      if (Atomics.compareExchange(counter, 0, next, next + count) === next) return next;
    }
  }

  /** @param {number} bytes */
  #ensureStore(bytes) {
    const { store, storeLimitBytes } = this.#context;
    if (bytes > storeLimitBytes) return false;
    // Another incarnation may have grown the memory; only `grow` is certain to see that.
    const length = store.buffer.byteLength >= bytes ? bytes : store.grow(0) * WASM_PAGE_BYTES;
    if (length >= bytes) return true;
    const wanted = Math.min(storeLimitBytes, Math.max(bytes, length + STORE_STEP_BYTES));
    try {
      store.grow(Math.ceil((wanted - length) / WASM_PAGE_BYTES));
      return true;
    } catch {
      return store.grow(0) * WASM_PAGE_BYTES >= bytes;
    }
  }
}

/**
 * @param {Uint32Array} before
 * @param {Uint32Array} after of the same length
 */
function sharesSlot(before, after) {
  for (let page = 0; page < after.length; page += 1) {
    if (after[page] !== 0 && after[page] === before[page]) return true;
  }
  return false;
}
