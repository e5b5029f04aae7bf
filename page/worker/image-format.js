/**
 * The boot image as bytes (machine 5.3). Little endian.
 *
 * | Offset | u32 |
 * |---|---|
 * | 0 | `BIM2` |
 * | 4 | page size, 4096 |
 * | 8 | pages of the heap |
 * | 12 | listed pages, those that are not all zero |
 * | 16, 20 | length and offset of the engine's snapshot header |
 * | 24 | offset of the data, a multiple of 4096 |
 * | 28 | function table length |
 * | 32 | fingerprint of the references after a boot from this image, 0 while unknown |
 * | 36 to 64 | zero |
 *
 * At 64 the page numbers of the listed pages follow, then the snapshot header, then the listed pages.
 *
 * @module
 */

export const IMAGE_PAGE = 4096;

/** Bytes of the fixed part. */
export const IMAGE_PREFIX = 64;

const MAGIC = 0x324d4942;
const FINGERPRINT_OFFSET = 32;

/** Largest heap of an image in pages: 2 GiB. */
const PAGE_LIMIT = (2 ** 31) / IMAGE_PAGE;
const HEADER_LIMIT = 16 << 20;
const TABLE_LIMIT = 1 << 24;

/**
 * @typedef {object} ImagePrefix
 * @property {number} pages
 * @property {number} listed
 * @property {number} headerLength
 * @property {number} headerOffset
 * @property {number} dataOffset
 * @property {number} tableLength
 * @property {number} fingerprint
 * @property {number} totalBytes exact length of the whole image
 */

/** @param {number} bytes */
const toPage = (bytes) => Math.ceil(bytes / IMAGE_PAGE) * IMAGE_PAGE;

/**
 * Reads the fixed part. Throws a `RangeError` that says what is wrong.
 * @param {Uint8Array} bytes at least `IMAGE_PREFIX` bytes
 * @returns {ImagePrefix}
 */
export function readPrefix(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const [magic, pageSize, pages, listed, headerLength, headerOffset, dataOffset, tableLength, fingerprint] = Array.from(
    { length: 9 },
    (_, index) => view.getUint32(index * 4, true),
  );
  if (magic !== MAGIC) throw new RangeError("the boot image has another format");
  if (pageSize !== IMAGE_PAGE) throw new RangeError(`the boot image has pages of ${pageSize} bytes`);
  if (pages === 0 || pages > PAGE_LIMIT || listed > pages) throw new RangeError("the boot image's page counts are wrong");
  if (headerLength === 0 || headerLength > HEADER_LIMIT) throw new RangeError("the boot image's header length is wrong");
  if (headerOffset !== IMAGE_PREFIX + listed * 4) throw new RangeError("the boot image's header offset is wrong");
  if (dataOffset !== toPage(headerOffset + headerLength)) throw new RangeError("the boot image's data offset is wrong");
  if (tableLength === 0 || tableLength > TABLE_LIMIT) throw new RangeError("the boot image's table length is wrong");
  const totalBytes = dataOffset + listed * IMAGE_PAGE;
  return { pages, listed, headerLength, headerOffset, dataOffset, tableLength, fingerprint, totalBytes };
}

/**
 * Reads what precedes the data.
 * @param {ImagePrefix} prefix
 * @param {Uint8Array} front the image's first `dataOffset` bytes
 * @returns {{table: Uint32Array, header: Uint8Array}} the page table, with slot k for the k-th listed page from 1, and a
 *   copy of the snapshot header
 */
export function readFront(prefix, front) {
  const table = new Uint32Array(prefix.pages);
  const view = new DataView(front.buffer, front.byteOffset, front.byteLength);
  let previous = -1;
  for (let index = 0; index < prefix.listed; index += 1) {
    const page = view.getUint32(IMAGE_PREFIX + index * 4, true);
    if (page <= previous || page >= prefix.pages) throw new RangeError("the boot image's page list is not ascending");
    table[page] = index + 1;
    previous = page;
  }
  return { table, header: front.slice(prefix.headerOffset, prefix.headerOffset + prefix.headerLength) };
}

/** @param {BigUint64Array} words @param {number} from */
function isZeroPage(words, from) {
  for (let index = from; index < from + IMAGE_PAGE / 8; index += 1) if (words[index] !== 0n) return false;
  return true;
}

/**
 * @param {Uint8Array} header the engine's snapshot header
 * @param {Uint8Array} heap a multiple of 4096 bytes, at an offset that is a multiple of 8
 * @param {number} tableLength
 * @returns {ArrayBuffer}
 */
export function encodeImage(header, heap, tableLength) {
  const words = new BigUint64Array(heap.buffer, heap.byteOffset, heap.byteLength / 8);
  const pages = heap.byteLength / IMAGE_PAGE;
  const listed = [];
  for (let page = 0; page < pages; page += 1) {
    if (!isZeroPage(words, (page * IMAGE_PAGE) / 8)) listed.push(page);
  }
  const { image, dataOffset } = encodeFront({ header, pages, listed, tableLength });
  listed.forEach((page, index) => {
    const from = page * IMAGE_PAGE;
    image.set(heap.subarray(from, from + IMAGE_PAGE), dataOffset + index * IMAGE_PAGE);
  });
  return image.buffer;
}

/**
 * The image that was loaded, byte for byte.
 * @param {{table: Uint32Array, header: Uint8Array, tableLength: number, fingerprint: number, slots: number}} loaded
 * @param {Uint8Array} data the listed pages in order
 * @returns {Uint8Array<ArrayBuffer>}
 */
export function encodeLoaded({ table, header, tableLength, fingerprint }, data) {
  /** @type {number[]} */
  const listed = [];
  table.forEach((slot, page) => {
    if (slot !== 0) listed.push(page);
  });
  const { image, dataOffset } = encodeFront({ header, pages: table.length, listed, tableLength });
  image.set(data, dataOffset);
  writeFingerprint(image.buffer, fingerprint);
  return image;
}

/**
 * An image with everything but its data.
 * @param {{header: Uint8Array, pages: number, listed: number[], tableLength: number}} front
 */
function encodeFront({ header, pages, listed, tableLength }) {
  const headerOffset = IMAGE_PREFIX + listed.length * 4;
  const dataOffset = toPage(headerOffset + header.length);
  const image = new Uint8Array(dataOffset + listed.length * IMAGE_PAGE);
  const view = new DataView(image.buffer);
  const fields = [MAGIC, IMAGE_PAGE, pages, listed.length, header.length, headerOffset, dataOffset, tableLength];
  fields.forEach((value, index) => view.setUint32(index * 4, value, true));
  listed.forEach((page, index) => view.setUint32(IMAGE_PREFIX + index * 4, page, true));
  image.set(header, headerOffset);
  return { image, dataOffset };
}

/**
 * Writes the fingerprint that the first boot from an image found.
 * @param {ArrayBuffer} image
 * @param {number} fingerprint
 */
export function writeFingerprint(image, fingerprint) {
  new DataView(image).setUint32(FINGERPRINT_OFFSET, fingerprint, true);
}
