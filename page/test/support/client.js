// Runs in the page under test: one machine, driven with plain calls.

import { bootMachine } from "../../machine/boot.js";
import { Incarnation } from "../../machine/incarnation.js";
import { makeBootImage } from "../../machine/maker.js";

const MEBIBYTE = 1 << 20;

const DEFAULTS = {
  engineBase: "/engine/",
  imageUrl: "/image.bin",
  kernelUrl: "/worker/kernel.wasm",
  preludeUrl: "/worker/prelude.py",
  workerUrl: "/worker/worker.js",
  wheels: {},
  env: {},
  timezone: null,
  limits: { heapBytes: 512 * MEBIBYTE, outputBytes: MEBIBYTE, fileBytes: 256 * MEBIBYTE, storeBytes: 1024 * MEBIBYTE },
  preload: [],
};

export async function make() {
  const { image, entropy } = await makeBootImage({ ...DEFAULTS, imageUrl: null });
  const bytes = new Uint8Array(image);
  let text = "";
  for (let at = 0; at < bytes.length; at += 32768) text += String.fromCharCode(...bytes.subarray(at, at + 32768));
  return { image: btoa(text), entropy };
}

/** One incarnation and the replies it owes. */
export class Machine {
  #incarnation;
  #waiting = new Map();
  #next = 1;
  #first;
  /** @type {Record<string, any> | undefined} */
  ready;
  /** @type {string | undefined} */
  lost;

  constructor(boot, number = 1) {
    const { promise, resolve } = Promise.withResolvers();
    this.#first = promise;
    this.#incarnation = new Incarnation({
      number,
      boot,
      onMessage: (message) => {
        if (message.type === "reply") {
          this.#waiting.get(message.id)?.(message);
          this.#waiting.delete(message.id);
        } else resolve(message);
      },
      onLost: (reason) => {
        this.lost = reason;
        resolve({ type: "lost", reason });
      },
    });
  }

  /** The first message: ready, failed or lost. */
  first() {
    return this.#first;
  }

  async command(members) {
    const id = this.#next++;
    const { promise, resolve } = Promise.withResolvers();
    this.#waiting.set(id, resolve);
    this.#incarnation.post({ id, ...members });
    const { type, ...reply } = await promise;
    return reply;
  }

  /** A run's reply with the output it wrote. */
  async run(code) {
    const reply = await this.command({ op: "run", code, runSeq: this.#next });
    return { ...reply, ...this.#incarnation.takeOutput() };
  }

  /**
   * Starts a run and interrupts it after each delay in milliseconds, `null` meaning at once; returns its reply and the
   * time after the first interrupt.
   */
  async interrupted(code, ...delays) {
    const running = this.run(code);
    let since = 0;
    for (const delay of delays) {
      if (delay !== null) await new Promise((done) => setTimeout(done, delay));
      since ||= performance.now();
      this.#incarnation.interrupt();
    }
    const reply = await running;
    return { ...reply, after: performance.now() - since };
  }

  interrupt() {
    this.#incarnation.interrupt();
  }

  output() {
    return this.#incarnation.takeOutput();
  }

  kill() {
    this.#incarnation.kill();
  }
}

/** @param {Record<string, any>} [assets] */
export async function start(assets = {}) {
  const boot = await bootMachine({ ...DEFAULTS, ...assets, limits: { ...DEFAULTS.limits, ...assets.limits } });
  const machine = new Machine(boot);
  const first = await machine.first();
  return { boot, machine, first };
}
