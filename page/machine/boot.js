/**
 * Page side of a cold start (machine 6, step 2): everything that can be fetched, compiled or created starts at once.
 *
 * @module
 */

import { PageStore } from "./store.js";

/**
 * Where things are. Addresses are relative to the page.
 * @typedef {object} Assets
 * @property {string} engineBase directory of the engine's files, with a slash at the end
 * @property {string | null} imageUrl boot image; null where it is made
 * @property {string} kernelUrl
 * @property {string} preludeUrl the last part of the prelude; the other parts are beside it
 * @property {string} workerUrl
 * @property {import("./wheels.js").WheelIndex} wheels
 * @property {Record<string, string>} env
 * @property {string | null} [timezone] IANA name that the manifest asks for
 * @property {Limits} limits
 * @property {string[]} preload top-level names that are imported before base
 * @property {{engine: string, boot: string} | null} [installation] digests, where durable images are used
 */

/**
 * Bytes (machine 19).
 * @typedef {object} Limits
 * @property {number} heapBytes
 * @property {number} outputBytes
 * @property {number} fileBytes
 * @property {number} storeBytes
 */

/**
 * Everything that a worker needs and that incarnations share.
 * @typedef {object} BootMaterial
 * @property {"boot" | "make"} mode
 * @property {PageStore} store
 * @property {number} imageSlots slots 1 to this of the store hold the boot image
 * @property {WebAssembly.Module} engine
 * @property {WebAssembly.Module} kernel
 * @property {SharedArrayBuffer} stdlib
 * @property {import("./store.js").LoadedImage | null} image null only while the image is made
 * @property {string[]} prelude sources, empty unless the image is made
 * @property {string} indexUrl absolute address of the engine's directory
 * @property {Record<string, string>} environment
 * @property {string[]} preload
 * @property {import("./wheels.js").WheelIndex} wheels
 * @property {Limits} limits
 * @property {WorkerSource} workers
 */

/** Parts of the prelude in the order of execution. */
const PRELUDE_PARTS = ["prelude_loop.py", "prelude_wheels.py", "prelude_display.py", "prelude.py"];

/** Creates workers; the first one is created ahead, so that its scripts load while the rest is fetched. */
export class WorkerSource {
  #url;
  /** @type {StartedWorker | undefined} */
  #ahead;

  /** @param {string} url */
  constructor(url) {
    this.#url = url;
    this.#ahead = new StartedWorker(url);
  }

  /** @returns {StartedWorker} */
  take() {
    const worker = this.#ahead ?? new StartedWorker(this.#url);
    this.#ahead = undefined;
    return worker;
  }
}

/** A worker whose errors are kept until somebody listens. */
class StartedWorker {
  /** @type {Worker | undefined} */
  #worker;
  /** @type {string | undefined} */
  #error;
  /** @type {((reason: string) => void) | undefined} */
  #listener;

  /** @param {string} url */
  constructor(url) {
    try {
      this.#worker = new Worker(url, { type: "module" });
      this.#worker.onerror = (event) => {
        event.preventDefault();
        this.#fail(event.message || "the worker's scripts could not be loaded");
      };
    } catch (error) {
      this.#fail(`the worker could not be created: ${error}`);
    }
  }

  /** @param {string} reason */
  #fail(reason) {
    if (this.#listener === undefined) this.#error ??= reason;
    else this.#listener(reason);
  }

  /**
   * Reports errors from now on, earlier ones included, never before this call returned.
   * @param {(reason: string) => void} listener
   */
  listen(listener) {
    this.#listener = listener;
    const error = this.#error;
    if (error !== undefined) queueMicrotask(() => this.#listener?.(error));
  }

  /** @param {unknown} message @param {Transferable[]} transfer */
  post(message, transfer) {
    this.#worker?.postMessage(message, transfer);
  }

  end() {
    this.#listener = undefined;
    this.#worker?.terminate();
  }
}

/**
 * Loads everything for serving. Resolves when incarnations can be created.
 * @param {Assets} assets with an `imageUrl`
 * @param {Promise<Uint8Array | null>} [carried] another boot image to start from instead
 * @returns {Promise<BootMaterial>} rejects with the file and the reason
 */
