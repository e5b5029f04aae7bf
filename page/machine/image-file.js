/**
 * Durable images: a checkpoint as bytes, good for another process (machine 18).
 *
 * Little endian. `MIMG`, u32 format version, u32 length of the header, u32 zero; the header (JSON); from the next 16-byte
 * boundary one i32 per heap page (0 zero page, -k slot k of the boot image, k stored page k); from the next one the stored
 * pages; the boot image if it is carried; the contents in the header's order; SHA-256 of all bytes before it.
 *
 * @module
 */

import { checkRecord, contentsOf, RecordError, renameContents } from "./record.js";

const MAGIC = 0x474d494d;
const VERSION = 1;
const PREFIX_BYTES = 16;
const DIGEST_BYTES = 32;
const PAGE_BYTES = 4096;
const WASM_PAGE_BYTES = 65536;
const SHA256 = /^[0-9a-f]{64}$/;
const LABEL_LIMIT = 256;

/** Largest image in bytes (machine 19). */
export const IMAGE_LIMIT = 1 << 30;

/** @typedef {"MACHINE_IMAGE_INVALID" | "MACHINE_IMAGE_ENGINE_MISMATCH" | "MACHINE_IMAGE_UNSUPPORTED" | "MACHINE_CHECKPOINT_LIMIT"} ImageCode */

