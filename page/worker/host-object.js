/**
 * The one object that Python can call (machine 4.3). Results are strings, numbers or undefined; anything odd is ignored.
 *
 * @module
 */

import { CONTROL, PACKAGE, SIGINT, WHEEL_LIMIT } from "./layout.js";

/** A top-level module name; nothing else is asked for. */
const MODULE_NAME = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/;

/** Longest single wait in milliseconds; callers loop. */
const WAIT_LIMIT = 0x7fffffff;

/**
 * @typedef {object} HostParts
 * @property {Int32Array} control
 * @property {Int32Array} packageControl
 * @property {Uint8Array} packageBytes
 * @property {(message: {type: "wheel", name: string, request: number}) => void} post
 */

/**
 * @typedef {object} Host
 * @property {any} object what Python receives
 * @property {(engine: {FS: any, checkInterrupt: () => void}) => void} attach gives it the engine; before that it waits
 *   without checking for interrupts and knows no wheels
 */

/**
 * @param {HostParts} parts
 * @returns {Host}
 */
export function createHost({ control, packageControl, packageBytes, post }) {
  /** @type {{FS: any, checkInterrupt: () => void} | undefined} */
  let engine;
  let requests = 0;

  const checkInterrupt = () => {
    if (Atomics.load(control, CONTROL.signal) !== SIGINT) return;
    try {
      engine?.checkInterrupt();
    } catch (raised) {
      // Without a stack the engine adds no frames of this worker's scripts to the Python traceback.
      if (raised instanceof Error) Object.defineProperty(raised, "stack", { value: undefined });
      throw raised;
    }
  };

  /** @param {unknown} ms */
  const sleep = (ms) => {
    if (typeof ms !== "number" || !Number.isFinite(ms)) return;
    const seen = Atomics.load(control, CONTROL.wake);
    if (Atomics.load(control, CONTROL.signal) !== SIGINT && ms > 0) {
      Atomics.wait(control, CONTROL.wake, seen, Math.min(ms, WAIT_LIMIT));
    }
    if (Atomics.load(control, CONTROL.stop) === -1) Atomics.wait(control, CONTROL.stop, -1);
    checkInterrupt();
  };

  /**
   * Signals again if an interrupt was asked for since the command was sent: Python may have taken the signal while it
   * still ignored signals.
   */
  const remind = () => {
    if (Atomics.load(control, CONTROL.interrupted) === 1) Atomics.store(control, CONTROL.signal, SIGINT);
  };

  /**
   * Waits for the page's next word about a request. An interrupt ends the wait by raising in Python.
   * @param {number} request
   * @returns {Uint8Array} a copy of the piece; empty when there is no wheel
   */
  const nextPiece = (request) => {
    while (Atomics.load(packageControl, PACKAGE.turn) !== request) {
      Atomics.wait(packageControl, PACKAGE.turn, -request, 1000);
      checkInterrupt();
    }
    return packageBytes.slice(0, packageControl[PACKAGE.length]);
  };

  /** @param {number} request */
  const ask = (request) => {
    Atomics.store(packageControl, PACKAGE.turn, -request);
    Atomics.notify(packageControl, PACKAGE.turn);
  };

  /** @param {unknown} name */
  const wheel = (name) => {
    if (engine === undefined || typeof name !== "string" || !MODULE_NAME.test(name)) return undefined;
    requests += 1;
    const request = requests;
    ask(request);
    post({ type: "wheel", name, request });
    const first = nextPiece(request);
    const total = packageControl[PACKAGE.total];
    if (first.length === 0 || total > WHEEL_LIMIT) return undefined;
    const bytes = new Uint8Array(total);
    let filled = 0;
    for (let piece = first; ; piece = nextPiece(request)) {
      if (piece.length === 0 || filled + piece.length > total) return undefined;
      bytes.set(piece, filled);
      filled += piece.length;
      if (filled === total) break;
      ask(request);
    }
    const path = `/tmp/.wheel-${request}`;
    engine.FS.writeFile(path, bytes);
    return path;
  };

  const refuse = () => {
    throw new TypeError("code from strings is not available");
  };

  const object = Object.create(null);
  for (const [name, call] of Object.entries({ sleep, remind, wheel, eval: refuse })) {
    object[name] = Object.freeze(Object.setPrototypeOf(call, null));
  }
  return {
    object: Object.freeze(object),
    attach: (attached) => {
      engine = attached;
    },
  };
}