export async function bootMachine(assets, carried = Promise.resolve(null)) {
  const { imageUrl } = assets;
  if (imageUrl === null) throw new Error("there is no boot image to start from");
  const store = new PageStore(assets.limits.storeBytes);
  const [common, image] = await Promise.all([loadCommon(assets), loadBootImage(imageUrl, store, carried)]);
  return material(assets, common, { mode: "boot", store, image, prelude: [] });
}

/**
 * Loads everything for making the image.
 * @param {Assets} assets
 * @returns {Promise<BootMaterial>}
 */
export async function makerMaterial(assets) {
  const prelude = Promise.all(
    PRELUDE_PARTS.map((name) => fetchText(new URL(name, new URL(assets.preludeUrl, document.baseURI)))),
  );
  const [common, sources] = await Promise.all([loadCommon(assets), prelude]);
  const store = new PageStore(MAKER_STORE_BYTES);
  return material(assets, common, { mode: "make", store, image: null, prelude: sources });
}

/** The maker's own store is never used; the worker's interface asks for one. */
const MAKER_STORE_BYTES = 1 << 20;

/**
 * @typedef {object} Common
 * @property {WorkerSource} workers
 * @property {WebAssembly.Module} engine
 * @property {WebAssembly.Module} kernel
 * @property {SharedArrayBuffer} stdlib
 */

/**
 * @param {Assets} assets
 * @returns {Promise<Common>}
 */
async function loadCommon({ workerUrl, engineBase, kernelUrl }) {
  const workers = new WorkerSource(workerUrl);
  const [engine, kernel, stdlib] = await Promise.all([
    compile(`${engineBase}pyodide.asm.wasm`),
    compile(kernelUrl),
    fetchShared(`${engineBase}python_stdlib.zip`),
  ]);
  return { workers, engine, kernel, stdlib };
}

/**
 * @param {Assets} assets
 * @param {Common} common
 * @param {Pick<BootMaterial, "mode" | "store" | "image" | "prelude">} own
 * @returns {BootMaterial}
 */
function material(assets, common, own) {
  return {
    ...own,
    ...common,
    imageSlots: own.image?.slots ?? 0,
    indexUrl: new URL(assets.engineBase, document.baseURI).href,
    environment: environment(assets),
    preload: assets.preload,
    wheels: assets.wheels,
    limits: { ...assets.limits, storeBytes: own.store.limitBytes },
  };
}

/** @param {Assets} assets */
function environment({ env, timezone }) {
  return { HOME: "/home/user", LANG: "en_US.UTF-8", ...(timezone ? { TZ: timezone } : {}), ...env };
}

/** @param {string | URL} url */
async function fetchChecked(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}: status ${response.status}`);
  return response;
}

/** @param {URL} url */
async function fetchText(url) {
  return (await fetchChecked(url)).text();
}

/** @param {string} url */
function compile(url) {
  return WebAssembly.compileStreaming(fetchChecked(url));
}

/** @param {Response} response */
function declaredLength(response) {
  const text = response.headers.get("content-length");
  return text === null ? undefined : Number(text);
}

/**
 * Fetches a file into shared memory; its length must be the announced one.
 * @param {string} url
 */
async function fetchShared(url) {
  const response = await fetchChecked(url);
  const declared = declaredLength(response);
  const bytes = new Uint8Array(await response.arrayBuffer());
  if (bytes.length === 0 || (declared !== undefined && declared !== bytes.length)) {
    throw new Error(`${url}: ${bytes.length} bytes arrived, ${declared} were announced`);
  }
  const shared = new SharedArrayBuffer(bytes.length);
  new Uint8Array(shared).set(bytes);
  return shared;
}

/**
 * @param {string} url
 * @param {PageStore} store
 * @param {Promise<Uint8Array | null>} carried
 */
async function loadBootImage(url, store, carried) {
  const bytes = await carried;
  if (bytes === null) return fetchImage(url, store);
  return store.loadImage(whole(bytes), undefined);
}

/** @param {Uint8Array} bytes */
async function* whole(bytes) {
  yield bytes;
}

/**
 * @param {string} url
 * @param {PageStore} store
 */
async function fetchImage(url, store) {
  const response = await fetchChecked(url);
  if (response.body === null) throw new Error(`${url}: there is no body`);
  const chunks = /** @type {AsyncIterable<Uint8Array>} */ (/** @type {unknown} */ (response.body));
  return store.loadImage(chunks, declaredLength(response));
}