/** Why an image is not made or not taken. Nothing has changed. */
export class ImageError extends Error {
  /**
   * @param {ImageCode} code
   * @param {string} message
   */
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

/**
 * What must be equal where an image was made and where it is used.
 * @typedef {object} Installation
 * @property {string} engine SHA-256 of the engine, lower-case hexadecimal
 * @property {string} boot SHA-256 of the boot image
 * @property {number} prelude version
 * @property {number} interposition version
 */

/**
 * The members of a page store that images use.
 * @typedef {object} Store
 * @property {WebAssembly.Memory} memory
 * @property {Int32Array} counter next never-used slot
 * @property {number} limitBytes
 */

/** @typedef {import("./record.js").PackedRecord} PackedRecord */

/**
 * @typedef {object} DurableImage
 * @property {Int32Array} table
 * @property {Uint8Array} stored pages, one after the other
 * @property {PackedRecord} record
 * @property {{identity: number, bytes: Uint8Array}[]} contents under identities of this page
 * @property {string} createdAt
 * @property {string} label
 */

/**
 * @param {object} given
 * @param {Installation} given.installation
 * @param {Uint32Array} given.table of the checkpoint
 * @param {PackedRecord} given.record
 * @param {(identity: number) => Uint8Array | undefined} given.contents
 * @param {Store} given.store
 * @param {number} given.imageSlots slots 1 to this hold the boot image
 * @param {string} given.createdAt
 * @param {string} [given.label]
 * @param {Uint8Array} [given.bootBytes] the whole boot image, for images that leave the installation
 * @param {number} [given.limit] most bytes of the image
 * @returns {Promise<Uint8Array<ArrayBuffer>>}
 * @throws {ImageError} `MACHINE_IMAGE_UNSUPPORTED` for a record that is not portable
 */
export async function exportImage(given) {
  const { installation, table, record, store, imageSlots, createdAt, label = "", bootBytes, limit = IMAGE_LIMIT } = given;
  if (!record.portable) throw new ImageError("MACHINE_IMAGE_UNSUPPORTED", "the checkpoint is not portable");
  const { pages, slots } = numberPages(table, imageSlots);
  /** @type {[number, Uint8Array][]} */
  const contents = [];
  for (const identity of contentsOf(record).keys()) {
    const bytes = given.contents(identity);
    if (bytes === undefined) throw new ImageError("MACHINE_IMAGE_UNSUPPORTED", `contents ${identity} are missing`);
    contents.push([identity, bytes]);
  }
  const header = new TextEncoder().encode(
    JSON.stringify({
      ...installation,
      pageBytes: PAGE_BYTES,
      pages: pages.length,
      stored: slots.length,
      bootBytes: bootBytes?.length ?? 0,
      record,
      contents: contents.map(([identity, bytes]) => [identity, bytes.length]),
      createdAt,
      label,
    }),
  );
  const places = layout(header.length, pages.length, slots.length);
  const tail = (bootBytes?.length ?? 0) + contents.reduce((sum, [, bytes]) => sum + bytes.length, 0);
  const total = places.tail + tail + DIGEST_BYTES;
  if (total > limit) {
    const advice = limit < IMAGE_LIMIT ? "; use the manifest's machine.image.saveOnExit for larger ones" : "";
    const message = `the image would have ${total} bytes, more than ${limit}${advice}`;
    throw new ImageError("MACHINE_IMAGE_UNSUPPORTED", message);
  }
  const image = new Uint8Array(total);
  new Uint32Array(image.buffer, 0, 4).set([MAGIC, VERSION, header.length, 0]);
  image.set(header, PREFIX_BYTES);
  new Int32Array(image.buffer, places.table, pages.length).set(pages);
  const held = new Uint8Array(store.memory.buffer);
  slots.forEach((slot, i) => {
    image.set(held.subarray(slot * PAGE_BYTES, (slot + 1) * PAGE_BYTES), places.stored + i * PAGE_BYTES);
  });
  let at = places.tail;
  for (const bytes of [...(bootBytes ? [bootBytes] : []), ...contents.map(([, content]) => content)]) {
    image.set(bytes, at);
    at += bytes.length;
  }
  image.set(await digest(image.subarray(0, at)), at);
  return image;
}

/**
 * Numbers the pages that neither the zero page nor the boot image has; equal slots are stored once.
 * @param {Uint32Array} table
 * @param {number} imageSlots
 */
function numberPages(table, imageSlots) {
  const pages = new Int32Array(table.length);
  /** @type {Map<number, number>} */
  const numbers = new Map();
  table.forEach((slot, page) => {
    if (slot === 0) return;
    if (slot <= imageSlots) {
      pages[page] = -slot;
      return;
    }
    let number = numbers.get(slot);
    if (number === undefined) numbers.set(slot, (number = numbers.size + 1));
    pages[page] = number;
  });
  return { pages, slots: [...numbers.keys()] };
}

/**
 * An image whose digest is right; nothing else in it is checked.
 * @typedef {object} OpenedImage
 * @property {Uint8Array} bytes
 * @property {any} header
 */

/**
 * Checks the digest of an image, before anything but lengths is read, and reads its header.
 * @param {Uint8Array} bytes
 * @returns {Promise<OpenedImage>}
 * @throws {ImageError}
 */
export async function openImage(bytes) {
  return { bytes, header: await readHeader(bytes) };
}

/**
 * The boot image in an image that was made with another one and fits this installation otherwise.
 * @param {OpenedImage} image
 * @param {Installation} installation
 * @returns {Promise<{digest: string, bytes: Uint8Array} | null>} never rejects
 */
export async function carriedBootImage({ bytes, header }, installation) {
  const fits = differences(header, installation);
  if (fits.length !== 1 || fits[0] !== "boot") return null;
  const carried = carriedBytes(bytes, header);
  if (carried === null || (await hexDigest(carried)) !== header.boot) return null;
  return { digest: header.boot, bytes: carried };
}

/**
 * Where the boot image is in an image; null when there is none or it cannot be there.
 * @param {Uint8Array} bytes
 * @param {any} header
 */
function carriedBytes(bytes, { pages, stored, bootBytes }) {
  if (![pages, stored, bootBytes].every(isCount) || bootBytes === 0) return null;
  const { tail } = layout(headerLength(bytes), pages, stored);
  if (tail + bootBytes > bytes.length - DIGEST_BYTES) return null;
  return bytes.subarray(tail, tail + bootBytes);
}

/**
 * Checks everything in an image.
 * @param {OpenedImage} image
 * @param {object} here
 * @param {Installation} here.installation
 * @param {{heapBytes: number, fileBytes: number}} here.limits
 * @param {number} here.imageSlots slots of the running boot image
 * @param {() => number} here.nextIdentity identities that no contents of this page have: below 2 ** 32, because workers
 *   give out those above
 * @returns {Promise<DurableImage>} views of `bytes` where possible
 * @throws {ImageError}
 */
export async function readImage({ bytes, header }, { installation, limits, imageSlots, nextIdentity }) {
  checkInstallation(header, installation);
  const { pages, stored, record, bootBytes, createdAt, label } = header;
  valid(isCount(pages) && isCount(stored) && isCount(bootBytes), "sizes");
  valid(header.pageBytes === PAGE_BYTES && pages * PAGE_BYTES <= limits.heapBytes, "heap size");
  valid(typeof label === "string" && label.length <= LABEL_LIMIT && typeof createdAt === "string", "label");
  try {
    checkRecord(record, limits);
  } catch (error) {
    if (error instanceof RecordError) throw invalid(error.message);
    throw error;
  }
  valid(record.bytes === pages * PAGE_BYTES, "heap size");
  const places = layout(headerLength(bytes), pages, stored);
  const end = bytes.length - DIGEST_BYTES;
  valid(places.tail + bootBytes <= end, "length");
  const carried = carriedBytes(bytes, header);
  valid(carried === null || (await hexDigest(carried)) === header.boot, "boot image");
  const contents = readContents(bytes.subarray(places.tail + bootBytes, end), header.contents, contentsOf(record));
  const copy = bytes.slice(places.table, places.table + pages * 4);
  const table = new Int32Array(copy.buffer);
  valid(table.every((entry) => entry >= -imageSlots && entry <= stored), "table");
  /** @type {Map<number, number>} */
  const names = new Map(contents.map(({ identity }) => [identity, nextIdentity()]));
  const renamed = (/** @type {number} */ identity) => /** @type {number} */ (names.get(identity));
  return {
    table,
    stored: bytes.subarray(places.stored, places.stored + stored * PAGE_BYTES),
    record: renameContents(record, renamed),
    contents: contents.map((content) => ({ ...content, identity: renamed(content.identity) })),
    createdAt,
    label,
  };
}

/** @param {Uint8Array} bytes */
async function readHeader(bytes) {
  valid(bytes.length >= PREFIX_BYTES + DIGEST_BYTES && bytes.length <= IMAGE_LIMIT, "length");
  const view = new DataView(bytes.buffer, bytes.byteOffset, PREFIX_BYTES);
  valid(view.getUint32(0, true) === MAGIC && view.getUint32(4, true) === VERSION, "magic");
  const end = bytes.length - DIGEST_BYTES;
  valid(PREFIX_BYTES + headerLength(bytes) <= end, "header length");
  const found = await digest(bytes.subarray(0, end));
  valid(found.every((byte, i) => byte === bytes[end + i]), "digest");
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(
      bytes.subarray(PREFIX_BYTES, PREFIX_BYTES + headerLength(bytes)),
    );
    const header = JSON.parse(text);
    valid(typeof header === "object" && header !== null, "header");
    return header;
  } catch (error) {
    if (error instanceof ImageError) throw error;
    throw invalid("header");
  }
}

