/**
 * Answers a worker's request for a wheel through its package block (machine 17.2).
 *
 * @module
 */

import { PACKAGE, PIECE_BYTES, WHEEL_LIMIT } from "../worker/layout.js";

/**
 * Wheels by top-level name. `url` is relative to the page, `bytes` the exact size.
 * @typedef {Record<string, {url: string, bytes: number}>} WheelIndex
 */

/**
 * @typedef {object} PackageBlock
 * @property {Int32Array} control
 * @property {Uint8Array} bytes `PIECE_BYTES` bytes
 */

/**
 * Answers one request. Resolves when the wheel was delivered, the worker gave the request up, or the incarnation ended.
 * @param {{name: string, request: number}} asked
 * @param {WheelIndex} index
 * @param {PackageBlock} block
 * @param {AbortSignal} ended aborted when the incarnation ends
 */
export async function answerWheel({ name, request }, index, block, ended) {
  const bytes = await fetchWheel(name, index, ended).catch(() => undefined);
  if (bytes === undefined) {
    answer(block, request, new Uint8Array(0), 0);
    return;
  }
  for (let at = 0; at < bytes.length; at += PIECE_BYTES) {
    const piece = bytes.subarray(at, at + PIECE_BYTES);
    if (!answer(block, request, piece, bytes.length)) return;
    if (at + PIECE_BYTES < bytes.length && !(await wanted(block.control, request, ended))) return;
  }
}

/**
 * @param {string} name
 * @param {WheelIndex} index
 * @param {AbortSignal} ended
 * @returns {Promise<Uint8Array | undefined>}
 */
async function fetchWheel(name, index, ended) {
  const wheel = Object.hasOwn(index, name) ? index[name] : undefined;
  if (wheel === undefined || wheel.bytes > WHEEL_LIMIT) return undefined;
  const response = await fetch(wheel.url, { signal: ended });
  if (!response.ok) return undefined;
  const bytes = new Uint8Array(await response.arrayBuffer());
  return bytes.length === wheel.bytes && bytes.length > 0 ? bytes : undefined;
}

/**
 * Hands a piece over. False when the worker does not wait for this request any more.
 * @param {PackageBlock} block
 * @param {number} request
 * @param {Uint8Array} piece
 * @param {number} total
 */
function answer({ control, bytes }, request, piece, total) {
  if (Atomics.load(control, PACKAGE.turn) !== -request) return false;
  bytes.set(piece);
  control[PACKAGE.length] = piece.length;
  control[PACKAGE.total] = total;
  if (Atomics.compareExchange(control, PACKAGE.turn, -request, request) !== -request) return false;
  Atomics.notify(control, PACKAGE.turn);
  return true;
}

/**
 * Waits until the worker has taken the last piece of a request.
 * @param {Int32Array} control
 * @param {number} request
 * @param {AbortSignal} ended
 * @returns {Promise<boolean>} whether it wants the next one
 */
async function wanted(control, request, ended) {
  while (!ended.aborted && Atomics.load(control, PACKAGE.turn) === request) {
    const wait = Atomics.waitAsync(control, PACKAGE.turn, request, 1000);
    if (wait.async) await wait.value;
  }
  return !ended.aborted && Atomics.load(control, PACKAGE.turn) === -request;
}
