/**
 * Limits of the in-memory file system (machine 19): total bytes and count of files, enforced where they grow.
 *
 * Usage is estimated from above between exact counts: growth is added, shrinking is not noticed. Only when the estimate
 * meets a limit are the nodes counted.
 *
 * @module
 */

/** Largest number of nodes. */
const NODE_LIMIT = 100000;

/** Error number of "no space left on device". */
const ENOSPC = 51;

/** @type {{bytes: number, nodes: number} | undefined} undefined when the next growth must count */
let usage;

/** Forgets the estimate. To be called after a restore, which changes files behind the limits' back. */
export function filesChanged() {
  usage = undefined;
}

/**
 * Bytes and number of everything that is reachable by name or by an open stream.
 * @param {any} FS
 */
function countFiles(FS) {
  const seen = new Set();
  /** @param {any} node */
  const visit = (node) => {
    for (let next = node; next; next = next.name_next) seen.add(next);
  };
  FS.nameTable.forEach(visit);
  for (const stream of FS.streams) if (stream) seen.add(stream.node);
  let bytes = 0;
  for (const node of seen) if (FS.isFile(node.mode)) bytes += node.usedBytes ?? 0;
  return { bytes, nodes: seen.size };
}

/**
 * Wraps the growing operations of the engine's in-memory file system. What is there already, the standard library, does
 * not count.
 * @param {any} module
 * @param {number} guestBytes
 */
export function limitFiles(module, guestBytes) {
  const { FS, MEMFS } = module;
  const limitBytes = guestBytes + countFiles(FS).bytes;

  /** @param {number} bytes @param {number} nodes */
  const reserve = (bytes, nodes) => {
    usage ??= countFiles(FS);
    if (usage.bytes + bytes > limitBytes || usage.nodes + nodes > NODE_LIMIT) {
      usage = countFiles(FS);
      if (usage.bytes + bytes > limitBytes || usage.nodes + nodes > NODE_LIMIT) throw new FS.ErrnoError(ENOSPC);
    }
    usage.bytes += bytes;
    usage.nodes += nodes;
  };

  const { write } = MEMFS.stream_ops;
  MEMFS.stream_ops.write = (
    /** @type {any} */ stream,
    /** @type {any} */ buffer,
    /** @type {number} */ offset,
    /** @type {number} */ length,
    /** @type {number} */ position,
    /** @type {boolean} */ canOwn,
  ) => {
    const growth = position + length - stream.node.usedBytes;
    if (growth > 0) reserve(growth, 0);
    return write(stream, buffer, offset, length, position, canOwn);
  };
  if (MEMFS.ops_table) MEMFS.ops_table.file.stream.write = MEMFS.stream_ops.write;

  const { resizeFileStorage, createNode } = MEMFS;
  MEMFS.resizeFileStorage = (/** @type {any} */ node, /** @type {number} */ size) => {
    if (size > node.usedBytes) reserve(size - node.usedBytes, 0);
    return resizeFileStorage(node, size);
  };
  MEMFS.createNode = (/** @type {any[]} */ ...args) => {
    if (args[0] !== null) reserve(0, 1);
    return createNode(...args);
  };
}