/** @param {Uint8Array} bytes */
function headerLength(bytes) {
  return new DataView(bytes.buffer, bytes.byteOffset, PREFIX_BYTES).getUint32(8, true);
}

/**
 * @param {any} header
 * @param {Installation} installation
 */
function checkInstallation(header, installation) {
  valid(SHA256.test(header.engine) && SHA256.test(header.boot), "installation");
  const [member] = differences(header, installation);
  if (member === undefined) return;
  const advice = member === "boot" && header.bootBytes > 0 ? "; a machine that starts from it (machine.image.load) takes it" : "";
  throw new ImageError("MACHINE_IMAGE_ENGINE_MISMATCH", `the image was made with another ${member}${advice}`);
}

/**
 * Members of an installation that an image does not share.
 * @param {any} header
 * @param {Installation} installation
 */
function differences(header, installation) {
  const members = /** @type {const} */ (["engine", "prelude", "interposition", "boot"]);
  return members.filter((member) => header[member] !== installation[member]);
}

/**
 * @param {Uint8Array} bytes
 * @param {any} list identities and lengths in order
 * @param {Map<number, number>} named what the record needs
 */
function readContents(bytes, list, named) {
  valid(Array.isArray(list) && list.length === named.size, "contents");
  let at = 0;
  /** @type {{identity: number, bytes: Uint8Array}[]} */
  const contents = list.map((/** @type {any} */ entry) => {
    valid(Array.isArray(entry) && entry.length === 2 && named.get(entry[0]) === entry[1], "contents");
    const content = { identity: /** @type {number} */ (entry[0]), bytes: bytes.slice(at, at + entry[1]) };
    at += entry[1];
    return content;
  });
  valid(at === bytes.length && new Set(contents.map(({ identity }) => identity)).size === named.size, "contents");
  return contents;
}

