/**
 * Scrub and lockdown of the worker's global object (machine 16.3, 16.4).
 *
 * @module
 */

import { BootFailure } from "./failure.js";

/** The ECMAScript globals that remain, and what the browser may leave. */
const ALLOWED = new Set([
  ...["Object", "Function", "Array", "Number", "Boolean", "String", "Symbol", "BigInt", "Date", "Promise", "RegExp"],
  ...["Error", "AggregateError", "EvalError", "RangeError", "ReferenceError", "SyntaxError", "TypeError", "URIError"],
  ...["SuppressedError", "DisposableStack", "AsyncDisposableStack", "Iterator"],
  ...["ArrayBuffer", "SharedArrayBuffer", "DataView", "Atomics", "JSON", "Math", "Intl", "Reflect", "Proxy", "Temporal"],
  ...["Int8Array", "Uint8Array", "Uint8ClampedArray", "Int16Array", "Uint16Array", "Int32Array", "Uint32Array"],
  ...["Float16Array", "Float32Array", "Float64Array", "BigInt64Array", "BigUint64Array"],
  ...["Map", "Set", "WeakMap", "WeakSet", "WeakRef"],
  ...["globalThis", "Infinity", "NaN", "undefined", "parseFloat", "parseInt", "isNaN", "isFinite"],
  ...["decodeURI", "decodeURIComponent", "encodeURI", "encodeURIComponent"],
  ...["WebAssembly", "TextDecoder", "TextEncoder", "TEMPORARY", "PERSISTENT", "constructor"],
]);

/** Names whose presence after the scrub means that the worker is open. */
const FORBIDDEN = [
  ...["fetch", "WebSocket", "XMLHttpRequest", "EventSource", "WebTransport", "Worker", "importScripts", "indexedDB"],
  ...["caches", "postMessage", "addEventListener", "location", "self", "BroadcastChannel", "MessageChannel", "close"],
  "eval",
];

/** Every object whose properties are the realm's names: the global and its prototypes, without `Object.prototype`. */
function scopes() {
  const found = [];
  for (
    let scope = /** @type {object | null} */ (globalThis);
    scope !== null && scope !== Object.prototype;
    scope = Object.getPrototypeOf(scope)
  ) {
    found.push(scope);
  }
  return found;
}

/** @param {string} item @param {string} message */
function open(item, message) {
  return new BootFailure("MACHINE_ISOLATION_FAILED", message, item);
}

/**
 * Proves that the response's policy holds (machine 16.1): the origin is opaque and code from strings is refused. Must
 * come before the scrub, which removes what it looks at.
 */
export function checkPolicy() {
  if (globalThis.origin !== "null") throw open("origin", "the worker has an origin");
  for (const evaluate of [() => (0, eval)("1"), () => new Function("return 1")]) {
    let evaluated = true;
    try {
      evaluate();
    } catch {
      evaluated = false;
    }
    if (evaluated) throw open("script-src", "the worker may run code from strings");
  }
}

/**
 * Deletes every name that is not on the list and defines the stand-ins for good.
 * @param {Record<string, any>} standIns
 */
export function scrub(standIns) {
  for (const scope of scopes()) {
    for (const name of Reflect.ownKeys(scope)) {
      if (typeof name === "string" ? ALLOWED.has(name) : name === Symbol.toStringTag) continue;
      const described = String(name);
      if (!Reflect.deleteProperty(scope, name)) throw open(described, `the global ${described} cannot be removed`);
    }
  }
  for (const name of FORBIDDEN) {
    if (name in globalThis) throw open(name, `the global ${name} is still present`);
  }
  for (const [name, value] of Object.entries(standIns)) {
    if (typeof value === "function") Object.freeze(Object.setPrototypeOf(value, null));
    Object.defineProperty(globalThis, name, { value, writable: false, enumerable: false, configurable: false });
  }
}

/** Constructors and prototypes that no global names. */
function hiddenIntrinsics() {
  const iterators = [
    [][Symbol.iterator](),
    new Map()[Symbol.iterator](),
    new Set()[Symbol.iterator](),
    ""[Symbol.iterator](),
    "".matchAll(/(?:)/g),
  ];
  const functions = [async () => {}, function* () {}, async function* () {}];
  const found = [Object.getPrototypeOf(Int8Array)];
  for (const iterator of iterators) found.push(Object.getPrototypeOf(iterator));
  for (const made of functions) {
    found.push(Object.getPrototypeOf(made), Object.getPrototypeOf(made).constructor);
    if ("prototype" in made) found.push(Object.getPrototypeOf(/** @type {any} */ (made).prototype));
  }
  return found;
}

