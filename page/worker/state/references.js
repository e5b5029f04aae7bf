/**
 * The engine's reference table: host objects that Python holds (machine 7, 9.6, hazard H6).
 *
 * The table and the de-duplication map live in the engine's host side, the slot information (occupied, version, count)
 * in the heap. A state is therefore the occupied slots with their values; the heap brings the rest.
 *
 * In a packed record a value is a label: `b<slot>` for the value that base has in that slot, `h` for the host object,
 * `h.<name>` for one of its members and `c.<name>` for a constant of the language.
 *
 * @module
 */

/** Bit of a slot's information word that says that the slot is in use. */
const OCCUPIED = 1;

/** Values that are the same everywhere; the engine leaves some in its table. */
const CONSTANTS = [undefined, null, true, false];

/** Slots that the engine can have. */
const SLOT_LIMIT = 1 << 25;

const KIND_LIMIT = 8;
const KIND_CHARS = 64;

/**
 * @typedef {object} LiveReferences
 * @property {number[]} slots occupied slots, ascending
 * @property {any[]} values of the same length
 * @property {[any, number][]} dedupe
 */

/**
 * @typedef {object} PackedReferences
 * @property {number} extent length of the reference table
 * @property {[number, string][]} slots
 * @property {[string, number][]} dedupe label and reference
 * @property {string[]} immortals interned strings beyond base
 */

export class References {
  #context;
  /** @type {Map<any, string>} */
  #labels = new Map();
  /** @type {Map<string, any>} */
  #values = new Map();
  #baseImmortals = 0;

  /** @param {import("../context.js").EngineContext} context */
  constructor(context) {
    this.#context = context;
  }

