// Runs in the page under test: the page's side of checkpoints, without the core's decisions.

import { carriedBootImage, exportImage, openImage, placeImage, readImage } from "../machine/image-file.js";
import { contentsOf } from "../machine/record.js";
import { Machine, start } from "./support/client.js";

const LIMITS = { heapBytes: 512 << 20, fileBytes: 256 << 20 };

/** What images of the tests are made with. */
export const INSTALLATION = { engine: "a".repeat(64), boot: "b".repeat(64), prelude: 1, interposition: 1 };

/** States of one page store, the incarnations that made them, and the contents they name. */
export class Bench {
  #boot;
  #number = 1;
  #spare;
  #seq = 0;
  #owned = new Set();
  #contents = new Map();
  #base;
  #current;
  #free = null;
  #imported = 0;
  #kept = new Uint8Array(0);
  states = new Map();
  machine;

  static async open(assets) {
    const { boot, machine, first } = await start(assets);
    if (first.type !== "ready") throw new Error(JSON.stringify(first));
    return new Bench(boot, machine, first);
  }

  constructor(boot, machine, first) {
    this.#boot = boot;
    this.#enter(machine, first);
  }

  #enter(machine, first) {
    this.machine = machine;
    this.#base = first.table;
    this.#current = first.table;
    this.#owned = new Set([0]);
  }

  get heldContents() {
    return this.#contents.size;
  }

  get storeSlots() {
    return Atomics.load(this.#boot.store.counter, 0);
  }

  async run(code) {
    const { durationMs, ...reply } = await this.machine.run(code);
    return reply;
  }

  hook(name, value) {
    return this.machine.command({ op: "hook", name, value });
  }

  /** The value of a run that must not fail. */
  async value(code) {
    const reply = await this.machine.run(code);
    if (!reply.ok) throw new Error(reply.error?.traceback ?? JSON.stringify(reply));
    return reply.value;
  }

  /** What a run that must not fail writes. */
  async output(code) {
    const reply = await this.machine.run(code);
    if (!reply.ok) throw new Error(reply.error?.traceback ?? JSON.stringify(reply));
    return reply.stdout;
  }

  async save() {
    const seq = this.#seq + 1;
    const reply = await this.machine.command({ op: "save", seq, free: this.#free });
    this.#free = null;
    if (!reply.ok) return reply;
    this.#seq = seq;
    this.#owned.add(seq);
    this.#current = reply.table;
    this.states.set(seq, { table: reply.table, record: reply.record });
    for (const { identity, bytes } of reply.contents) this.#contents.set(identity, bytes);
    const { table, record, contents, identities, ...rest } = reply;
    const named = [...contentsOf(record).keys()];
    if (new Set(identities).size !== named.length || named.some((identity) => !identities.includes(identity))) {
      throw new Error("the reply names other contents than the record");
    }
    return { ...rest, seq, sent: contents.length, sentBytes: contents.reduce((sum, { bytes }) => sum + bytes.length, 0) };
  }

  owns(seq) {
    return this.#owned.has(seq);
  }

  async restore(seq) {
    const { table, ...reply } = await this.machine.command({ op: "restore", seq, verify: true });
    if (reply.ok) this.#current = table;
    return reply;
  }

  async #next() {
    this.#number += 1;
    const machine = new Machine(this.#boot, this.#number);
    return { machine, first: await machine.first() };
  }

  /** Boots the incarnation that the next `recycle` switches to. */
  prepare() {
    this.#spare ??= this.#next();
    return this.#spare;
  }

  /** Kills the incarnation and continues in a fresh one, from a state or from base. */
  async recycle(seq) {
    const next = this.prepare();
    this.#spare = undefined;
    this.machine.kill();
    const { machine, first } = await next;
    if (first.type !== "ready") throw new Error(JSON.stringify(first));
    this.#enter(machine, first);
    return seq === undefined ? { ok: true } : this.adopt(seq);
  }

  async adopt(seq, change = (record) => record) {
    const { table, record } = this.states.get(seq);
    const contents = [...contentsOf(record).keys()].map((identity) => {
      const bytes = this.#contents.get(identity);
      if (bytes === undefined) throw new Error(`the page does not hold ${identity}`);
      return { identity, bytes };
    });
    const given = { seq, table, record: change(structuredClone(record)), contents, free: this.#sweep() };
    const { table: made, ...reply } = await this.machine.command({ op: "adopt", verify: true, ...given });
    if (reply.ok) {
      this.#current = made;
      this.#owned.add(seq);
    }
    return reply;
  }

  async forget(...seqs) {
    for (const seq of seqs) {
      this.states.delete(seq);
      this.#owned.delete(seq);
    }
    const named = new Set([...this.states.values()].flatMap(({ record }) => [...contentsOf(record).keys()]));
    for (const identity of this.#contents.keys()) if (!named.has(identity)) this.#contents.delete(identity);
    return this.machine.command({ op: "forget", seqs });
  }

  /** A state as a durable image, in base64. */
  async exportImage(seq, options = {}) {
    const image = await this.#export(seq, options);
    return { base64: encode(image), bytes: image.length };
  }

  #export(seq, options) {
    const { table, record } = this.states.get(seq);
    const { store, imageSlots } = this.#boot;
    return exportImage({
      installation: INSTALLATION,
      ...{ table, record, store, imageSlots, createdAt: "2026-01-01T00:00:00Z", label: "test", ...options },
      contents: (identity) => this.#contents.get(identity),
    });
  }

  /** An export that carries the boot image, of which it says that its digest is `boot`. It stays in this page. */
  async keepCarrying(seq, boot) {
    const bootBytes = this.#boot.store.bootImage();
    this.#kept = await this.#export(seq, { bootBytes, installation: { ...INSTALLATION, boot } });
  }

  /** An export that does not. */
  async keepBare(seq) {
    this.#kept = await this.#export(seq, {});
  }

  /** What an installation finds in the export: length and digest of the boot image that it may start from. */
  async carried(installation) {
    const carried = await carriedBootImage(await openImage(this.#kept), { ...INSTALLATION, ...installation });
    return carried === null ? null : { digest: carried.digest, bytes: carried.bytes.length };
  }

  importKept(installation) {
    return this.#import(this.#kept, { installation: { ...INSTALLATION, ...installation } });
  }

  /** Reads an image and makes it a state of this page. The code of a refusal, else the sequence number. */
  async importImage(base64, options = {}) {
    const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
    options.change?.(bytes);
    return this.#import(bytes, options);
  }

  async #import(bytes, options) {
    const { store, imageSlots } = this.#boot;
    try {
      const image = await readImage(await openImage(bytes), { installation: INSTALLATION, limits: LIMITS, imageSlots, nextIdentity: () => (this.#imported += 1), ...options });
      this.#seq += 1;
      this.states.set(this.#seq, { table: placeImage(image, store, options.free ?? new Uint32Array(0)), record: image.record });
      for (const { identity, bytes: content } of image.contents) this.#contents.set(identity, content);
      return { ok: true, seq: this.#seq };
    } catch (error) {
      return { ok: false, code: error.code, message: error.message };
    }
  }

  /** Slots that nothing names. */
  #sweep() {
    const used = new Uint8Array(this.storeSlots);
    used.fill(1, 0, this.#boot.imageSlots + 1);
    for (const table of [this.#base, this.#current, ...Array.from(this.states.values(), ({ table }) => table)]) {
      for (const slot of table) used[slot] = 1;
    }
    const free = [];
    used.forEach((mark, slot) => {
      if (mark === 0) free.push(slot);
    });
    return Uint32Array.from(free);
  }

  /** The next save gets the list of free slots. Returns how many there are. */
  sweep() {
    this.#free = this.#sweep();
    return this.#free.length;
  }
}

/** @param {Uint8Array} bytes */
function encode(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; at += 32768) text += String.fromCharCode(...bytes.subarray(at, at + 32768));
  return btoa(text);
}

/** Random numbers that depend on the seed only. */
export function generator(seed) {
  let state = seed >>> 0;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 4294967296) * below);
  };
}

/**
 * Random work with saves, restores, recycles, sweeps and forgetting (machine 23, case 40). Throws with the first lines
 * of the state that differ.
 */
export async function randomWork({ program, seed, rounds, assets, recycle }) {
  const below = generator(seed);
  const bench = await Bench.open(assets);
  await bench.value(program);
  const states = [];
  const done = { steps: 0, saves: 0, restores: 0, recycles: 0, sweeps: 0, forgotten: 0 };
  const details = async () => JSON.parse(await bench.output("import json; print(json.dumps(details()))"));
  const check = async (state, how, round) => {
    if ((await bench.value("digest()")) === state.digest) return;
    const now = await details();
    const differing = now.flatMap((line, i) => (line === state.details[i] ? [] : [`- ${state.details[i]}\n+ ${line}`]));
    throw new Error(`seed ${seed}, round ${round}: ${how} of ${state.seq} differs\n${differing.slice(0, 5).join("\n")}`);
  };
  const expectOk = (reply, what) => {
    if (!reply.ok) throw new Error(`seed ${seed}: ${what}: ${JSON.stringify(reply)}`);
  };
  const save = async () => {
    const digest = await bench.value("digest()");
    const lines = await details();
    const reply = await bench.save();
    expectOk(reply, "save");
    if (!reply.portable) throw new Error(`seed ${seed}: a save is not portable`);
    states.push({ seq: reply.seq, digest, details: lines });
    done.saves += 1;
    if (states.length > 12) {
      const [dropped] = states.splice(below(10), 1);
      expectOk(await bench.forget(dropped.seq), "forget");
      done.forgotten += 1;
    }
  };
  const pick = () => states[below(states.length)];
  await save();
  for (let round = 0; round < rounds; round += 1) {
    const choice = below(10);
    if (choice < 5) {
      for (let i = below(6); i >= 0; i -= 1) await bench.value(`step(${below(100000)})`);
      done.steps += 1;
    } else if (choice < 7) {
      await save();
    } else if (choice < 9) {
      const state = pick();
      if (!bench.owns(state.seq)) continue;
      expectOk(await bench.restore(state.seq), "restore");
      await check(state, "restore", round);
      done.restores += 1;
    } else if (below(2) === 0) {
      bench.sweep();
      done.sweeps += 1;
    } else if (recycle) {
      const state = pick();
      expectOk(await bench.recycle(state.seq), "adopt");
      await check(state, "adoption", round);
      done.recycles += 1;
    }
  }
  bench.machine.kill();
  return done;
}
