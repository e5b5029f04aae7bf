/**
 * Entry of the machine page: takes the bootstrap data, starts the core and the machine, and moves work between them.
 * Decisions are the core's; this module owns the bridge socket, the timer and the workers' objects.
 *
 * @module
 */

import initCore, { MachineCore } from "./core.js";
import { bePresent, Bridge } from "./bridge.js";
import { bootMachine, Incarnation } from "./incarnation.js";
import { Images, startFrom } from "./images.js";
import { makeImage } from "./maker.js";
import { contentsOf } from "./record.js";

/**
 * @typedef {object} Bootstrap
 * @property {string} capability proves to the host that this is its page
 * @property {"serve" | "make"} mode serve the machine, or make the boot image
 * @property {Record<string, any>} settings settings of the core
 * @property {import("./incarnation.js").Assets} assets where everything is
 */

/**
 * Takes the bootstrap data out of the document. From here on the capability exists only where this value goes.
 * @returns {Bootstrap}
 */
function takeBootstrap() {
  const element = document.getElementById("bootstrap");
  if (element === null) {
    throw new Error("this page was not started by its host");
  }
  const bootstrap = JSON.parse(element.textContent ?? "");
  element.remove();
  history.replaceState(null, "", location.pathname);
  return bootstrap;
}

/** A blocking dialog must not be able to freeze the machine. */
function silenceDialogs() {
  window.alert = () => {};
  window.confirm = () => false;
  window.prompt = () => null;
}

/** Everything between the core and the world. */
class Machine {
  /**
   * @param {MachineCore} core
   * @param {import("./incarnation.js").BootMaterial} boot
   * @param {Bridge} bridge
   * @param {Pick<ConstructorParameters<typeof Images>[0], "installation" | "opened">} images
   */
  constructor(core, boot, bridge, images) {
    this.core = core;
    this.boot = boot;
    this.bridge = bridge;
    /** @type {Map<number, Incarnation>} */
    this.incarnations = new Map();
    /** File contents by identity, for states that must be rebuilt in another worker. @type {Map<number, Uint8Array>} */
    this.contents = new Map();
    this.images = new Images({ ...images, boot, contents: this.contents });
    /** What the last run displayed, until it is sent. @type {ArrayBuffer[]} */
    this.displays = [];
    /** @type {number | undefined} */
    this.timer = undefined;
    bridge.onMessage = (text) => this.tell((now) => core.bridgeMessage(now, text));
    bridge.onClosed = () => this.tell((now) => core.bridgeClosed(now));
  }

  /**
   * Tells the core one thing, then does what it asks for.
   * @param {(now: number) => void} say
   */
  tell(say) {
    say(performance.now());
    for (let work = this.core.poll(); work !== undefined; work = this.core.poll()) {
      this.perform(work);
    }
    this.schedule();
  }

  schedule() {
    clearTimeout(this.timer);
    const deadline = this.core.deadline();
    if (deadline !== undefined) {
      const wait = Math.max(0, deadline - performance.now());
      this.timer = setTimeout(() => this.tell((now) => this.core.tick(now)), wait);
    }
  }

  /** @param {import("./core.js").PageWork} work */
  perform(work) {
    switch (work.type) {
      case "send":
        this.bridge.send(work.text);
        break;
      case "spawn":
        this.spawn(work.incarnation, work.free);
        break;
      case "post":
        this.post(work);
        break;
      case "interrupt":
        this.incarnations.get(work.incarnation)?.interrupt();
        break;
      case "kill":
        this.kill(work.incarnation);
        break;
      case "keepContents":
        this.keepContents(work.identities);
        break;
      case "makeImage":
        void this.images.make(work).then((answer) => this.answerImage(answer));
        break;
      case "sendImage": {
        const image = this.images.take();
        if (image !== undefined) void this.bridge.sendBytes(image.buffer);
        break;
      }
      case "sendDisplays":
        void this.sendDisplays();
        break;
      case "placeImage":
        void this.images.place(work.address, work.free).then((answer) => this.answerImage(answer));
        break;
    }
  }

  /** @param {import("./images.js").ImageAnswer} answer */
  answerImage(answer) {
    this.tell((now) => {
      switch (answer.type) {
        case "made":
          this.core.imageMade(now, answer.bytes);
          break;
        case "placed":
          this.core.imagePlaced(now, answer.table, answer.record, answer.identities);
          break;
        case "refused":
          this.core.imageRefused(now, answer.code, answer.message);
          break;
      }
    });
  }

  /** @param {number} number @param {Uint32Array} free */
  spawn(number, free) {
    const incarnation = new Incarnation({
      number,
      boot: this.boot,
      free,
      onMessage: (message) => this.receive(incarnation, message),
      onLost: (reason) => this.tell((now) => this.core.workerLost(now, number, reason)),
    });
    this.incarnations.set(number, incarnation);
  }