  /** Names the values that the table holds now; called once, when base is taken. */
  markBase() {
    const live = this.capture();
    for (const value of CONSTANTS) this.#name(value, `c.${value}`);
    live.slots.forEach((slot, i) => this.#name(live.values[i], `b${slot}`));
    const { hostObject } = this.#context;
    this.#name(hostObject, "h");
    for (const key of Object.getOwnPropertyNames(hostObject)) this.#name(hostObject[key], `h.${key}`);
    this.#baseImmortals = this.#immortals();
  }

  /**
   * @param {any} value
   * @param {string} label
   */
  #name(value, label) {
    if (!this.#labels.has(value)) this.#labels.set(value, label);
    this.#values.set(label, value);
  }

  /** What must be equal in two incarnations for a record to be portable between them. */
  fingerprint() {
    const live = this.capture();
    const slots = live.slots.map((slot, i) => `${slot}=${this.#labels.get(live.values[i])}`);
    return `${slots.join(",")};${this.#baseImmortals}`;
  }

  /** @returns {number[]} occupied slots, ascending */
  occupied() {
    const { exports } = this.#context;
    const total = exports.hiwire_num_refs();
    const slots = [];
    for (let slot = 1; slots.length < total; slot += 1) {
      if (slot >= SLOT_LIMIT) throw new Error("the reference table does not have the slots that it counts");
      if ((exports._hiwire_slot_info(slot) & OCCUPIED) === 0) continue;
      slots.push(slot);
    }
    return slots;
  }

  /**
   * Reason to refuse a save: values that no record could name.
   * @returns {{reason: string, count: number, kinds: string[]} | null}
   */
  refusal() {
    const live = this.capture();
    const foreign = live.values.filter((value) => !this.#labels.has(value));
    if (foreign.length === 0) return null;
    const kinds = [...new Set(foreign.map((value) => this.#kind(value)))];
    return { reason: "hostObjects", count: foreign.length, kinds: kinds.sort().slice(0, KIND_LIMIT) };
  }

  /** @param {any} value */
  #kind(value) {
    try {
      if (this.#context.api.isPyProxy(value)) return "PyProxy";
      return Object.prototype.toString.call(value).slice(8, -1).slice(0, KIND_CHARS);
    } catch {
      return typeof value;
    }
  }

  /** @returns {LiveReferences} */
  capture() {
    const slots = this.occupied();
    const values = slots.map((slot) => this.#context.exports._hiwire_get(slot));
    return { slots, values, dedupe: [...this.#context.dedupe()] };
  }

  /**
   * @param {LiveReferences} live
   * @param {number[]} before slots that were occupied before the heap was restored
   */
  restore(live, before) {
    const { exports } = this.#context;
    const wanted = new Set(live.slots);
    for (const slot of before) if (!wanted.has(slot)) exports._hiwire_delete(slot);
    live.slots.forEach((slot, i) => this.#set(slot, live.values[i]));
    this.#fillDedupe(live.dedupe);
  }

  /** @param {readonly [any, number][]} entries */
  #fillDedupe(entries) {
    const map = this.#context.dedupe();
    map.clear();
    for (const [value, reference] of entries) map.set(value, reference);
  }

  /**
   * @param {number} slot
   * @param {any} value
   */
  #set(slot, value) {
    if (this.#context.exports._hiwire_set(slot, value) < 0) throw new Error(`reference slot ${slot} cannot be set`);
  }

  /** Length of the reference table. It only grows. */
  #extent() {
    return probe((slot) => this.#context.exports._hiwire_get(slot));
  }

  #immortals() {
    return probe((index) => this.#context.exports._hiwire_immortal_get(index));
  }

  /**
   * @param {LiveReferences} live of the present state
   * @returns {PackedReferences}
   */
  pack(live) {
    const label = (/** @type {any} */ value) => {
      const known = this.#labels.get(value);
      if (known === undefined) throw new Error("a reference without a label passed the gate");
      return known;
    };
    const immortals = [];
    for (let i = this.#baseImmortals, end = this.#immortals(); i < end; i += 1) {
      immortals.push(this.#context.exports._hiwire_immortal_get(i));
    }
    return {
      extent: this.#extent(),
      slots: live.slots.map((slot, i) => [slot, label(live.values[i])]),
      dedupe: live.dedupe.map(([value, reference]) => [label(value), reference]),
      immortals,
    };
  }

  /**
   * Why `packed` cannot be adopted here, or `null`.
   * @param {PackedReferences} packed
   */
  mismatch(packed) {
    const labels = [...packed.slots.map(([, label]) => label), ...packed.dedupe.map(([label]) => label)];
    const unknown = labels.find((label) => !this.#values.has(label));
    if (unknown !== undefined) return `unknown reference label ${unknown}`;
    const present = this.#immortals() - this.#baseImmortals;
    for (let i = 0; i < Math.min(present, packed.immortals.length); i += 1) {
      const here = this.#context.exports._hiwire_immortal_get(this.#baseImmortals + i);
      if (here !== packed.immortals[i]) return "interned strings differ";
    }
    return null;
  }

  /**
   * Called after the heap of the packed state is in place.
   * @param {PackedReferences} packed
   * @param {number[]} before slots that were occupied before
   * @returns {LiveReferences}
   */
  adopt(packed, before) {
    const { exports } = this.#context;
    for (let have = this.#immortals() - this.#baseImmortals; have < packed.immortals.length; have += 1) {
      exports._hiwire_immortal_add(packed.immortals[have]);
    }
    for (let slot = this.#extent(); slot < packed.extent; slot += 1) this.#set(slot, null);
    const value = (/** @type {string} */ label) => this.#values.get(label);
    /** @type {LiveReferences} */
    const live = {
      slots: packed.slots.map(([slot]) => slot),
      values: packed.slots.map(([, label]) => value(label)),
      dedupe: packed.dedupe.map(([label, reference]) => [value(label), reference]),
    };
    this.restore(live, before);
    return live;
  }
}

/**
 * Length of a table whose getter throws beyond its end.
 * @param {(index: number) => any} get
 */
function probe(get) {
  const has = (/** @type {number} */ index) => {
    try {
      get(index);
      return true;
    } catch {
      return false;
    }
  };
  if (!has(0)) return 0;
  let inside = 0;
  let outside = 1;
  while (has(outside)) {
    inside = outside;
    outside *= 2;
  }
  while (outside - inside > 1) {
    const middle = (inside + outside) >> 1;
    if (has(middle)) inside = middle;
    else outside = middle;
  }
  return outside;
}
