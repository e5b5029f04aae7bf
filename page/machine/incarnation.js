/**
 * One Python worker from creation to termination, seen from the page (machine 3).
 *
 * @module
 */

import { CONTROL, PACKAGE, PIECE_BYTES, SIGINT } from "../worker/layout.js";
import { takeOutput } from "./output.js";
import { answerWheel } from "./wheels.js";

export { bootMachine } from "./boot.js";

/** Longest name in a wheel request. */
const NAME_LIMIT = 128;

/** Longest text of a failed boot. */
const TEXT_LIMIT = 65536;

/** @typedef {import("./boot.js").Assets} Assets */
/** @typedef {import("./boot.js").BootMaterial} BootMaterial */

/**
 * @typedef {object} IncarnationOptions
 * @property {number} number
 * @property {BootMaterial} boot
 * @property {Uint32Array} [free] free slots of the page store, which the base uses first
 * @property {(message: Record<string, any>, table?: Uint32Array) => void} onMessage `table` is the message's member
 * @property {(reason: string) => void} onLost
 */

export class Incarnation {
  number;
  #control = new Int32Array(new SharedArrayBuffer(CONTROL.cells * 4));
  #output;
  /** @type {import("./wheels.js").PackageBlock} */
  #packages = {
    control: new Int32Array(new SharedArrayBuffer(PACKAGE.cells * 4)),
    bytes: new Uint8Array(new SharedArrayBuffer(PIECE_BYTES)),
  };
  #wheels;
  /** Answers to wheel requests, one after the other. */
  #answers = Promise.resolve();
  #ended = new AbortController();
  #worker;
  /** @type {MessagePort} */
  #port;
  #onMessage;
  #onLost;

  /** @param {IncarnationOptions} options */
  constructor({ number, boot, free = new Uint32Array(0), onMessage, onLost }) {
    this.number = number;
    this.#onMessage = onMessage;
    this.#onLost = onLost;
    this.#wheels = boot.wheels;
    this.#output = new Uint8Array(new SharedArrayBuffer(boot.limits.outputBytes));
    const { port1, port2 } = new MessageChannel();
    this.#port = port1;
    port1.onmessage = (event) => this.#receive(event.data);
    port1.onmessageerror = () => this.#lose("a message could not be read");
    this.#worker = boot.workers.take();
    this.#worker.listen((reason) => this.#lose(reason));
    this.#worker.post(this.#bootMessage(boot, free, port2), [port2]);
  }

  /**
   * @param {BootMaterial} boot
   * @param {Uint32Array} free
   * @param {MessagePort} port
   * @returns {import("../worker/engine.js").BootMessage}
   */
  #bootMessage({ mode, store, engine, kernel, stdlib, image, prelude, indexUrl, environment, preload, limits }, free, port) {
    return {
      mode,
      incarnation: this.number,
      port,
      engine,
      kernel,
      indexUrl,
      stdlib,
      store: store.memory,
      storeCounter: store.counter,
      free,
      control: this.#control,
      output: this.#output,
      packageControl: this.#packages.control,
      packageBytes: this.#packages.bytes,
      image,
      prelude,
      environment,
      preload,
      limits,
    };
  }

  /**
   * Sends a command. The caller sends the next one only after the reply, so an interrupt always means this command.
   * @param {Record<string, any>} command
   */
  post(command) {
    Atomics.store(this.#control, CONTROL.signal, 0);
    Atomics.store(this.#control, CONTROL.interrupted, 0);
    this.#port.postMessage(command);
  }

  /** Asks the command that executes to stop (machine 14.1, step 0). */
  interrupt() {
    Atomics.store(this.#control, CONTROL.interrupted, 1);
    Atomics.store(this.#control, CONTROL.signal, SIGINT);
    this.#wake();
  }

  #wake() {
    Atomics.add(this.#control, CONTROL.wake, 1);
    Atomics.notify(this.#control, CONTROL.wake);
    Atomics.notify(this.#packages.control, PACKAGE.turn);
  }

  /** Decodes the output block and empties it. To be called between commands or after `kill`. */
  takeOutput() {
    return takeOutput(this.#control, this.#output);
  }

  /** Ends the incarnation at once; no callback is made afterwards. The output block stays readable. */
  kill() {
    this.#ended.abort();
    Atomics.store(this.#control, CONTROL.stop, -1);
    Atomics.store(this.#control, CONTROL.signal, SIGINT);
    this.#wake();
    this.#worker.end();
    this.#port.onmessage = null;
    this.#port.onmessageerror = null;
    this.#port.close();
  }

  /** @param {unknown} data */
  #receive(data) {
    if (!isMessage(data)) {
      this.#lose("the worker sent something that is not a message");
      return;
    }
    if (data.type !== "wheel") {
      this.#deliver(data);
      return;
    }
    const { name, request } = data;
    if (typeof name !== "string" || name.length > NAME_LIMIT || !Number.isInteger(request)) {
      this.#lose("the worker asked for a wheel in another form");
      return;
    }
    const answer = () => answerWheel({ name, request }, this.#wheels, this.#packages, this.#ended.signal);
    this.#answers = this.#answers.then(answer, answer);
  }

  /** @param {Record<string, any>} message */
  #deliver(message) {
    if (this.#ended.signal.aborted) return;
    this.#onMessage(message, message.table);
  }

  /** @param {string} reason */
  #lose(reason) {
    if (this.#ended.signal.aborted) return;
    this.#onLost(reason.slice(0, TEXT_LIMIT));
  }
}

/** @param {unknown} value @returns {value is Record<string, any>} */
function isPlainObject(value) {
  return typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}

/** @param {unknown} displays */
function isDisplays(displays) {
  if (!Array.isArray(displays)) return false;
  return displays.every((shown) => isPlainObject(shown) && shown.bytes instanceof ArrayBuffer);
}

/**
 * Whether a message has the rough shape of one of the worker's; the core validates members in depth.
 * @param {unknown} data
 * @returns {data is Record<string, any>}
 */
function isMessage(data) {
  if (!isPlainObject(data)) return false;
  if (data.table !== undefined && !(data.table instanceof Uint32Array)) return false;
  if (data.displays !== undefined && !isDisplays(data.displays)) return false;
  switch (data.type) {
    case "ready":
      return data.table !== undefined && Number.isInteger(data.heapBytes);
    case "failed":
      return typeof data.code === "string" && typeof data.message === "string" && data.message.length <= TEXT_LIMIT;
    case "wheel":
      return true;
    case "image":
      return data.image instanceof ArrayBuffer;
    case "reply":
      return data.id !== undefined && typeof data.ok === "boolean";
    default:
      return false;
  }
}
