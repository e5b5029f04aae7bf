/**
 * Reads an output block (machine 13).
 *
 * @module
 */

import { CONTROL, outputParts } from "../worker/layout.js";

/**
 * @typedef {object} Output
 * @property {string} stdout head, a line with the number of bytes left out, tail
 * @property {number} stdoutBytes bytes written, standard error included
 * @property {number} stderrBytes how many of them were standard error
 * @property {number} stdoutDropped bytes that are not in `stdout`
 */

const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/**
 * Decodes the block and empties it.
 * @param {Int32Array} control
 * @param {Uint8Array} block
 * @returns {Output}
 */
export function takeOutput(control, block) {
  const parts = outputParts(block.length);
  const headBytes = Math.min(Math.max(control[CONTROL.head], 0), parts.head);
  const past = Math.max(control[CONTROL.past], 0);
  const stderrBytes = Math.max(control[CONTROL.stderr], 0);
  const position = Math.min(Math.max(control[CONTROL.tail], 0), parts.tail);
  const head = block.slice(0, headBytes);
  const tail = readTail(block.subarray(parts.head), past, position);
  for (const cell of [CONTROL.head, CONTROL.past, CONTROL.tail, CONTROL.stderr]) control[cell] = 0;
  const stdoutDropped = past - tail.length;
  const stdout =
    stdoutDropped === 0
      ? decoder.decode(concatenate(head, tail))
      : `${decoder.decode(head)}\n[... ${stdoutDropped} bytes left out ...]\n${decoder.decode(tail)}`;
  return { stdout, stdoutBytes: headBytes + past, stderrBytes, stdoutDropped };
}

/**
 * The ring's content in the order of writing.
 * @param {Uint8Array} ring
 * @param {number} written bytes that were written to it in total
 * @param {number} position where the next byte would go
 */
function readTail(ring, written, position) {
  if (written < ring.length) return ring.slice(0, written);
  return concatenate(ring.subarray(position), ring.subarray(0, position));
}

/** @param {Uint8Array} first @param {Uint8Array} second */
function concatenate(first, second) {
  const joined = new Uint8Array(first.length + second.length);
  joined.set(first);
  joined.set(second, first.length);
  return joined;
}
