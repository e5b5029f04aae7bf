/**
 * Replacement of engine imports before instantiation (machine 4.2). `INTERPOSITION_VERSION` keys the boot image: it
 * changes whenever what this module does changes the function table or the imports.
 *
 * @module
 */

import { BootFailure } from "./failure.js";

export const INTERPOSITION_VERSION = 1;

const PAGE = 65536;

/** The helper module that the engine's loader embeds: makes and recognises the error marker. */
const ERROR_MARKER_MODULE = Uint8Array.of(
  0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00, 0x01, 0x0c, 0x03, 0x5f, 0x00, 0x60, 0x00, 0x01, 0x6f, 0x60, 0x01, 0x6f,
  0x01, 0x7f, 0x03, 0x03, 0x02, 0x01, 0x02, 0x07, 0x28, 0x02, 0x13, 0x4a, 0x73, 0x76, 0x5f, 0x47, 0x65, 0x74, 0x45, 0x72,
  0x72, 0x6f, 0x72, 0x5f, 0x69, 0x6d, 0x70, 0x6f, 0x72, 0x74, 0x00, 0x00, 0x0e, 0x4a, 0x73, 0x76, 0x45, 0x72, 0x72, 0x6f,
  0x72, 0x5f, 0x43, 0x68, 0x65, 0x63, 0x6b, 0x00, 0x01, 0x0a, 0x13, 0x02, 0x07, 0x00, 0xfb, 0x01, 0x00, 0xfb, 0x1b, 0x0b,
  0x09, 0x00, 0x20, 0x00, 0xfb, 0x1a, 0xfb, 0x14, 0x00, 0x0b,
);

/** `(module (func (export "inert")))`: stands for every graphics entry point in the function table. */
const INERT_MODULE = Uint8Array.of(
  0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00, 0x01, 0x04, 0x01, 0x60, 0x00, 0x00, 0x03, 0x02, 0x01, 0x00, 0x07, 0x09,
  0x01, 0x05, 0x69, 0x6e, 0x65, 0x72, 0x74, 0x00, 0x00, 0x0a, 0x04, 0x01, 0x02, 0x00, 0x0b,
);

/** @param {Uint8Array<ArrayBuffer>} bytes */
function instantiate(bytes) {
  return /** @type {Record<string, any>} */ (new WebAssembly.Instance(new WebAssembly.Module(bytes)).exports);
}

/**
 * @typedef {object} Interposition
 * @property {WebAssembly.Instance} instance
 * @property {() => Map<any, number>} dedupe
 * @property {import("./context.js").LibraryEvents} libraryEvents
 * @property {import("./context.js").LiveClosures} closures
 * @property {(closure: number, ...rest: number[]) => number} prepareClosure
 * @property {(resize: (bytes: number) => unknown, bytes: number) => void} growHeap grows to exactly `bytes` through the
 *   engine's own function, so that its views follow; throws when the heap did not reach it
 * @property {() => void} readZone makes the C library take this browser's time zone: an image says that it has one
 */

/**
 * Instantiates the engine with the replaced imports.
 *
 * @param {WebAssembly.Module} module
 * @param {any} imports the engine's import object; `imports.env` is also the symbol table that its dynamic linker uses,
 *   so replacements are made in place and hold for libraries too
 * @param {number} heapLimitBytes
 * @returns {Interposition}
 */
