/**
 * Starts the engine (machine 4.2): replaced globals, interposed imports, boot image instead of a plain start.
 *
 * @module
 */

import createEngineModule from "../engine/pyodide.asm.mjs";
import { loadPyodide } from "../engine/pyodide.mjs";
import { checkEngine } from "./boot-check.js";
import { BootFailure } from "./failure.js";
import { limitFiles } from "./files.js";
import { instantiateEngine } from "./interpose.js";
import { installStreams } from "./output.js";
import { ManagedRegistry, managedRegistries } from "./registry.js";

/** ABI of the engine releases that are supported; the literal lock file must name it. */
const ABI_VERSION = "2026_0";

/**
 * What the page sends to a new worker; the only message on the worker object (machine 3.2).
 * @typedef {object} BootMessage
 * @property {"boot" | "make"} mode
 * @property {number} incarnation
 * @property {MessagePort} port
 * @property {WebAssembly.Module} engine
 * @property {WebAssembly.Module} kernel
 * @property {string} indexUrl absolute address of the engine's directory, with a slash at the end
 * @property {SharedArrayBuffer} stdlib
 * @property {WebAssembly.Memory} store
 * @property {Int32Array} storeCounter
 * @property {Uint32Array} free slots of the page store that the base may use
 * @property {Int32Array} control
 * @property {Uint8Array} output
 * @property {Int32Array} packageControl
 * @property {Uint8Array} packageBytes
 * @property {{table: Uint32Array, header: Uint8Array, tableLength: number, fingerprint: number} | null} image
 * @property {string[]} prelude parts of the prelude in order; empty unless the image is made
 * @property {Record<string, string>} environment
 * @property {string[]} preload
 * @property {{heapBytes: number, storeBytes: number, fileBytes: number}} limits
 */

/**
 * @typedef {object} EngineStart
 * @property {BootMessage} boot
 * @property {import("./context.js").MachineClock} clock
 * @property {import("./host-object.js").Host} host
 * @property {Record<string, any>} standIns
 * @property {(context: import("./context.js").EngineContext) => (image: import("./context.js").ImageTable) => unknown}
 *   onEngine called when the engine is initialised and holds no state yet; the result loads the image
 */

/**
 * Replaces the globals that the engine must not find. The scrub (machine 16.3) removes the rest later.
 * @param {Record<string, any>} standIns
 * @param {SharedArrayBuffer} stdlib
 */
function replaceGlobals(standIns, stdlib) {
  const scope = /** @type {any} */ (globalThis);
  /** @param {string} name @param {any} value */
  const define = (name, value) =>
    Object.defineProperty(scope, name, { value, writable: true, configurable: true, enumerable: false });
  define("FinalizationRegistry", ManagedRegistry);
  for (const name of ["performance", "crypto", "console"]) define(name, standIns[name]);
  const wasm = /** @type {any} */ (WebAssembly);
  for (const name of ["Suspending", "promising", "Suspender", "SuspendError"]) delete wasm[name];
  delete scope.MessageChannel;
  define("fetch", async (/** @type {unknown} */ resource) => ({
    ok: true,
    arrayBuffer: async () => (String(resource).endsWith("/python_stdlib.zip") ? stdlib : new ArrayBuffer(0)),
  }));
}

/**
 * @param {EngineStart} start
 * @returns {Promise<{context: import("./context.js").EngineContext, api: Record<string, any>}>} `api` is the engine's
 *   public API object
 */
