/**
 * The page store (machine 8): one shared memory in slots of 4096 bytes, and the counter of never-used slots.
 *
 * @module
 */

import { encodeLoaded, IMAGE_PAGE, IMAGE_PREFIX, readFront, readPrefix } from "../worker/image-format.js";

const WASM_PAGE = 65536;

/**
 * A boot image whose listed pages are in the store.
 * @typedef {object} LoadedImage
 * @property {Uint32Array} table one slot per heap page
 * @property {Uint8Array} header the engine's snapshot header
 * @property {number} tableLength function table length
 * @property {number} fingerprint 0 when unknown
 * @property {number} slots slots 1 to this hold the image
 */

export class PageStore {
  /** Upper bound of the store in bytes, a multiple of 65536. */
  limitBytes;
  /** @type {WebAssembly.Memory} */
  memory;
  /** One cell, shared by all incarnations: the next never-used slot. Slot 0 is the zero page. */
  counter = new Int32Array(new SharedArrayBuffer(4));
  /** @type {LoadedImage | undefined} */
  image;

  /** @param {number} limitBytes */
  constructor(limitBytes) {
    const maximum = Math.floor(limitBytes / WASM_PAGE);
    this.limitBytes = maximum * WASM_PAGE;
    this.memory = new WebAssembly.Memory({ initial: 1, maximum, shared: true });
    Atomics.store(this.counter, 0, 1);
  }

  /** Bytes of the slots that were ever used. */
  get usedBytes() {
    return Atomics.load(this.counter, 0) * IMAGE_PAGE;
  }

  /**
   * Puts a boot image into slots 1 to n while it arrives. Once per store.
   * @param {AsyncIterable<Uint8Array>} chunks
   * @param {number | undefined} declaredBytes length that the sender declared, when it did
   * @returns {Promise<LoadedImage>} rejects when the length is not exactly what the image says
   */
  async loadImage(chunks, declaredBytes) {
    if (this.image !== undefined) throw new Error("the store holds a boot image already");
    const sink = new ImageSink(this);
    for await (const chunk of chunks) sink.write(chunk);
    const image = sink.finish(declaredBytes);
    Atomics.store(this.counter, 0, image.slots + 1);
    this.image = image;
    return image;
  }

  /** The boot image that is in the store, byte for byte as it was loaded. */
  bootImage() {
    if (this.image === undefined) throw new Error("the store holds no boot image");
    return encodeLoaded(this.image, new Uint8Array(this.memory.buffer, IMAGE_PAGE, this.image.slots * IMAGE_PAGE));
  }

  /**
   * A view of `count` slots from slot 1; grows the store to hold them.
   * @param {number} count
   */
  imageSlots(count) {
    const bytes = (count + 1) * IMAGE_PAGE;
    const missing = bytes - this.memory.buffer.byteLength;
    if (missing > 0) this.memory.grow(Math.ceil(missing / WASM_PAGE));
    return new Uint8Array(this.memory.buffer, IMAGE_PAGE, count * IMAGE_PAGE);
  }
}

/** Collects the front of an image, then writes its data straight into the store. */
class ImageSink {
  #store;
  /** @type {Uint8Array} */
  #front = new Uint8Array(IMAGE_PREFIX);
  /** @type {import("../worker/image-format.js").ImagePrefix | undefined} */
  #prefix;
  /** @type {Uint8Array} */
  #data = new Uint8Array(0);
  #received = 0;

  /** @param {PageStore} store */
  constructor(store) {
    this.#store = store;
  }

  /** @param {Uint8Array} chunk */
  write(chunk) {
    let rest = chunk;
    while (rest.length > 0) {
      const dataOffset = this.#prefix?.dataOffset ?? Infinity;
      rest = this.#received < dataOffset ? this.#writeFront(rest) : this.#writeData(rest, dataOffset);
    }
  }

  /** @param {Uint8Array} bytes */
  #writeFront(bytes) {
    const part = bytes.subarray(0, this.#front.length - this.#received);
    this.#front.set(part, this.#received);
    this.#received += part.length;
    if (this.#prefix === undefined && this.#received === IMAGE_PREFIX) {
      this.#prefix = readPrefix(this.#front);
      this.#data = this.#store.imageSlots(this.#prefix.listed);
      const front = new Uint8Array(this.#prefix.dataOffset);
      front.set(this.#front);
      this.#front = front;
    }
    return bytes.subarray(part.length);
  }

  /** @param {Uint8Array} bytes @param {number} dataOffset */
  #writeData(bytes, dataOffset) {
    const at = this.#received - dataOffset;
    if (at + bytes.length > this.#data.length) throw new RangeError("the boot image is longer than it says");
    this.#data.set(bytes, at);
    this.#received += bytes.length;
    return bytes.subarray(bytes.length);
  }

  /**
   * @param {number | undefined} declaredBytes
   * @returns {LoadedImage}
   */
  finish(declaredBytes) {
    const prefix = this.#prefix;
    if (prefix === undefined || this.#received !== prefix.totalBytes) throw new RangeError("the boot image is incomplete");
    if (declaredBytes !== undefined && declaredBytes !== prefix.totalBytes) {
      throw new RangeError(`the boot image has ${prefix.totalBytes} bytes, ${declaredBytes} were announced`);
    }
    const { table, header } = readFront(prefix, this.#front);
    return { table, header, tableLength: prefix.tableLength, fingerprint: prefix.fingerprint, slots: prefix.listed };
  }
}