export function instantiateEngine(module, imports, heapLimitBytes) {
  const env = imports.env;
  /** @param {string} name @param {(original: (...args: any[]) => any) => Function} make */
  const replace = (name, make) => {
    const original = env[name];
    if (typeof original !== "function") {
      throw new BootFailure("MACHINE_ENGINE_INCOMPATIBLE", `the engine does not import ${name}`, `env.${name}`);
    }
    env[name] = Object.assign(make(original), { sig: original.sig });
  };

  const marker = instantiate(ERROR_MARKER_MODULE);
  env.Jsv_GetError_import = marker.Jsv_GetError_import;
  env.JsvError_Check = marker.JsvError_Check;

  /** @type {Map<any, number> | undefined} */
  let dedupe;
  replace("__hiwire_deduplicate_new", (original) => () => (dedupe = original()));

  let events = 0;
  /** @type {(() => void) | undefined} */
  let beforeFirst;
  const libraryEvent = () => {
    if (events === 0) beforeFirst?.();
    events += 1;
  };
  for (const name of ["_dlopen_js", "_dlsym_js"]) {
    replace(name, (original) => (/** @type {any[]} */ ...args) => {
      libraryEvent();
      return original(...args);
    });
  }

  /** @type {import("./context.js").LiveClosures} */
  const closures = new Map();
  replace("ffi_prep_closure_loc_js", (original) => (/** @type {number} */ closure, /** @type {number[]} */ ...rest) => {
    const status = original(closure, ...rest);
    if (status === 0) closures.set(closure, rest);
    return status;
  });
  const prepareClosure = env.ffi_prep_closure_loc_js;
  replace("ffi_closure_free_js", (original) => (/** @type {number} */ closure) => {
    closures.delete(closure);
    return original(closure);
  });

  replace("_setitimer_js", () => () => -1);

  const heap = { wanted: 0 };
  replace("emscripten_resize_heap", (original) => (/** @type {number} */ size) => {
    heap.wanted = size >>> 0;
    return heap.wanted > heapLimitBytes ? 0 : original(size);
  });

  inertGraphics(module, env);

  const instance = new WebAssembly.Instance(module, imports);
  const memory = /** @type {WebAssembly.Memory} */ (instance.exports.memory);
  const exact = limitGrowth(memory, heap, heapLimitBytes);

  return {
    instance,
    closures,
    prepareClosure,
    dedupe: () => {
      if (dedupe === undefined) throw new Error("the engine has made no de-duplication map");
      return dedupe;
    },
    libraryEvents: {
      count: () => events,
      beforeFirst: (record) => {
        beforeFirst = record;
      },
    },
    readZone: () => readZone(env, instance.exports, memory),
    growHeap: (resize, bytes) => {
      if (bytes > heapLimitBytes) throw new RangeError("the heap limit does not allow this size");
      exact(bytes, () => resize(bytes));
      if (memory.buffer.byteLength < bytes) throw new RangeError("the heap cannot grow");
    },
  };
}

/** @param {any} env @param {any} exports @param {WebAssembly.Memory} memory */
function readZone(env, exports, memory) {
  const { __timezone: offset, __daylight: daylight, __tzname: names } = exports;
  const [standard, summer] = new Uint32Array(memory.buffer, names.value, 2);
  env._tzset_js(offset.value, daylight.value, standard, summer);
}

/**
 * One function for all graphics entry points that the engine only takes the address of.
 * @param {WebAssembly.Module} module
 * @param {any} env
 */
function inertGraphics(module, env) {
  const called = new Set();
  const taken = [];
  for (const entry of WebAssembly.Module.imports(module)) {
    if (entry.module === "env") called.add(entry.name);
    else if (entry.module === "GOT.func" && entry.name.startsWith("emscripten_gl")) taken.push(entry.name);
  }
  const { inert } = instantiate(INERT_MODULE);
  for (const name of taken) {
    if (called.has(name)) continue;
    if (typeof env[name] !== "function") {
      throw new BootFailure("MACHINE_ENGINE_INCOMPATIBLE", `the engine does not define ${name}`, `env.${name}`);
    }
    env[name] = inert;
  }
}

/**
 * The engine grows by more than is asked for. Growth is cut to the heap limit, or to an exact size on request.
 * @param {WebAssembly.Memory} memory
 * @param {{wanted: number}} heap size in bytes that the engine needs at least
 * @param {number} heapLimitBytes
 * @returns {(bytes: number, grow: () => unknown) => void}
 */
function limitGrowth(memory, heap, heapLimitBytes) {
  const { grow } = WebAssembly.Memory.prototype;
  let limit = heapLimitBytes;
  Object.defineProperty(memory, "grow", {
    value: (/** @type {number} */ pages) => {
      const present = memory.buffer.byteLength;
      const size = Math.min(present + pages * PAGE, Math.floor(limit / PAGE) * PAGE);
      if (size < heap.wanted || size <= present) throw new RangeError("the heap limit is reached");
      return grow.call(memory, (size - present) / PAGE);
    },
  });
  return (bytes, run) => {
    if (bytes <= memory.buffer.byteLength) return;
    limit = bytes;
    heap.wanted = bytes;
    try {
      run();
    } finally {
      limit = heapLimitBytes;
      heap.wanted = 0;
    }
  };
}
