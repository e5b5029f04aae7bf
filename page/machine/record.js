/**
 * Packed records seen from the page: which contents they name, and the closed form that a record from outside must have
 * (machine 18).
 *
 * @module
 */

import { CLOSURE_WORDS } from "../worker/state/closures.js";
import { PIECE_BYTES } from "../worker/state/contents.js";
import { parseNodes } from "../worker/state/nodes.js";

/** @typedef {import("../worker/checkpoint.js").PackedRecord} PackedRecord */

const RECORD_VERSION = 1;
const NODE_LIMIT = 200_000;
const NAME_LIMIT = 255;
const PATH_LIMIT = 4096;
const STREAM_LIMIT = 4097;
const TABLE_LIMIT = 10_000_000;
const TYPE_MASK = 0o170000;
const DIRECTORY = 0o040000;
const FILE = 0o100000;
const LINK = 0o120000;
const DEVICE = 0o020000;
const LABEL = /^(?:b\d{1,8}|h|h\.[A-Za-z_]{1,64}|c\.(?:undefined|null|true|false))$/;

/** A record that does not have the closed form. */
export class RecordError extends Error {}

/**
 * Identities of the contents that a record names, with their lengths in bytes.
 * @param {PackedRecord} record
 * @returns {Map<number, number>}
 */
export function contentsOf(record) {
  /** @type {Map<number, number>} */
  const named = new Map();
  for (const [, , , mode, , , , , rest] of parseNodes(record.fs.nodes)) {
    if ((mode & TYPE_MASK) !== FILE || rest[1] === null) continue;
    for (let piece = 1; piece < rest.length; piece += 1) {
      named.set(rest[piece], Math.min(PIECE_BYTES, rest[0] - (piece - 1) * PIECE_BYTES));
    }
  }
  return named;
}

/**
 * Gives the contents of a record new identities, in the order of `contentsOf`.
 * @param {PackedRecord} record
 * @param {(identity: number) => number} rename
 * @returns {PackedRecord} a changed copy
 */
export function renameContents(record, rename) {
  const nodes = parseNodes(record.fs.nodes).map((node) => {
    const [, , , mode, , , , , rest] = node;
    if ((mode & TYPE_MASK) !== FILE || rest[1] === null) return JSON.stringify(node);
    return JSON.stringify([...node.slice(0, 8), [rest[0], ...rest.slice(1).map(rename)]]);
  });
  return { ...record, fs: { ...record.fs, nodes: nodes.join("\n") } };
}

/**
 * Checks that a record has exactly the known members with sensible values.
 * @param {any} record
 * @param {{heapBytes: number, fileBytes: number}} limits
 * @returns {PackedRecord} the record
 * @throws {RecordError}
 */
export function checkRecord(record, limits) {
  closed(record, ["version", "base", "portable", "bytes", "sp", "references", "px", "fs", "libs", "closures", "clock"]);
  must(record.version === RECORD_VERSION, "version");
  must(typeof record.base === "string", "base");
  must(record.portable === true, "portable");
  must(isCount(record.bytes, limits.heapBytes) && record.bytes % 65536 === 0, "bytes");
  must(isWord(record.sp), "sp");
  must(isList(record.px, isWord), "px");
  must(Number.isFinite(record.clock) && record.clock >= 0, "clock");
  must(isList(record.closures, (words) => isTuple(words, CLOSURE_WORDS) && words.every(isWord)), "closures");
  checkReferences(record.references);
  checkFiles(record.fs, limits.fileBytes);
  checkLibraries(record.libs);
  return record;
}