  /**
   * @param {Incarnation} incarnation
   * @param {Record<string, any>} message
   */
  receive(incarnation, message) {
    const { table, record, contents, displays, ...plain } = message;
    if (plain.type === "reply") this.keepDisplays(plain, displays);
    if (Array.isArray(contents)) {
      for (const { identity, bytes } of contents) {
        this.contents.set(identity, bytes);
      }
    }
    const printed = plain.type === "reply" ? incarnation.takeOutput() : undefined;
    this.tell((now) =>
      this.core.workerMessage(
        now,
        incarnation.number,
        JSON.stringify(plain),
        printed && JSON.stringify(printed),
        table instanceof Uint32Array ? table : undefined,
        record === undefined ? undefined : JSON.stringify(record),
      ),
    );
  }

  /**
   * Keeps what a run displayed; the core hears of it and not the bytes.
   * @param {Record<string, any>} reply
   * @param {{mimeType: unknown, bytes: ArrayBuffer}[]} [displays]
   */
  keepDisplays(reply, displays = []) {
    this.displays = displays.map(({ bytes }) => bytes);
    if (displays.length > 0) {
      reply.displays = displays.map(({ mimeType, bytes }) => ({ mimeType, byteLength: bytes.byteLength }));
    }
  }

  async sendDisplays() {
    for (const bytes of this.displays.splice(0)) {
      await this.bridge.sendBytes(bytes);
    }
  }

  /** @param {Extract<import("./core.js").PageWork, { type: "post" }>} work */
  post(work) {
    /** @type {Record<string, any>} */
    const command = JSON.parse(work.command);
    if (command.op === "save" || command.op === "adopt") {
      command.free = work.free ?? null;
    }
    if (command.op === "adopt") {
      command.table = work.table;
      command.record = JSON.parse(work.record ?? "null");
      command.contents = this.neededContents(command.record);
    }
    this.incarnations.get(work.incarnation)?.post(command);
  }

  /**
   * The contents that a record names. One that is missing is the worker's to report.
   * @param {import("./record.js").PackedRecord} record
   */
  neededContents(record) {
    const needed = [];
    for (const identity of contentsOf(record).keys()) {
      const bytes = this.contents.get(identity);
      if (bytes !== undefined) needed.push({ identity, bytes });
    }
    return needed;
  }

  /** @param {number} number */
  kill(number) {
    const incarnation = this.incarnations.get(number);
    if (incarnation === undefined) {
      return;
    }
    this.incarnations.delete(number);
    incarnation.kill();
    const printed = JSON.stringify(incarnation.takeOutput());
    queueMicrotask(() => this.tell((now) => this.core.workerKilled(now, number, printed)));
  }

  /** @param {Float64Array} identities */
  keepContents(identities) {
    const kept = new Set(identities);
    for (const identity of this.contents.keys()) {
      if (!kept.has(identity)) {
        this.contents.delete(identity);
      }
    }
  }
}

/** @param {Bootstrap} bootstrap */
async function serve({ capability, settings, assets }) {
  const bridge = new Bridge();
  const epoch = crypto.randomUUID();
  try {
    const coreUrl = new URL("core_bg.wasm", import.meta.url);
    const { load } = settings;
    const start = load ? startFrom(load, assets.installation) : undefined;
    const carried = start?.carried ?? Promise.resolve(null);
    const [boot, other] = await Promise.all([
      bootMachine(assets, carried.then((image) => image?.bytes ?? null)),
      carried,
      initCore({ module_or_path: coreUrl }),
    ]);
    const core = new MachineCore(capability, epoch, JSON.stringify(settings), boot.imageSlots);
    const installation = assets.installation && { ...assets.installation, ...(other ? { boot: other.digest } : {}) };
    const images = { installation, opened: new Map(start ? [[load, start.opened]] : []) };
    new Machine(core, boot, bridge, images).tell((now) => core.start(now));
  } catch (error) {
    const details = { cause: "MACHINE_BOOT_FAILED" };
    bridge.send(JSON.stringify({ type: "bootFailed", token: capability, message: String(error), details }));
  }
}

/** @param {Bootstrap} bootstrap */
async function make({ capability, assets }) {
  const bridge = new Bridge();
  try {
    const image = await makeImage(assets);
    bridge.send(JSON.stringify({ type: "image", token: capability, byteLength: image.byteLength }));
    void bridge.sendBytes(image);
  } catch (error) {
    bridge.send(JSON.stringify({ type: "bootFailed", token: capability, message: String(error) }));
  }
}

const bootstrap = takeBootstrap();
silenceDialogs();
/** Kept here, so that it is never collected. */
export const presence = bePresent(bootstrap.capability);
void (bootstrap.mode === "make" ? make(bootstrap) : serve(bootstrap));
