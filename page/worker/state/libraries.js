/**
 * Dynamic libraries as state (machine 7, 17.3, 17.4, hazards H8, H9).
 *
 * Four host structures change when a library is loaded: the registry by name, the registry by handle, the global offset
 * table and the symbol table that later libraries import from. They are compared with base, and only after a library
 * event, because reading the offset table is slow.
 *
 * @module
 */

import { LibraryLoader, readLayout } from "./library-loader.js";

/**
 * @typedef {object} LiveLibraries
 * @property {Map<string, {dso: any, fields: Record<string, any>}>} names
 * @property {Map<string, any>} handles
 * @property {Map<string, {entry: WebAssembly.Global, value: number}>} offsets entries that base lacks or has differently
 * @property {Map<string, any>} symbols those that base lacks or has differently
 * @property {PackedLibrary[]} libraries in order of loading
 * @property {string | null} unportable why no other incarnation can load them
 */

/**
 * @typedef {object} PackedLibrary
 * @property {string} name path of the file
 * @property {number[]} handles
 * @property {number} memoryBase
 * @property {number} memorySize
 * @property {number} tableBase
 * @property {number} tableSize
 * @property {boolean} global
 * @property {number} references reference count, -1 for a library that is never unloaded
 */

/**
 * A function that was added to the table outside the libraries' segments: `[index, library, symbol]`; library -1 is the
 * engine itself.
 * @typedef {[number, number, string]} PackedFunction
 */

/**
 * @typedef {object} PackedLibraries
 * @property {PackedLibrary[]} libraries
 * @property {PackedFunction[]} functions
 * @property {[string, number][]} offsets
 * @property {number} tableLength
 */

/**
 * @typedef {object} BaseTables
 * @property {Set<string>} names
 * @property {Set<string>} handles
 * @property {Map<string, number>} offsets
 * @property {Map<string, any>} symbols
 */

/** @type {LiveLibraries} */
const NONE = {
  names: new Map(),
  handles: new Map(),
  offsets: new Map(),
  symbols: new Map(),
  libraries: [],
  unportable: null,
};

export class Libraries {
  #context;
  #loader;
  /** @type {BaseTables | null} recorded just before the first library event */
  #base = null;
  #baseTableLength = 0;
  /** @type {LiveLibraries} */
  #current = NONE;
  #eventsSeen = 0;

  /** @param {import("../context.js").EngineContext} context */
  constructor(context) {
    this.#context = context;
    this.#loader = new LibraryLoader(context);
  }