/** @param {any} references */
function checkReferences(references) {
  closed(references, ["extent", "slots", "dedupe", "immortals"]);
  const { extent, slots, dedupe, immortals } = references;
  must(isCount(extent, TABLE_LIMIT), "references.extent");
  const isLabel = (/** @type {any} */ label) => typeof label === "string" && LABEL.test(label);
  must(isList(slots, (entry) => isTuple(entry, 2) && isCount(entry[0], extent - 1) && isLabel(entry[1])), "references.slots");
  must(isList(dedupe, (entry) => isTuple(entry, 2) && isLabel(entry[0]) && isWord(entry[1] >>> 0)), "references.dedupe");
  must(isList(immortals, isText), "references.immortals");
}

/**
 * @param {any} fs
 * @param {number} fileBytes
 */
function checkFiles(fs, fileBytes) {
  closed(fs, ["nodes", "named", "nextInode", "directory", "streams", "shared"]);
  const entries = readNodes(fs.nodes);
  must(isCount(fs.named, entries.length), "fs.named");
  must(isCount(fs.nextInode), "fs.nextInode");
  must(isPath(fs.directory), "fs.directory");
  /** @type {Map<number, any[]>} */
  const nodes = new Map();
  let used = 0;
  for (const node of entries) {
    checkNode(node);
    must(!nodes.has(node[0]), "fs.nodes: an inode appears twice");
    nodes.set(node[0], node);
    if ((node[3] & TYPE_MASK) === FILE && node[8][1] !== null) used += node[8][0];
  }
  must(used <= fileBytes, "fs.nodes: more bytes than files may have");
  checkTree(nodes);
  must(isList(fs.shared, (entry) => isTuple(entry, 2) && isWord(entry[0]) && isCount(entry[1])), "fs.shared");
  must(Array.isArray(fs.streams) && fs.streams.length <= STREAM_LIMIT, "fs.streams");
  const descriptors = new Set();
  for (const stream of fs.streams) {
    must(isTuple(stream, 5), "fs.streams");
    const [descriptor, inode, shared, path, cursor] = stream;
    must(isCount(descriptor, STREAM_LIMIT - 1) && !descriptors.has(descriptor), "fs.streams: descriptor");
    descriptors.add(descriptor);
    must(nodes.has(inode) && isCount(shared, fs.shared.length - 1) && isPath(path), "fs.streams");
    must(cursor === null || isList(cursor, isName), "fs.streams: cursor");
  }
}

/**
 * @param {any} text
 * @returns {any[]}
 */
function readNodes(text) {
  must(typeof text === "string", "fs.nodes");
  try {
    const entries = parseNodes(text);
    must(entries.length <= NODE_LIMIT, "fs.nodes: too many");
    return entries;
  } catch (error) {
    if (error instanceof RecordError) throw error;
    throw new RecordError("record: fs.nodes");
  }
}

/** @param {any} node */
function checkNode(node) {
  must(isTuple(node, 9), "fs.nodes");
  const [inode, parent, name, mode, device, atime, mtime, ctime, rest] = node;
  must(isCount(inode) && isCount(parent) && (name === "/" || isName(name)), "fs.nodes: identity");
  must(isWord(mode) && isWord(device) && [atime, mtime, ctime].every(Number.isFinite), "fs.nodes: attributes");
  switch (mode & TYPE_MASK) {
    case DIRECTORY:
      must(rest === null || isList(rest, isCount), "fs.nodes: entries");
      break;
    case FILE: {
      must(Array.isArray(rest) && isCount(rest[0]), "fs.nodes: contents");
      const pieces = rest.slice(1);
      const standard = pieces.length === 1 && pieces[0] === null;
      const whole = pieces.length === Math.ceil(rest[0] / PIECE_BYTES) && pieces.every(isIdentity);
      must(standard || whole, "fs.nodes: contents");
      break;
    }
    case LINK:
      must(typeof rest === "string" && rest.length <= PATH_LIMIT, "fs.nodes: link");
      break;
    case DEVICE:
      must(rest === null, "fs.nodes: device");
      break;
    default:
      must(false, "fs.nodes: type");
  }
}

/**
 * Parents exist and are directories, entries name children of theirs, and nobody is its own ancestor.
 * @param {Map<number, any[]>} nodes
 */