/** Prototypes whose writable members must stay assignable on derived objects. */
function overridablePrototypes() {
  const scope = /** @type {any} */ (globalThis);
  const names = ["Object", "Function", "Array", "Error", "AggregateError", "EvalError", "RangeError", "ReferenceError"];
  names.push("SyntaxError", "TypeError", "URIError", "SuppressedError");
  const found = [];
  for (const name of names) if (scope[name]) found.push(scope[name].prototype);
  for (const name of ["CompileError", "LinkError", "RuntimeError", "Exception"]) {
    const error = /** @type {any} */ (WebAssembly)[name];
    if (error) found.push(error.prototype);
  }
  return found;
}

/**
 * Turns writable data members into accessors that define an own member on assignment to a derived object, because a
 * frozen data member would make such an assignment throw.
 * @param {object} prototype
 */
function allowShadowing(prototype) {
  for (const key of Reflect.ownKeys(prototype)) {
    const descriptor = Reflect.getOwnPropertyDescriptor(prototype, key);
    if (!descriptor?.configurable || !("value" in descriptor) || !descriptor.writable) continue;
    const { value } = descriptor;
    const shadow = {
      get() {
        return value;
      },
      set(/** @type {any} */ assigned) {
        const target = /** @type {any} */ (this);
        if (target === prototype) throw new TypeError(`${String(key)} cannot be changed`);
        Reflect.defineProperty(target, key, { value: assigned, writable: true, enumerable: true, configurable: true });
      },
    };
    Reflect.defineProperty(prototype, key, { get: shadow.get, set: shadow.set, enumerable: descriptor.enumerable, configurable: false });
  }
}

/**
 * Freezes an object and everything that is reachable from it through own properties and prototypes.
 * @param {object} root
 * @param {Set<object>} done
 */
function freezeReachable(root, done) {
  const pending = [root];
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    if (done.has(next)) continue;
    done.add(next);
    if (!ArrayBuffer.isView(next)) Object.freeze(next);
    const reach = (/** @type {unknown} */ value) => {
      if ((typeof value === "object" && value !== null) || typeof value === "function") pending.push(value);
    };
    reach(Reflect.getPrototypeOf(next));
    for (const key of Reflect.ownKeys(next)) {
      const descriptor = Reflect.getOwnPropertyDescriptor(next, key);
      if (descriptor === undefined) continue;
      reach(descriptor.value);
      reach(descriptor.get);
      reach(descriptor.set);
    }
  }
}

/** `Error` keeps its stack limit assignable; engines and libraries set it. Everything else of it is fixed. */
function fixError() {
  for (const key of Reflect.ownKeys(Error)) {
    if (key === "stackTraceLimit") continue;
    const descriptor = Reflect.getOwnPropertyDescriptor(Error, key);
    if (descriptor === undefined) continue;
    if ("value" in descriptor) descriptor.writable = false;
    descriptor.configurable = false;
    Reflect.defineProperty(Error, key, descriptor);
  }
  Object.defineProperty(Error, "stackTraceLimit", { value: 10, writable: true, enumerable: true, configurable: false });
  Object.preventExtensions(Error);
}

/** Freezes the realm (machine 16.4). Must come after the scrub: what a global still names is frozen with it. */
export function lockdown() {
  for (const prototype of overridablePrototypes()) allowShadowing(prototype);
  fixError();
  const done = new Set(/** @type {object[]} */ ([Error, globalThis]));
  for (const scope of scopes()) {
    for (const key of Reflect.ownKeys(scope)) {
      const value = Reflect.getOwnPropertyDescriptor(scope, key)?.value;
      if ((typeof value === "object" && value !== null) || typeof value === "function") freezeReachable(value, done);
    }
    if (scope !== globalThis) freezeReachable(scope, done);
  }
  freezeReachable(Error.prototype, done);
  for (const key of Reflect.ownKeys(Error)) {
    const value = Reflect.getOwnPropertyDescriptor(Error, key)?.value;
    if (typeof value === "function") freezeReachable(value, done);
  }
  for (const intrinsic of hiddenIntrinsics()) freezeReachable(intrinsic, done);
  Object.freeze(globalThis);
}
