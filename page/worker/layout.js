/**
 * Layout of the blocks that the page and one worker share (machine 3). Each block belongs to one incarnation.
 *
 * @module
 */

/** Cells of the control block, an `Int32Array`. */
export const CONTROL = Object.freeze({
  /** The signal; 2 asks Python to interrupt. */
  signal: 0,
  /** Bumped and notified to end a wait. */
  wake: 1,
  /** Bytes in the output head. */
  head: 2,
  /** Bytes written past the head; saturates. */
  past: 3,
  /** Tail write position, relative to the tail's start. */
  tail: 4,
  /** Bytes of standard error; saturates. */
  stderr: 5,
  /** 1 when an interrupt was asked for since the last command was posted. */
  interrupted: 6,
  /** -1: this incarnation must end. */
  stop: 7,
  cells: 8,
});

/** Largest value of the saturating counters. */
export const COUNTER_LIMIT = 0x7fffffff;

/** The signal that asks for an interrupt. */
export const SIGINT = 2;

/**
 * How an output block is divided: three quarters keep the beginning, the rest is a ring with the end.
 * @param {number} bytes size of the block
 */
export function outputParts(bytes) {
  const head = Math.floor((bytes * 3) / 4);
  return { head, tail: bytes - head };
}

/**
 * Cells of the package block's control part, an `Int32Array`.
 *
 * Requests are numbered from 1. `turn` is `-n` while the worker waits for request `n`, and `n` when the page has
 * answered. The page answers by compare-and-swap, so that a request that was given up is never answered.
 */
export const PACKAGE = Object.freeze({
  turn: 0,
  /** Bytes in the block's data part; 0: there is no such wheel, or it cannot be delivered. */
  length: 1,
  /** Bytes of the whole wheel. */
  total: 2,
  cells: 4,
});

/** Bytes of one piece of a wheel. */
export const PIECE_BYTES = 1 << 20;

/** Upper bound of one wheel in bytes (machine 19). */
export const WHEEL_LIMIT = 64 << 20;