/**
 * Puts the stored pages into slots that nothing uses, then into never-used ones. The store grows before the counter moves
 * (machine 8, rule 1).
 * @param {DurableImage} image
 * @param {Store} store
 * @param {Uint32Array} free slots that nothing uses
 * @returns {Uint32Array} page table
 * @throws {ImageError} `MACHINE_CHECKPOINT_LIMIT` when the store is full
 */
export function placeImage({ table, stored }, store, free) {
  const count = stored.length / PAGE_BYTES;
  const first = claim(store, Math.max(0, count - free.length));
  const slot = (/** @type {number} */ index) => free[index] ?? first + index - free.length;
  const held = new Uint8Array(store.memory.buffer);
  for (let index = 0; index < count; index += 1) {
    held.set(stored.subarray(index * PAGE_BYTES, (index + 1) * PAGE_BYTES), slot(index) * PAGE_BYTES);
  }
  return Uint32Array.from(table, (entry) => (entry > 0 ? slot(entry - 1) : -entry));
}

/**
 * @param {Store} store
 * @param {number} count
 * @returns {number} the first slot
 */
function claim({ memory, counter, limitBytes }, count) {
  for (;;) {
    const next = Atomics.load(counter, 0);
    const bytes = (next + count) * PAGE_BYTES;
    const missing = bytes - memory.grow(0) * WASM_PAGE_BYTES;
    try {
      if (bytes > limitBytes) throw new RangeError("the page store is full");
      if (missing > 0) memory.grow(Math.ceil(missing / WASM_PAGE_BYTES));
    } catch {
      throw new ImageError("MACHINE_CHECKPOINT_LIMIT", "the page store has no room for the image");
    }
    if (Atomics.compareExchange(counter, 0, next, next + count) === next) return next;
  }
}

/**
 * @param {number} header length
 * @param {number} pages
 * @param {number} stored
 */
function layout(header, pages, stored) {
  const table = align(PREFIX_BYTES + header);
  const start = align(table + pages * 4);
  return { table, stored: start, tail: start + stored * PAGE_BYTES };
}

/** @param {number} offset */
function align(offset) {
  return Math.ceil(offset / 16) * 16;
}

/** @param {Uint8Array} bytes */
async function digest(bytes) {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", /** @type {Uint8Array<ArrayBuffer>} */ (bytes)));
}

/** @param {Uint8Array} bytes */
async function hexDigest(bytes) {
  return (await digest(bytes)).reduce((text, byte) => text + byte.toString(16).padStart(2, "0"), "");
}

/** @param {any} value */
function isCount(value) {
  return Number.isSafeInteger(value) && value >= 0;
}

/** @param {string} what */
function invalid(what) {
  return new ImageError("MACHINE_IMAGE_INVALID", `the image is damaged or malformed: ${what}`);
}

/**
 * @param {boolean} holds
 * @param {string} what
 */
function valid(holds, what) {
  if (!holds) throw invalid(what);
}
