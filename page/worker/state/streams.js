/**
 * Open streams as state (machine 7, 9.3 step 3, hazard H1): descriptors, positions, flags, shared offsets of duplicates,
 * directory cursors.
 *
 * @module
 */

import { typeOf } from "./nodes.js";

const PIPE = 0o010000;
const SOCKET = 0o140000;

/**
 * @typedef {object} StreamCopy
 * @property {any} stream
 * @property {Record<string, any>} own own fields of the stream, among them `shared`
 */

/**
 * @typedef {object} LiveStreams
 * @property {(StreamCopy | null)[]} streams by descriptor
 * @property {Map<any, Record<string, any>>} shared fields of the objects that duplicates share
 */

/**
 * `[descriptor, inode, index into shared, path, cursor]`; `cursor` is the entries of an open directory that was read.
 * @typedef {[number, number, number, string, string[] | null]} PackedStream
 */

/**
 * @typedef {object} PackedStreams
 * @property {PackedStream[]} streams
 * @property {[number, number][]} shared flags and position
 */

export class Streams {
  #FS;

  /** @param {import("../context.js").EngineModule} module */
  constructor(module) {
    this.#FS = module.FS;
  }

  /** Nodes that open streams hold. */
  nodes() {
    return open(this.#FS).map((stream) => stream.node);
  }

  /** Whether a descriptor is a pipe or a socket, which no record can hold. */
  unportable() {
    return open(this.#FS).some((stream) => {
      const type = typeOf(stream.node);
      return type === PIPE || type === SOCKET || stream.stream_ops === undefined;
    });
  }

  /** @returns {LiveStreams} */
  capture() {
    /** @type {Map<any, Record<string, any>>} */
    const shared = new Map();
    const streams = Array.from(this.#FS.streams, (stream) => {
      if (!stream) return null;
      if (!shared.has(stream.shared)) shared.set(stream.shared, { ...stream.shared });
      return { stream, own: { ...stream } };
    });
    return { streams, shared };
  }

  /** @param {LiveStreams} live */
  restore(live) {
    const { streams } = this.#FS;
    streams.length = live.streams.length;
    live.streams.forEach((copy, descriptor) => {
      streams[descriptor] = copy === null ? null : copy.stream;
      if (copy === null) return;
      const { stream, own } = copy;
      for (const key of Object.keys(stream)) if (!(key in own)) delete stream[key];
      Object.assign(stream, own);
    });
    for (const [object, fields] of live.shared) Object.assign(object, fields);
  }

  /**
   * @param {LiveStreams} live
   * @returns {PackedStreams}
   */
  pack(live) {
    const order = [...live.shared.keys()];
    /** @type {PackedStream[]} */
    const streams = [];
    live.streams.forEach((copy, descriptor) => {
      if (copy === null) return;
      const { node, shared, path, getdents } = copy.own;
      streams.push([descriptor, node.id, order.indexOf(shared), path, getdents ?? null]);
    });
    return { streams, shared: order.map(({ flags, position }) => [flags, position ?? 0]) };
  }

  /**
   * Opens the streams of another incarnation. Devices are opened through their driver.
   * @param {PackedStreams} packed
   * @param {Map<number, any>} nodes by inode
   */
  adopt(packed, nodes) {
    const FS = this.#FS;
    FS.streams.length = 0;
    const shared = packed.shared.map(([flags, position]) => ({ flags, position }));
    for (const [descriptor, inode, index, path, cursor] of packed.streams) {
      const node = nodes.get(inode);
      const { flags, position } = shared[index];
      const stream = FS.createStream(
        { node, path, flags, seekable: true, position: 0, stream_ops: node.stream_ops, ungotten: [], error: false },
        descriptor,
      );
      stream.stream_ops.open?.(stream);
      // Opening may have touched them; the object that duplicates share holds what was recorded.
      Object.assign(shared[index], { flags, position });
      stream.shared = shared[index];
      if (cursor !== null) stream.getdents = cursor;
    }
  }
}

/** @param {any} FS */
function open(FS) {
  return /** @type {any[]} */ (FS.streams).filter((stream) => stream);
}
