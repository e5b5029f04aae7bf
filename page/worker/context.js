/**
 * What the engine's host side offers to the checkpoint modules.
 *
 * One `EngineContext` exists per worker. It is built after the engine factory resolved and before the boot image is in
 * the heap: memories, tables and host structures exist, no Python call is possible yet. This module holds types only.
 *
 * @module
 */

/**
 * @typedef {import("./registry.js").ManagedRegistry} ManagedRegistry
 */

/**
 * The engine's module object. Its members are untyped here; the boot check (machine 4.4) proves the ones that are used.
 * @typedef {Record<string, any>} EngineModule
 */

/**
 * Foreign-function closures that are alive, by closure pointer. The value is the engine's preparation call without its
 * first argument: `[cif, function, userData, codeLocation]`.
 * @typedef {Map<number, readonly number[]>} LiveClosures
 */

/**
 * @typedef {object} LibraryEvents
 * @property {() => number} count how many `dlopen` and `dlsym` calls reached the host since the engine started
 * @property {(record: () => void) => void} beforeFirst registers the one function that runs just before the first of
 *   them, so that the offset table is recorded with the values of base (hazard H9)
 */

/**
 * @typedef {object} MachineClock
 * @property {() => number} now milliseconds, monotonic; what guest code sees: the host's clock plus `offset`
 * @property {() => number} offset milliseconds that are added to the host's clock
 * @property {(ms: number) => void} advanceTo makes `now()` at least `ms` by raising the offset; never lowers it
 */

/**
 * @typedef {object} EngineContext
 * @property {number} incarnation number of the worker, at least 1; no other worker of the page has it
 * @property {EngineModule} module
 * @property {Record<string, any>} api the engine's API object (`restoreSnapshot`, `config`, ...)
 * @property {Record<string, any>} exports wasm exports of the engine's main module, untouched by the engine's wrappers
 * @property {WebAssembly.Memory} memory the heap
 * @property {WebAssembly.Memory} store the page store, shared (machine 8)
 * @property {Int32Array} storeCounter one shared cell: the next never-used slot of the page store
 * @property {number} storeLimitBytes upper bound of the page store's length, a multiple of 65536
 * @property {number} heapLimitBytes upper bound of the heap's length
 * @property {WebAssembly.Module} kernel the page kernel; the checkpoint module instantiates it with its scratch memory
 * @property {readonly ManagedRegistry[]} registries every finalization registry that the engine made, in order
 * @property {() => Map<any, number>} dedupe the reference de-duplication map; throws before the engine has made it
 * @property {LibraryEvents} libraryEvents
 * @property {LiveClosures} closures kept up to date by the host; the map object never changes
 * @property {(closure: number, ...rest: number[]) => number} prepareClosure the engine's own preparation function; a
 *   call through it is listed in `closures`
 * @property {MachineClock} clock
 * @property {(bytes: number) => void} growHeap grows the heap to exactly `bytes`, a multiple of 65536, and refreshes the
 *   engine's views; does nothing when it is as large already; throws above the limit
 * @property {any} hostObject the one host object that Python holds (machine 4.3)
 * @property {Int32Array} control control block of this incarnation (machine 3); cell 0 is the signal
 * @property {readonly string[]} deviceNames names of the devices that the output module made, for streams that must be
 *   opened through their driver
 */

/**
 * The part of the boot image that the worker receives (machine 5.3).
 * @typedef {object} ImageTable
 * @property {Uint32Array} table one slot per heap page of the image; the slots are already in the page store
 * @property {number} tableLength function table length that the image was made with
 */

/**
 * What `createCheckpoints(context)` of `checkpoint.js` returns.
 * @typedef {object} Checkpoints
 * @property {(image: ImageTable) => number} loadImage grows the heap to the image and makes it equal to the image's
 *   table; returns the pages written. Called while the engine restores its snapshot
 * @property {(free: Uint32Array) => {table: Uint32Array, heapBytes: number}} takeBase takes the base checkpoint (sequence number
 *   0); it uses the free slots before never-used ones
 * @property {(command: any) => Record<string, any>} handle executes `save`, `restore`, `adopt` or `forget` at a
 *   quiescent point and returns the reply's members without `type`, `id` and `durationMs`
 */

export {};
