/**
 * Proof that every engine internal that is used exists (machine 4.4). Nothing is emulated.
 *
 * @module
 */

import { BootFailure } from "./failure.js";
import { ManagedRegistry } from "./registry.js";

const EXPORTED_FUNCTIONS = [
  "_hiwire_get",
  "_hiwire_set",
  "_hiwire_delete",
  "_hiwire_slot_info",
  "hiwire_num_refs",
  "_hiwire_immortal_get",
  "_hiwire_immortal_add",
  "_pyproxy_apply",
  "pythonexc2js",
];

const EXPORTED_ADDRESSES = ["__timezone", "__daylight", "__tzname"];

const MODULE_FUNCTIONS = [
  "getFunctionAddress",
  "updateTableMap",
  "convertJsFunctionToWasm",
  "getDylinkMetadata",
  "relocateExports",
  "mergeLibSymbols",
  "PyProxy_getPtr",
  "_emscripten_resize_heap",
];

const FS_FUNCTIONS = [
  "FSNode",
  "FSStream",
  "hashAddNode",
  "hashRemoveNode",
  "lookupPath",
  "createDevice",
  "registerDevice",
  "makedev",
];

/**
 * @param {boolean} holds
 * @param {string} item
 * @returns {asserts holds}
 */
function require(holds, item) {
  if (!holds) {
    throw new BootFailure("MACHINE_ENGINE_INCOMPATIBLE", `the engine lacks ${item}, or it is not what it was`, item);
  }
}

/** @param {any} value */
const isObject = (value) => typeof value === "object" && value !== null;

/**
 * Checks what is there once the engine is initialised. Must come before anything relies on these names.
 * @param {import("./context.js").EngineContext} context
 */
export function checkEngine({ module, api, exports, memory }) {
  require(memory instanceof WebAssembly.Memory, "exports.memory");
  for (const name of EXPORTED_FUNCTIONS) require(typeof exports[name] === "function", `exports.${name}`);
  for (const name of EXPORTED_ADDRESSES) require(exports[name] instanceof WebAssembly.Global, `exports.${name}`);
  checkStackPointer(exports.__stack_pointer);
  for (const name of MODULE_FUNCTIONS) require(typeof module[name] === "function", `Module.${name}`);
  for (const name of ["FS", "MEMFS", "LDSO", "GOT", "GOTHandler", "wasmTableMirror"]) {
    require(isObject(module[name]), `Module.${name}`);
  }
  require(module.wasmTable instanceof WebAssembly.Table, "Module.wasmTable");
  require(Array.isArray(module.freeTableIndexes), "Module.freeTableIndexes");
  require(module.finalizationRegistry instanceof ManagedRegistry, "Module.finalizationRegistry");
  require(module.HEAP8 instanceof Int8Array && module.HEAP8.buffer === memory.buffer, "Module.HEAP8");
  require(module.HEAPU8 instanceof Uint8Array && module.HEAPU8.buffer === memory.buffer, "Module.HEAPU8");
  require(module.jspiSupported === false, "Module.jspiSupported");
  checkFiles(module);
  require(isObject(module.LDSO.loadedLibsByName), "LDSO.loadedLibsByName");
  require(isObject(module.LDSO.loadedLibsByHandle), "LDSO.loadedLibsByHandle");
  require(typeof api.restoreSnapshot === "function", "API.restoreSnapshot");
  require(typeof api.finalizeBootstrap === "function", "API.finalizeBootstrap");
}

/**
 * Checks what exists once Python is bootstrapped and the interrupt buffer is set.
 * @param {import("./context.js").EngineContext} context
 */
export function checkBootstrap({ module }) {
  require("error" in module, "Module.error");
  require(module.HEAP8[module._Py_EMSCRIPTEN_SIGNAL_HANDLING] === 1, "Module._Py_EMSCRIPTEN_SIGNAL_HANDLING");
}

/** @param {any} pointer */
function checkStackPointer(pointer) {
  require(pointer instanceof WebAssembly.Global, "exports.__stack_pointer");
  try {
    pointer.value = pointer.value;
  } catch {
    require(false, "exports.__stack_pointer");
  }
}

/** @param {any} module */
function checkFiles({ FS, MEMFS }) {
  require(Array.isArray(FS.streams), "FS.streams");
  require(Array.isArray(FS.nameTable), "FS.nameTable");
  require(typeof FS.nextInode === "number", "FS.nextInode");
  require(typeof FS.currentPath === "string", "FS.currentPath");
  require(isObject(FS.devices), "FS.devices");
  require(isObject(FS.root), "FS.root");
  for (const name of FS_FUNCTIONS) require(typeof FS[name] === "function", `FS.${name}`);
  require(
    typeof MEMFS.stream_ops?.write === "function" && MEMFS.stream_ops.write === MEMFS.ops_table?.file?.stream?.write,
    "MEMFS.stream_ops.write",
  );
}

/**
 * A number that two boots from one image share: the host-held Python objects in order, the occupied reference slots and
 * the count of interned strings. Never 0.
 * @param {import("./context.js").EngineContext} context
 */
export function fingerprint({ module, exports, registries }) {
  const call = /** @type {Record<string, (...args: any[]) => any>} */ (exports);
  let hash = 0x811c9dc5;
  const add = (/** @type {number} */ word) => {
    hash = Math.imul(hash ^ (word & 0xffff), 0x01000193);
    hash = Math.imul(hash ^ (word >>> 16), 0x01000193);
  };
  const held = registries.find((registry) => registry === module.finalizationRegistry)?.registrations() ?? [];
  add(held.length);
  for (const { held: shared } of held) add(shared?.ptr ?? 0);
  for (let slot = 0; ; slot += 1) {
    try {
      call._hiwire_get(slot);
    } catch {
      add(slot);
      break;
    }
  }
  add(call.hiwire_num_refs());
  let strings = 0;
  for (; ; strings += 1) {
    try {
      call._hiwire_immortal_get(strings);
    } catch {
      break;
    }
  }
  add(strings);
  return hash >>> 0 || 1;
}
