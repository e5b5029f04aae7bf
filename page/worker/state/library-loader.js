/**
 * Instantiates a dynamic library again at recorded addresses (machine 17.4).
 *
 * The engine's own loader allocates memory, relocates and runs constructors. Here none of that happens: the heap image
 * that is put afterwards already has the results.
 *
 * @module
 */

/** Fields of a library handle in the heap, where the engine's loader wrote where it placed the library. */
const HANDLE = { placed: 8, memoryBase: 12, memorySize: 16, tableBase: 20, tableSize: 24 };

/**
 * @typedef {object} Layout
 * @property {number} memoryBase
 * @property {number} memorySize
 * @property {number} tableBase
 * @property {number} tableSize
 */

/**
 * Where the engine placed a library, by the first of its handles that says so.
 * @param {import("../context.js").EngineContext} context
 * @param {readonly number[]} handles
 * @returns {Layout | null}
 */
export function readLayout({ memory }, handles) {
  const view = new DataView(memory.buffer);
  const handle = handles.find((candidate) => view.getUint8(candidate + HANDLE.placed) === 1);
  if (handle === undefined) return null;
  return {
    memoryBase: view.getUint32(handle + HANDLE.memoryBase, true),
    memorySize: view.getUint32(handle + HANDLE.memorySize, true),
    tableBase: view.getUint32(handle + HANDLE.tableBase, true),
    tableSize: view.getUint32(handle + HANDLE.tableSize, true),
  };
}

/** A library file that does not fit its record. */
export class LibraryMismatch extends Error {}

export class LibraryLoader {
  #module;

  /** @param {import("../context.js").EngineContext} context */
  constructor(context) {
    this.#module = context.module;
  }

  /** @param {number} length that the function table gets at least; new entries are null */
  growTable(length) {
    const { wasmTable } = this.#module;
    if (wasmTable.length < length) wasmTable.grow(length - wasmTable.length);
  }

  /**
   * @param {import("./libraries.js").PackedLibrary} library
   * @param {Uint8Array} bytes
   * @param {Record<string, any>} symbols the engine's symbol table
   * @returns {any} the registry entry
   */
  load(library, bytes, symbols) {
    const { name, memoryBase, memorySize, tableBase, tableSize, global, references } = library;
    const { getDylinkMetadata, relocateExports, mergeLibSymbols, updateTableMap, wasmTable } = this.#module;
    const metadata = getDylinkMetadata(bytes);
    if (metadata.memorySize !== memorySize || metadata.tableSize !== tableSize || metadata.neededDynlibs.length > 0) {
      throw new LibraryMismatch(`${name} is not the library that was recorded`);
    }
    if (tableSize > 0) {
      if (wasmTable.length > tableBase) throw new LibraryMismatch(`the function table is too long for ${name}`);
      this.growTable(tableBase + tableSize);
    }
    /** @type {{exports: Record<string, any>}} */
    const own = { exports: {} };
    const imports = this.#imports(metadata, { memoryBase, tableBase }, symbols, own);
    const compiled = new WebAssembly.Module(/** @type {Uint8Array<ArrayBuffer>} */ (bytes));
    const instance = new WebAssembly.Instance(compiled, imports);
    updateTableMap(tableBase, tableSize);
    own.exports = relocateExports(instance.exports, memoryBase);
    if (global) mergeLibSymbols(own.exports, name);
    return { refcount: references < 0 ? Infinity : references, name, exports: own.exports, global };
  }

  /**
   * The engine's symbol rules: bases, then its symbol table, then a late-bound stub.
   * @param {{weakImports: Set<string>}} metadata
   * @param {{memoryBase: number, tableBase: number}} bases
   * @param {Record<string, any>} symbols
   * @param {{exports: Record<string, any>}} own
   */
  #imports(metadata, bases, symbols, own) {
    const defined = (/** @type {string} */ name) => name in symbols && !symbols[name].stub;
    /** @type {Record<string, any>} */
    const stubs = {};
    const environment = new Proxy(stubs, {
      get(_, key) {
        const name = String(key);
        if (name === "__memory_base") return bases.memoryBase;
        if (name === "__table_base") return bases.tableBase;
        if (defined(name)) return symbols[name];
        /** @type {any} */
        let resolved;
        stubs[name] ??= (/** @type {any[]} */ ...args) => {
          resolved ??= defined(name) ? symbols[name] : own.exports[name];
          if (!resolved) throw new Error(`Dynamic linking error: cannot resolve symbol ${name}`);
          return resolved(...args);
        };
        return stubs[name];
      },
    });
    const offsets = new Proxy(metadata.weakImports, this.#module.GOTHandler);
    const table = /** @type {any} */ (offsets);
    return { "GOT.mem": table, "GOT.func": table, env: environment, wasi_snapshot_preview1: environment };
  }

  /**
   * Puts a function at a table index.
   * @param {number} index
   * @param {any} value a wasm function, or one of the engine's with its signature
   */
  place(index, value) {
    if (typeof value !== "function") throw new LibraryMismatch(`no function for table entry ${index}`);
    const { wasmTable, convertJsFunctionToWasm, updateTableMap } = this.#module;
    this.growTable(index + 1);
    try {
      wasmTable.set(index, value);
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
      wasmTable.set(index, convertJsFunctionToWasm(value, value.sig));
    }
    updateTableMap(index, 1);
  }
}