function checkTree(nodes) {
  const rooted = new Set();
  for (const [inode, node] of nodes) {
    for (const child of (node[3] & TYPE_MASK) === DIRECTORY ? (node[8] ?? []) : []) {
      must(nodes.get(child)?.[1] === inode, "fs.nodes: an entry is not a child");
    }
    const path = new Set();
    for (let at = inode; !rooted.has(at);) {
      must(!path.has(at), "fs.nodes: a node is its own ancestor");
      path.add(at);
      const parent = nodes.get(at)?.[1];
      must(parent !== undefined && (/** @type {any} */ (nodes.get(parent))?.[3] & TYPE_MASK) === DIRECTORY, "fs.nodes: parent");
      if (parent === at) break;
      at = /** @type {number} */ (parent);
    }
    for (const at of path) rooted.add(at);
  }
}

/** @param {any} libs */
function checkLibraries(libs) {
  closed(libs, ["libraries", "functions", "offsets", "tableLength"]);
  must(isCount(libs.tableLength, TABLE_LIMIT), "libs.tableLength");
  must(Array.isArray(libs.libraries), "libs.libraries");
  for (const library of libs.libraries) {
    closed(library, ["name", "handles", "memoryBase", "memorySize", "tableBase", "tableSize", "global", "references"]);
    const { name, handles, memoryBase, memorySize, tableBase, tableSize, global, references } = library;
    must(isPath(name) && isList(handles, isWord) && handles.length > 0, "libs.libraries");
    must(isWord(memoryBase) && isWord(memorySize) && isCount(tableBase + tableSize, libs.tableLength), "libs.libraries");
    must(isCount(tableBase) && isCount(tableSize), "libs.libraries");
    must(typeof global === "boolean" && Number.isSafeInteger(references), "libs.libraries");
  }
  const isFunction = (/** @type {any} */ entry) =>
    isTuple(entry, 3) &&
    isCount(entry[0], libs.tableLength - 1) &&
    Number.isInteger(entry[1]) &&
    entry[1] >= -1 &&
    entry[1] < libs.libraries.length &&
    isText(entry[2]);
  must(isList(libs.functions, isFunction), "libs.functions");
  must(isList(libs.offsets, (entry) => isTuple(entry, 2) && isText(entry[0]) && Number.isInteger(entry[1])), "libs.offsets");
}

/**
 * @param {boolean} holds
 * @param {string} what
 */
function must(holds, what) {
  if (!holds) throw new RecordError(`record: ${what}`);
}

/**
 * @param {any} object
 * @param {string[]} members
 */
function closed(object, members) {
  must(typeof object === "object" && object !== null && !Array.isArray(object), "an object is missing");
  must(Object.keys(object).sort().join() === [...members].sort().join(), `members ${Object.keys(object).join()}`);
}

/** @param {any} value @param {number} [most] */
function isCount(value, most = Number.MAX_SAFE_INTEGER) {
  return Number.isSafeInteger(value) && value >= 0 && value <= most;
}

/** @param {any} value */
function isWord(value) {
  return isCount(value, 0xffffffff);
}

/** @param {any} value @param {number} length */
function isTuple(value, length) {
  return Array.isArray(value) && value.length === length;
}

/** @param {any} value @param {(entry: any) => boolean} check */
function isList(value, check) {
  return Array.isArray(value) && value.every((entry) => check(entry));
}

/** @param {any} value */
function isText(value) {
  return typeof value === "string" && value.length <= PATH_LIMIT;
}

/** @param {any} value */
function isPath(value) {
  return isText(value) && value.startsWith("/");
}

/** @param {any} value */
function isName(value) {
  return typeof value === "string" && value !== "" && value.length <= NAME_LIMIT && !value.includes("/");
}

/** @param {any} value */
function isIdentity(value) {
  return isCount(value);
}
