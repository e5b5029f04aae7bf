/**
 * Browser functions that trusted code keeps after the scrub has removed their names (machine 16.3).
 *
 * Imported before the engine's modules, so that nothing can have replaced what is captured here. Functions of the
 * ECMAScript intrinsics need no capture: lockdown freezes them before guest code runs.
 *
 * @module
 */

const { performance, crypto } = globalThis;

/** Milliseconds since this worker's time origin. */
export const now = performance.now.bind(performance);

/** @type {(view: ArrayBufferView) => void} */
export const fillRandom = (view) => {
  crypto.getRandomValues(/** @type {Uint8Array<ArrayBuffer>} */ (view));
};

/**
 * The promising wrapper of WebAssembly, or `undefined` where the browser has none. Kept before the engine can see that
 * stack switching exists (machine 12.6).
 * @type {((f: Function) => (...args: any[]) => Promise<any>) | undefined}
 */
export const promising = /** @type {any} */ (WebAssembly).promising;