export async function startEngine({ boot, clock, host, standIns, onEngine }) {
  replaceGlobals(standIns, boot.stdlib);
  /** @type {import("./context.js").EngineContext | undefined} */
  let context;

  /** @param {any} settings */
  const createModule = async (settings) => {
    /** @type {import("./interpose.js").Interposition | undefined} */
    let interposition;
    /** @type {(reason: unknown) => void} */
    let refuse = () => {};
    const refused = new Promise((_, reject) => {
      refuse = reject;
    });
    settings.instantiateWasm = (/** @type {any} */ imports, /** @type {any} */ done) => {
      try {
        interposition = instantiateEngine(boot.engine, imports, boot.limits.heapBytes);
        done(interposition.instance, boot.engine);
      } catch (error) {
        refuse(error);
      }
      return {};
    };
    const module = await Promise.race([createEngineModule(settings), refused]);
    if (interposition === undefined) throw new Error("the engine did not instantiate");
    context = makeContext(module, settings.API, interposition);
    checkEngine(context);
    limitFiles(module, boot.limits.fileBytes);
    const loadImage = onEngine(context);
    if (boot.image !== null) {
      const { readZone } = interposition;
      installImage(module, settings.API, boot.image, (table) => {
        loadImage(table);
        readZone();
      });
    }
    return module;
  };

  /** @returns {import("./context.js").EngineContext} */
  const makeContext = (
    /** @type {any} */ module,
    /** @type {any} */ api,
    /** @type {import("./interpose.js").Interposition} */ interposition,
  ) => ({
    incarnation: boot.incarnation,
    module,
    api,
    exports: interposition.instance.exports,
    memory: /** @type {WebAssembly.Memory} */ (interposition.instance.exports.memory),
    store: boot.store,
    storeCounter: boot.storeCounter,
    storeLimitBytes: boot.limits.storeBytes,
    heapLimitBytes: boot.limits.heapBytes,
    kernel: boot.kernel,
    registries: managedRegistries,
    dedupe: interposition.dedupe,
    libraryEvents: interposition.libraryEvents,
    closures: interposition.closures,
    prepareClosure: interposition.prepareClosure,
    clock,
    growHeap: (bytes) => interposition.growHeap((size) => module._emscripten_resize_heap(size), bytes),
    hostObject: host.object,
    control: boot.control,
    deviceNames: ["/dev/stdin", "/dev/stdout", "/dev/stderr"],
  });

  const api = await loadPyodide(
    /** @type {any} */ ({
      createPyodideModule: createModule,
      jsglobals: host.object,
      indexURL: boot.indexUrl,
      lockFileContents: {
        info: { abi_version: ABI_VERSION, arch: "wasm32", platform: "emscripten", python: "", version: "" },
        packages: {},
      },
      packageBaseUrl: "https://packages.invalid/",
      env: { HOME: "/home/user", PYTHONINSPECT: "", ...boot.environment },
      stdin: () => undefined,
      stdout: () => {},
      stderr: () => {},
      ...(boot.image === null ? { _makeSnapshot: true } : { _loadSnapshot: boot.image.header }),
    }),
  );
  if (context === undefined) throw new Error("the engine did not start");
  installStreams(context.module.FS, boot.control, boot.output);
  return { context, api: /** @type {any} */ (api) };
}

/**
 * Lets the engine read the snapshot's header as usual and puts the heap in place with the page kernel.
 *
 * The function table must have the length that the image was made with before anything is called (hazard H15).
 * @param {any} module
 * @param {any} api
 * @param {NonNullable<BootMessage["image"]>} image
 * @param {(image: import("./context.js").ImageTable) => unknown} loadImage
 */
function installImage(module, api, image, loadImage) {
  const restore = api.restoreSnapshot;
  if (typeof restore !== "function") {
    throw new BootFailure("MACHINE_ENGINE_INCOMPATIBLE", "the engine restores no snapshots", "API.restoreSnapshot");
  }
  api.restoreSnapshot = (/** @type {Uint8Array} */ header) => {
    const state = restore(header);
    if (module.wasmTable?.length !== image.tableLength) {
      throw new BootFailure(
        "MACHINE_ENGINE_INCOMPATIBLE",
        `the function table has ${module.wasmTable?.length} entries, the image needs ${image.tableLength}`,
        "wasmTable.length",
      );
    }
    loadImage({ table: image.table, tableLength: image.tableLength });
    return state;
  };
}
