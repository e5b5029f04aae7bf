/**
 * Checkpoints in the worker (machine 9): save, restore in place, adoption of another incarnation's state.
 *
 * A state is a page table plus everything of the engine's host side that the heap relies on. It exists twice: as a live
 * record (object references, valid in this incarnation) and as a packed record (plain data, for the page). All functions
 * here run at a quiescent point: no Python code is executing.
 *
 * @module
 */

import { describe } from "./failure.js";
import { Clock } from "./state/clock.js";
import { Closures } from "./state/closures.js";
import { Files } from "./state/files.js";
import { Libraries } from "./state/libraries.js";
import { LibraryMismatch } from "./state/library-loader.js";
import { PAGE_BYTES, Pages } from "./state/pages.js";
import { Proxies } from "./state/proxies.js";
import { References } from "./state/references.js";

/** Version of the packed record's form. */
export const RECORD_VERSION = 1;

/** Sequence number of the base checkpoint. */
const BASE = 0;

/** Characters of a failure's text. */
const FAILURE_LIMIT = 1000;

/** Index of the signal in the control block. */
const SIGNAL = 0;

/**
 * @typedef {object} LiveRecord
 * @property {Uint32Array} table
 * @property {import("./state/references.js").LiveReferences} references
 * @property {import("./state/proxies.js").LiveProxies} proxies
 * @property {import("./state/files.js").LiveFiles} files
 * @property {import("./state/libraries.js").LiveLibraries} libraries
 * @property {readonly [number, readonly number[]][]} closures
 */

/**
 * A state without its pages, as plain data.
 * @typedef {object} PackedRecord
 * @property {number} version
 * @property {string} base fingerprint of the base that the state grew from
 * @property {boolean} portable whether another incarnation can adopt it
 * @property {number} bytes heap length
 * @property {number} sp stack pointer
 * @property {import("./state/references.js").PackedReferences} references
 * @property {number[]} px host-held Python objects in order
 * @property {import("./state/files.js").PackedFiles} fs
 * @property {import("./state/libraries.js").PackedLibraries} libs
 * @property {import("./state/closures.js").PackedClosure[]} closures
 * @property {number} clock milliseconds
 */

/** @typedef {Record<string, any>} Reply */

export class CheckpointEngine {
  #context;
  #pages;
  #references;
  #proxies;
  #files;
  #libraries;
  #closures;
  #clock;
  /** @type {Map<number, LiveRecord>} */
  #records = new Map();
  #stackPointer = 0;
  #fingerprint = "";
  /** @type {number[]} */
  #basePointers = [];

  /** @param {import("./context.js").EngineContext} context */
  constructor(context) {
    this.#context = context;
    this.#pages = new Pages(context);
    this.#references = new References(context);
    this.#proxies = new Proxies(context);
    this.#files = new Files(context);
    this.#libraries = new Libraries(context);
    this.#closures = new Closures(context);
    this.#clock = new Clock(context);
  }

  /**
   * Makes the heap equal to the boot image (machine 5.3).
   * @param {import("./context.js").ImageTable} image
   * @returns {number} pages written
   */
  loadImage({ table }) {
    this.#pages.growHeap(table.length * PAGE_BYTES);
    return this.#pages.put(table);
  }

  /**
   * Takes the base checkpoint. Called once, at the end of the boot.
   * @param {Uint32Array} free slots that may be used before never-used ones
   * @returns {{table: Uint32Array, heapBytes: number}}
   */
  takeBase(free) {
    if (this.#records.has(BASE)) throw new Error("base was taken before");
    this.#proxies.markBase();
    this.#references.markBase();
    this.#libraries.markBase();
    this.#files.markBase();
    this.#stackPointer = this.#context.exports.__stack_pointer.value;
    this.#basePointers = this.#proxies.pointers();
    this.#fingerprint = JSON.stringify([
      this.#basePointers,
      this.#references.fingerprint(),
      this.#libraries.fingerprint(),
      this.#stackPointer,
    ]);
    this.#pages.replaceFree(free);
    const taken = this.#pages.take();
    if (taken === null) throw new Error("the page store is too small for the base checkpoint");
    this.#keep(BASE, taken.table);
    return { table: taken.table, heapBytes: this.#pages.heapBytes };
  }

