/**
 * Durable images as the page moves them: it makes one of a state and keeps it until it is sent, or fetches one and puts it
 * into the page store (machine 18).
 *
 * @module
 */

import { INTERPOSITION_VERSION } from "../worker/interpose.js";
import { carriedBootImage, exportImage, ImageError, openImage, placeImage, readImage } from "./image-file.js";
import { contentsOf } from "./record.js";

/** Version of the prelude in the boot image, `VERSION` of `prelude.py`. */
export const PRELUDE_VERSION = 1;

/**
 * What became of an image.
 * @typedef {{type: "made", bytes: number}
 *   | {type: "placed", table: Uint32Array, record: string, identities: Float64Array}
 *   | {type: "refused", code: string, message: string}} ImageAnswer
 */

/** @typedef {import("./image-file.js").OpenedImage} OpenedImage */

/**
 * What is there besides the versions that this page has: digests, absent where the host does not use images.
 * @typedef {{engine: string, boot: string} | null | undefined} HostInstallation
 */

/**
 * Opens the image that the machine is to start from, so that its boot image can be used where it differs.
 * @param {string} address
 * @param {HostInstallation} installation
 * @returns {{opened: Promise<OpenedImage>, carried: Promise<{digest: string, bytes: Uint8Array} | null>}} what is wrong
 *   with the image is said where it is placed: `carried` never rejects
 */
export function startFrom(address, installation) {
  const opened = fetchImage(address);
  const carried = opened.then(
    (image) => carriedBootImage(image, here(installation)),
    () => null,
  );
  return { opened, carried };
}

/** The images of one page. */
export class Images {
  #boot;
  #contents;
  #installation;
  #opened;
  /** @type {Uint8Array<ArrayBuffer> | undefined} */
  #made;
  #identity = 0;

  /**
   * @param {object} given
   * @param {import("./boot.js").BootMaterial} given.boot
   * @param {Map<number, Uint8Array>} given.contents file contents by identity; those of placed images are added
   * @param {HostInstallation} given.installation
   * @param {Map<string, Promise<OpenedImage>>} given.opened images that are fetched already, by address
   */
  constructor({ boot, contents, installation, opened }) {
    this.#boot = boot;
    this.#contents = contents;
    this.#installation = installation;
    this.#opened = opened;
  }

  /**
   * Makes an image and keeps it.
   * @param {object} state
   * @param {Uint32Array} state.table
   * @param {string} state.record JSON text
   * @param {number} state.limit most bytes of the image
   * @returns {Promise<ImageAnswer>} never rejects
   */
  make({ table, record, limit }) {
    return answered(async () => {
      const { store, imageSlots } = this.#boot;
      this.#made = await exportImage({
        installation: here(this.#installation),
        table,
        record: JSON.parse(record),
        contents: (identity) => this.#contents.get(identity),
        store,
        imageSlots,
        createdAt: new Date().toISOString(),
        bootBytes: store.bootImage(),
        limit,
      });
      return { type: "made", bytes: this.#made.length };
    });
  }

  /** The image that was made last; it is not kept any longer. */
  take() {
    const made = this.#made;
    this.#made = undefined;
    return made;
  }

  /**
   * Fetches an image, checks it, and places it.
   * @param {string} address
   * @param {Uint32Array} free slots of the store that nothing uses
   * @returns {Promise<ImageAnswer>} never rejects
   */
  place(address, free) {
    return answered(async () => {
      const opening = this.#opened.get(address) ?? fetchImage(address);
      this.#opened.delete(address);
      const { store, imageSlots, limits } = this.#boot;
      const image = await readImage(await opening, {
        installation: here(this.#installation),
        limits,
        imageSlots,
        nextIdentity: () => (this.#identity += 1),
      });
      const table = placeImage(image, store, free);
      for (const { identity, bytes } of image.contents) this.#contents.set(identity, bytes);
      const identities = Float64Array.from(contentsOf(image.record).keys());
      return { type: "placed", table, record: JSON.stringify(image.record), identities };
    });
  }
}

/** @param {HostInstallation} installation */
function here(installation) {
  if (!installation) throw new Error("the host has not enabled images");
  return { ...installation, prelude: PRELUDE_VERSION, interposition: INTERPOSITION_VERSION };
}

/** @param {string} address */
async function fetchImage(address) {
  const response = await fetch(address);
  if (!response.ok) throw new Error(`the image could not be fetched: status ${response.status}`);
  return openImage(new Uint8Array(await response.arrayBuffer()));
}

/**
 * @param {() => Promise<ImageAnswer>} work
 * @returns {Promise<ImageAnswer>}
 */
async function answered(work) {
  try {
    return await work();
  } catch (error) {
    const code = error instanceof ImageError ? error.code : "PYPROC_INTERNAL";
    return { type: "refused", code, message: error instanceof Error ? error.message : String(error) };
  }
}