  /** Called once, when base is taken. */
  markBase() {
    this.#baseTableLength = this.tableLength;
    this.#eventsSeen = this.#context.libraryEvents.count();
    if (this.#eventsSeen > 0) this.#recordBase();
    else this.#context.libraryEvents.beforeFirst(() => this.#recordBase());
  }

  /** Length of the function table. It only grows. */
  get tableLength() {
    return this.#context.module.wasmTable.length;
  }

  /** Length of the function table at base. */
  get baseTableLength() {
    return this.#baseTableLength;
  }

  /** Where the libraries of base are; must be equal in two incarnations for a record to be portable between them. */
  fingerprint() {
    const { LDSO } = this.#context.module;
    const placed = Object.entries(LDSO.loadedLibsByHandle)
      .filter(([handle]) => Number(handle) !== 0)
      .map(([handle, dso]) => [handle, /** @type {any} */ (dso).name, readLayout(this.#context, [Number(handle)])]);
    return JSON.stringify([this.#baseTableLength, placed]);
  }

  /** The symbol table that libraries import from. */
  get #symbols() {
    return /** @type {Record<string, any>} */ (this.#context.module.LDSO.loadedLibsByName.__main__.exports);
  }

  /** @returns {BaseTables} */
  #recordBase() {
    if (this.#base !== null) return this.#base;
    const { GOT, LDSO } = this.#context.module;
    this.#base = {
      names: new Set(Object.keys(LDSO.loadedLibsByName)),
      handles: new Set(Object.keys(LDSO.loadedLibsByHandle)),
      offsets: new Map(Object.entries(GOT).map(([symbol, entry]) => [symbol, entry.value])),
      symbols: new Map(Object.entries(this.#symbols)),
    };
    return this.#base;
  }

  /** @returns {LiveLibraries} */
  capture() {
    const events = this.#context.libraryEvents.count();
    if (events === this.#eventsSeen || this.#base === null) return this.#current;
    this.#eventsSeen = events;
    const live = this.#collect(this.#base);
    this.#describe(live);
    this.#current = live;
    return live;
  }

  /** @param {BaseTables} base */
  #collect(base) {
    const { GOT, LDSO } = this.#context.module;
    /** @type {LiveLibraries} */
    const live = { ...NONE, names: new Map(), handles: new Map(), offsets: new Map(), symbols: new Map() };
    for (const [name, dso] of Object.entries(LDSO.loadedLibsByName)) {
      if (!base.names.has(name)) live.names.set(name, { dso, fields: { ...dso } });
    }
    for (const [handle, dso] of Object.entries(LDSO.loadedLibsByHandle)) {
      if (!base.handles.has(handle)) live.handles.set(handle, dso);
    }
    for (const [symbol, entry] of Object.entries(GOT)) {
      const { value } = entry;
      if (base.offsets.get(symbol) !== value) live.offsets.set(symbol, { entry, value });
    }
    for (const [symbol, value] of Object.entries(this.#symbols)) {
      if (base.symbols.get(symbol) !== value) live.symbols.set(symbol, value);
    }
    return live;
  }

  /** @param {LiveLibraries} live */
  #describe(live) {
    live.libraries = [];
    for (const [name, { dso }] of live.names) {
      const handles = [...live.handles].filter(([, other]) => other === dso).map(([handle]) => Number(handle));
      if (handles.length === 0) live.unportable = `${name} has no handle`;
      else if ("__start_em_asm" in (dso.exports ?? {})) live.unportable = `${name} has embedded JavaScript`;
      else {
        const references = Number.isFinite(dso.refcount) ? dso.refcount : -1;
        const layout = readLayout(this.#context, handles);
        if (layout === null) live.unportable = `${name} was not placed through its handle`;
        else live.libraries.push({ name, handles, ...layout, global: Boolean(dso.global), references });
      }
    }
  }

  /**
   * Drops what is newer than `live`; the next import of such a library instantiates it again.
   * @param {LiveLibraries} live
   */
  restore(live) {
    // Events that no capture has seen may have changed the tables.
    this.capture();
    if (live === this.#current || this.#base === null) return;
    const base = this.#base;
    const { GOT, LDSO } = this.#context.module;
    keepKeys(LDSO.loadedLibsByName, (name) => base.names.has(name) || live.names.has(name));
    for (const [name, { dso, fields }] of live.names) LDSO.loadedLibsByName[name] = Object.assign(dso, fields);
    keepKeys(LDSO.loadedLibsByHandle, (handle) => base.handles.has(handle) || live.handles.has(handle));
    for (const [handle, dso] of live.handles) LDSO.loadedLibsByHandle[handle] = dso;
    keepKeys(GOT, (symbol) => base.offsets.has(symbol) || live.offsets.has(symbol));
    for (const [symbol, { entry }] of live.offsets) GOT[symbol] = entry;
    for (const [symbol, value] of base.offsets) setOffset(GOT[symbol], live.offsets.get(symbol)?.value ?? value);
    for (const { entry, value } of live.offsets.values()) setOffset(entry, value);
    const symbols = this.#symbols;
    keepKeys(symbols, (symbol) => base.symbols.has(symbol) || live.symbols.has(symbol));
    for (const [symbol, value] of base.symbols) if (symbols[symbol] !== value) symbols[symbol] = value;
    for (const [symbol, value] of live.symbols) symbols[symbol] = value;
    this.#current = live;
  }

  /**
   * @param {LiveLibraries} live
   * @param {readonly (readonly [number, readonly number[]])[]} closures living closures, whose table entries are not
   *   part of this record
   * @returns {PackedLibraries}
   */
  pack(live, closures) {
    return {
      libraries: live.libraries,
      functions: this.#addedFunctions(live, new Set(closures.map(([, words]) => words[3]))),
      offsets: [...live.offsets].map(([symbol, { value }]) => [symbol, value]),
      tableLength: this.tableLength,
    };
  }

  /**
   * @param {LiveLibraries} live
   * @param {Set<number>} closures table indices
   * @returns {PackedFunction[]}
   */
  #addedFunctions(live, closures) {
    if (live === NONE) return [];
    const { wasmTable } = this.#context.module;
    /** @type {Map<any, [number, string]>} */
    const byFunction = new Map();
    live.libraries.forEach(({ name }, library) => {
      for (const [symbol, value] of Object.entries(live.names.get(name)?.dso.exports ?? {})) {
        if (typeof value === "function" && !byFunction.has(value)) byFunction.set(value, [library, symbol]);
      }
    });
    /** @type {Map<number, string>} */
    const byIndex = new Map([...live.offsets].map(([symbol, { value }]) => [value, symbol]));
    /** @type {PackedFunction[]} */
    const found = [];
    for (let index = this.#baseTableLength; index < wasmTable.length; index += 1) {
      const segment = live.libraries.find(
        ({ tableBase, tableSize }) => index >= tableBase && index < tableBase + tableSize,
      );
      if (segment !== undefined) {
        index = segment.tableBase + segment.tableSize - 1;
        continue;
      }
      if (closures.has(index)) continue;
      const source = byFunction.get(wasmTable.get(index));
      const symbol = byIndex.get(index);
      if (source !== undefined) found.push([index, ...source]);
      else if (symbol !== undefined && typeof this.#symbols[symbol] === "function") found.push([index, -1, symbol]);
      // Anything else was a closure that is gone, or belongs to a state that was left: nothing in the heap names it.
    }
    return found;
  }

  /**
   * Instantiates another incarnation's libraries at the same addresses. The heap is as long as theirs and is overwritten
   * afterwards; the files are in place.
   * @param {PackedLibraries} packed
   * @param {(path: string) => Uint8Array} read
   * @returns {LiveLibraries}
   */
  adopt(packed, read) {
    const { GOT, LDSO } = this.#context.module;
    if (packed.libraries.length > 0 || packed.offsets.length > 0) {
      const base = this.#recordBase();
      /** @type {any[]} */
      const exports = [];
      for (const library of packed.libraries) {
        const dso = this.#loader.load(library, read(library.name), this.#symbols);
        LDSO.loadedLibsByName[library.name] = dso;
        for (const handle of library.handles) LDSO.loadedLibsByHandle[handle] = dso;
        exports.push(dso.exports);
      }
      for (const [index, library, symbol] of packed.functions) {
        this.#loader.place(index, library < 0 ? this.#symbols[symbol] : exports[library][symbol]);
      }
      for (const [symbol, value] of packed.offsets) {
        GOT[symbol] ??= new WebAssembly.Global({ value: "i32", mutable: true }, -1);
        setOffset(GOT[symbol], value);
      }
      // Where the libraries are is in their record; the heap that says so is not in place yet.
      this.#current = { ...this.#collect(base), libraries: [...packed.libraries] };
      this.#eventsSeen = this.#context.libraryEvents.count();
    }
    this.#loader.growTable(packed.tableLength);
    return this.#current;
  }
}

/**
 * @param {Record<string, any>} object
 * @param {(key: string) => boolean} keep
 */
function keepKeys(object, keep) {
  for (const key of Object.keys(object)) if (!keep(key)) delete object[key];
}

/**
 * @param {WebAssembly.Global} entry
 * @param {number} value
 */
function setOffset(entry, value) {
  if (entry.value !== value) entry.value = value;
}
