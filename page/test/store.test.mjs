import assert from "node:assert/strict";
import { test } from "node:test";
import { PageStore } from "../machine/store.js";
import { IMAGE_PAGE, encodeImage, readPrefix, writeFingerprint } from "../worker/image-format.js";

const MEBIBYTE = 1 << 20;

/** A heap of four pages of which the second and the last are not zero, and its image. */
function sample() {
  const heap = new Uint8Array(4 * IMAGE_PAGE);
  heap.fill(7, IMAGE_PAGE, 2 * IMAGE_PAGE);
  heap[4 * IMAGE_PAGE - 1] = 9;
  const header = Uint8Array.of(1, 2, 3, 4, 5);
  return { heap, header, image: new Uint8Array(encodeImage(header, heap, 321)) };
}

/** @param {Uint8Array} bytes @param {number} size */
async function* pieces(bytes, size) {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

/** @param {Uint8Array} bytes @param {number} [declared] */
const load = (bytes, declared) => new PageStore(MEBIBYTE).loadImage(pieces(bytes, 1000), declared);

test("the image in the store can be had again, byte for byte", async () => {
  const { image } = sample();
  writeFingerprint(image.buffer, 77);
  const store = new PageStore(MEBIBYTE);
  await store.loadImage(pieces(image, 1000), image.length);
  assert.deepEqual(store.bootImage(), image);
  assert.throws(() => new PageStore(MEBIBYTE).bootImage(), /no boot image/);
});

for (const size of [1, 63, 64, 65, 4095, 4096, 100000]) {
  test(`an image that arrives in pieces of ${size} bytes is in the store`, async () => {
    const { heap, header, image } = sample();
    const store = new PageStore(MEBIBYTE);
    const loaded = await store.loadImage(pieces(image, size), image.length);
    assert.deepEqual([...loaded.table], [0, 1, 0, 2]);
    assert.deepEqual([...loaded.header], [...header]);
    assert.equal(loaded.tableLength, 321);
    assert.equal(loaded.slots, 2);
    assert.equal(Atomics.load(store.counter, 0), 3);
    const slots = new Uint8Array(store.memory.buffer, 0, 3 * IMAGE_PAGE);
    assert.ok(slots.subarray(0, IMAGE_PAGE).every((byte) => byte === 0));
    assert.deepEqual(slots.slice(IMAGE_PAGE, 2 * IMAGE_PAGE), heap.slice(IMAGE_PAGE, 2 * IMAGE_PAGE));
    assert.deepEqual(slots.slice(2 * IMAGE_PAGE), heap.slice(3 * IMAGE_PAGE));
  });
}

test("an image that ends early, goes on, or was announced with another length is refused", async () => {
  const { image } = sample();
  await assert.rejects(load(image.subarray(0, image.length - 1)), /incomplete/);
  await assert.rejects(load(image.subarray(0, 20)), /incomplete/);
  const longer = new Uint8Array(image.length + 1);
  longer.set(image);
  await assert.rejects(load(longer), /longer/);
  await assert.rejects(load(image, image.length + 1), /announced/);
});

test("an image with a damaged front is refused", async () => {
  const { image } = sample();
  const damaged = (/** @type {number} */ offset, /** @type {number} */ value) => {
    const copy = image.slice();
    new DataView(copy.buffer).setUint32(offset, value, true);
    return copy;
  };
  await assert.rejects(load(damaged(0, 0)), /format/);
  await assert.rejects(load(damaged(4, 65536)), /pages of 65536/);
  await assert.rejects(load(damaged(8, 1)), /counts/);
  await assert.rejects(load(damaged(12, 9)), /counts/);
  await assert.rejects(load(damaged(16, 0)), /header length/);
  await assert.rejects(load(damaged(20, 1)), /header offset/);
  await assert.rejects(load(damaged(24, 8192)), /data offset/);
  await assert.rejects(load(damaged(28, 0)), /table length/);
  await assert.rejects(load(damaged(64, 3)), /ascending/);
  await assert.rejects(load(damaged(68, 4)), /ascending/);
});

test("the fingerprint is written where it is read", () => {
  const { image } = sample();
  assert.equal(readPrefix(image).fingerprint, 0);
  writeFingerprint(image.buffer, 0xfedcba98);
  assert.equal(readPrefix(image).fingerprint, 0xfedcba98);
});