  /**
   * @param {any} command of the page, see the page's contract
   * @returns {Reply} its reply without `type`, `id` and `durationMs`
   */
  handle(command) {
    try {
      switch (command.op) {
        case "save":
          return this.#save(command);
        case "restore":
          return this.#restore(command);
        case "adopt":
          return this.#adopt(command);
        case "forget":
          return this.#forget(command);
        default:
          return { ok: false, unsupported: `unknown command ${command.op}` };
      }
    } catch (error) {
      return { ok: false, failed: describe(error).slice(0, FAILURE_LIMIT) };
    }
  }

  /** @param {{seq: number, free: Uint32Array | null}} command */
  #save({ seq, free }) {
    if (free !== null) this.#pages.replaceFree(free);
    this.#proxies.drain();
    const refused = this.#refusal();
    if (refused !== null) return { ok: false, refused };
    const taken = this.#pages.take();
    if (taken === null) return { ok: false, limit: true };
    const live = this.#keep(seq, taken.table);
    const record = this.#pack(live);
    return {
      ok: true,
      changedPages: taken.changed,
      fresh: taken.fresh,
      heapBytes: record.bytes,
      portable: record.portable,
      table: taken.table,
      record,
      ...this.#files.describe(live.files),
    };
  }

  /** @returns {{reason: string, count?: number, kinds?: string[]} | null} */
  #refusal() {
    if (this.#context.exports.__stack_pointer.value !== this.#stackPointer) return { reason: "stack" };
    return this.#files.refusal() ?? this.#references.refusal();
  }

  /**
   * Captures the host side and keeps it with the table of the heap under a sequence number.
   * @param {number} seq
   * @param {Uint32Array} table
   * @returns {LiveRecord}
   */
  #keep(seq, table) {
    /** @type {LiveRecord} */
    const live = {
      table,
      references: this.#references.capture(),
      proxies: this.#proxies.capture(),
      files: this.#files.capture(),
      libraries: this.#libraries.capture(),
      closures: this.#closures.capture(),
    };
    this.#pages.adopt(table);
    this.#records.set(seq, live);
    return live;
  }

  /**
   * @param {LiveRecord} live of the present state
   * @returns {PackedRecord}
   */
  #pack(live) {
    const px = this.#proxies.pointers();
    return {
      version: RECORD_VERSION,
      base: this.#fingerprint,
      portable: live.libraries.unportable === null && sameNumbers(px, this.#basePointers),
      bytes: this.#pages.heapBytes,
      sp: this.#stackPointer,
      references: this.#references.pack(live.references),
      px,
      fs: this.#files.pack(live.files),
      libs: this.#libraries.pack(live.libraries, live.closures),
      closures: this.#closures.pack(live.closures),
      clock: this.#clock.capture(),
    };
  }

  /** @param {{seq: number, verify?: boolean}} command `verify` compares the heap once more (machine 9.2, step 5) */
  #restore({ seq, verify }) {
    const live = this.#records.get(seq);
    if (live === undefined) return { ok: false, unsupported: `no state ${seq} in this incarnation` };
    return this.#apply(live, verify === true);
  }

  /**
   * @param {LiveRecord} live
   * @param {boolean} verify
   */
  #apply(live, verify) {
    const occupied = this.#references.occupied();
    const pagesWritten = this.#pages.put(live.table);
    this.#context.exports.__stack_pointer.value = this.#stackPointer;
    this.#references.restore(live.references, occupied);
    this.#proxies.restore(live.proxies);
    this.#files.restore(live.files);
    this.#libraries.restore(live.libraries);
    this.#closures.restore(live.closures);
    return this.#finish(pagesWritten, verify);
  }

  /**
   * Finalizers that are pending in the state stay pending until the next run or save: running them here would make the
   * heap differ from the state again.
   * @param {number} pagesWritten
   * @param {boolean} verify
   */
  #finish(pagesWritten, verify) {
    Atomics.store(this.#context.control, SIGNAL, 0);
    const differing = verify ? this.#pages.differing() : 0;
    if (differing !== 0) throw new Error(`${differing} pages differ after a restore`);
    return { ok: true, pagesWritten, table: this.#pages.current };
  }

  /**
   * @param {{seq: number, table: Uint32Array, record: PackedRecord, contents: {identity: number, bytes: Uint8Array}[],
   *   free: Uint32Array | null, verify?: boolean}} command
   */
  #adopt({ seq, table, record, contents, free, verify }) {
    const unsupported = this.#mismatch(record);
    if (unsupported !== null) return { ok: false, unsupported };
    if (free !== null) this.#pages.replaceFree(free);
    const occupied = this.#references.occupied();
    this.#pages.growHeap(record.bytes);
    /** @type {import("./state/files.js").LiveFiles} */
    let files;
    /** @type {import("./state/libraries.js").LiveLibraries} */
    let libraries;
    try {
      files = this.#files.adopt(record.fs, contents);
      libraries = this.#libraries.adopt(record.libs, (path) => this.#files.read(path));
    } catch (error) {
      if (!(error instanceof LibraryMismatch)) throw error;
      this.#apply(this.#base(), false);
      return { ok: false, unsupported: error.message };
    }
    const pagesWritten = this.#pages.put(table);
    const references = this.#references.adopt(record.references, occupied);
    this.#context.exports.__stack_pointer.value = this.#stackPointer;
    const closures = this.#closures.adopt(record.closures);
    this.#clock.adopt(record.clock);
    const proxies = this.#proxies.capture();
    this.#records.set(seq, { table: this.#pages.current, references, proxies, files, libraries, closures });
    return this.#finish(pagesWritten, verify === true);
  }

  #base() {
    const base = this.#records.get(BASE);
    if (base === undefined) throw new Error("there is no base");
    return base;
  }

  /**
   * Why this incarnation cannot become the recorded state, or `null` (machine 9.3 step 2).
   * @param {PackedRecord} record
   */
  #mismatch(record) {
    if (record.version !== RECORD_VERSION) return "the record has another version";
    if (!record.portable) return "the record is not portable";
    if (record.base !== this.#fingerprint) return "the record grew from another base";
    if (this.#libraries.tableLength !== this.#libraries.baseTableLength) return "this incarnation is not fresh";
    if (!sameNumbers(this.#proxies.pointers(), record.px)) return "host-held objects differ";
    return this.#references.mismatch(record.references);
  }

  /** @param {{seqs: number[]}} command */
  #forget({ seqs }) {
    for (const seq of seqs) if (seq !== BASE) this.#records.delete(seq);
    const kept = [...this.#records].filter(([seq]) => seq !== BASE).map(([, { files }]) => files);
    this.#files.keepOnly(kept);
    return { ok: true };
  }
}

/**
 * @param {readonly number[]} a
 * @param {readonly number[]} b
 */
function sameNumbers(a, b) {
  return a.length === b.length && a.every((value, i) => value === b[i]);
}

/**
 * Attaches the checkpoint engine to an engine that is initialised and holds no state yet.
 * @param {import("./context.js").EngineContext} context
 * @returns {import("./context.js").Checkpoints}
 */
export function createCheckpoints(context) {
  const engine = new CheckpointEngine(context);
  return {
    loadImage: (image) => engine.loadImage(image),
    takeBase: (free) => engine.takeBase(free),
    handle: (command) => engine.handle(command),
  };
}
