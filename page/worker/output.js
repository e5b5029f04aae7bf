/**
 * Standard streams of the guest (machine 13): bytes go to the incarnation's output block, nothing is posted.
 *
 * @module
 */

import { CONTROL, COUNTER_LIMIT, outputParts } from "./layout.js";

/** Device files in the order of their descriptors. */
export const deviceNames = Object.freeze(["/dev/stdin", "/dev/stdout", "/dev/stderr"]);

/**
 * @param {Int32Array} control
 * @param {number} cell
 * @param {number} amount
 */
function count(control, cell, amount) {
  const sum = control[cell] + amount;
  control[cell] = sum > COUNTER_LIMIT ? COUNTER_LIMIT : sum;
}

/**
 * A function that appends bytes to the block: to the head while there is room, then to the ring behind it.
 * @param {Int32Array} control
 * @param {Uint8Array} block
 * @returns {(bytes: Uint8Array) => void}
 */
function createAppend(control, block) {
  const parts = outputParts(block.length);
  const head = block.subarray(0, parts.head);
  const tail = block.subarray(parts.head);
  return (bytes) => {
    const used = control[CONTROL.head];
    const fits = Math.min(parts.head - used, bytes.length);
    if (fits > 0) {
      head.set(bytes.subarray(0, fits), used);
      control[CONTROL.head] = used + fits;
    }
    if (fits === bytes.length) return;
    const rest = bytes.subarray(fits);
    const kept = rest.subarray(Math.max(0, rest.length - parts.tail));
    const at = (control[CONTROL.tail] + rest.length - kept.length) % parts.tail;
    const first = Math.min(kept.length, parts.tail - at);
    tail.set(kept.subarray(0, first), at);
    tail.set(kept.subarray(first), 0);
    control[CONTROL.tail] = (at + kept.length) % parts.tail;
    count(control, CONTROL.past, rest.length);
  };
}

/**
 * Replaces the engine's standard devices and opens the descriptors 0, 1 and 2 on them. Input is at its end.
 * @param {any} FS the engine's file system
 * @param {Int32Array} control
 * @param {Uint8Array} block
 */
export function installStreams(FS, control, block) {
  const append = createAppend(control, block);
  /** @param {number} minor */
  const operations = (minor) => ({
    open: (/** @type {any} */ stream) => {
      stream.seekable = false;
    },
    close: () => {},
    fsync: () => {},
    read: () => 0,
    write: (/** @type {any} */ _, /** @type {any} */ buffer, /** @type {number} */ offset, /** @type {number} */ length) => {
      if (minor === 0) throw new FS.ErrnoError(8);
      if (control[CONTROL.stop] === -1) return length;
      append(new Uint8Array(buffer.buffer, buffer.byteOffset + offset, length));
      if (minor === 2) count(control, CONTROL.stderr, length);
      return length;
    },
  });
  const major = FS.createDevice.major++;
  deviceNames.forEach((name, minor) => {
    const device = FS.makedev(major, minor);
    FS.registerDevice(device, operations(minor));
    FS.unlink(name);
    FS.mkdev(name, device);
  });
  for (const fd of [0, 1, 2]) if (FS.streams[fd]) FS.close(FS.streams[fd]);
  openStreams(FS);
}

/**
 * Opens those of the descriptors 0, 1 and 2 that are closed again on their devices (machine 12.5).
 * @param {any} FS
 */
export function openStreams(FS) {
  for (const fd of [0, 1, 2]) {
    if (!FS.streams[fd]) FS.open(deviceNames[fd], fd === 0 ? 0 : 1);
  }
}
