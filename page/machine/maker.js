/**
 * Makes the boot image (machine 5): one worker boots without an image and hands the image over, a second one boots from
 * it, which proves it and finds the fingerprint of its references.
 *
 * @module
 */

import { writeFingerprint } from "../worker/image-format.js";
import { makerMaterial } from "./boot.js";
import { Incarnation } from "./incarnation.js";
import { PageStore } from "./store.js";

/**
 * @typedef {object} BootImage
 * @property {ArrayBuffer} image the bytes of `BIM2`
 * @property {{start: number, modules: Record<string, number>}} entropy requests for random bytes by interpreter start
 *   and by the modules that made any while they were imported
 */

/** Room for the image and the base checkpoint in the store of the proving worker. */
const STORE_BYTES = 256 << 20;

/**
 * Makes the image and returns its bytes.
 * @param {import("./boot.js").Assets} assets `imageUrl`, `wheels`, `env` and `preload` are ignored
 * @returns {Promise<ArrayBuffer>}
 */
export async function makeImage(assets) {
  return (await makeBootImage(assets)).image;
}

/**
 * @param {import("./boot.js").Assets} assets
 * @returns {Promise<BootImage>}
 */
export async function makeBootImage(assets) {
  const making = await makerMaterial({ ...assets, env: {}, timezone: null, preload: [], wheels: {} });
  const { image, entropy } = await firstMessage("image", making);
  const store = new PageStore(STORE_BYTES);
  const loaded = await store.loadImage(whole(image), undefined);
  const { fingerprint } = await firstMessage("ready", {
    ...making,
    mode: "boot",
    store,
    image: loaded,
    prelude: [],
    limits: { ...making.limits, storeBytes: store.limitBytes },
  });
  writeFingerprint(image, fingerprint);
  return { image, entropy };
}

/** @param {ArrayBuffer} bytes */
async function* whole(bytes) {
  yield new Uint8Array(bytes);
}

/**
 * Creates an incarnation, waits for its first message and ends it. Rejects when the message has another type.
 * @param {string} type
 * @param {import("./boot.js").BootMaterial} boot
 * @returns {Promise<any>}
 */
async function firstMessage(type, boot) {
  /** @type {Incarnation | undefined} */
  let incarnation;
  try {
    return await new Promise((resolve, reject) => {
      incarnation = new Incarnation({
        number: 0,
        boot,
        onMessage: (message) => {
          if (message.type === type) resolve(message);
          else reject(new Error(`${message.code ?? message.type}: ${message.message ?? "unexpected"}`));
        },
        onLost: (reason) => reject(new Error(reason)),
      });
    });
  } finally {
    incarnation?.kill();
  }
}
