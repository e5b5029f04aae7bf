/**
 * Entry of the Python worker (machine 3, 6). Untrusted once guest code ran.
 *
 * The first and only message on the worker object brings the boot material and the port. What follows uses the port.
 *
 * @module
 */

import "./primitives.js";
import { checkBootstrap, fingerprint } from "./boot-check.js";
import { createCheckpoints } from "./checkpoint.js";
import { createCommands } from "./commands.js";
import { startEngine } from "./engine.js";
import { createEntries } from "./entry.js";
import { BootFailure } from "./failure.js";
import { createHost } from "./host-object.js";
import { makeImage } from "./make-image.js";
import { now } from "./primitives.js";
import { createSignals } from "./signals.js";
import { createClock, createStandIns } from "./stand-ins.js";
import { checkPolicy, lockdown, scrub } from "./walls.js";

/** @typedef {import("./engine.js").BootMessage} BootMessage */

/** Longest text of a failure. */
const TEXT_LIMIT = 8192;

/**
 * Boots to base, raises the walls and serves commands.
 * @param {BootMessage} boot
 */
async function serve(boot) {
  const started = now();
  checkPolicy();
  const { port } = boot;
  const { clock, host, standIns } = surroundings(boot);
  /** @type {import("./context.js").Checkpoints | undefined} */
  let checkpoints;
  const { context, api } = await startEngine({
    boot,
    clock,
    host,
    standIns,
    onEngine: (engine) => {
      checkpoints = createCheckpoints(engine);
      return (image) => checkpoints?.loadImage(image);
    },
  });
  if (checkpoints === undefined) throw new Error("the engine did not report its start");
  api.setInterruptBuffer(createSignals(boot.control));
  host.attach({ FS: context.module.FS, checkInterrupt: api.checkInterrupt });
  checkBootstrap(context);
  const entries = createEntries(context, api.pyimport("_machine"));
  const print = fingerprint(context);
  checkFingerprint(boot, print);
  await entries.boot(JSON.stringify({ environment: boot.environment, preload: boot.preload }));
  const base = checkpoints.takeBase(boot.free);
  scrub(standIns);
  lockdown();
  const execute = createCommands({ context, checkpoints, entries });
  port.onmessage = async ({ data }) => {
    const reply = await execute(data);
    port.postMessage(reply, (reply.displays ?? []).map((/** @type {{bytes: ArrayBuffer}} */ { bytes }) => bytes));
  };
  port.postMessage({
    type: "ready",
    heapBytes: base.heapBytes,
    table: base.table,
    bootMs: now() - started,
    ...(boot.image?.fingerprint === 0 ? { fingerprint: print } : {}),
  });
}

/**
 * @param {BootMessage} boot
 * @param {() => void} [onEntropy]
 */
function surroundings(boot, onEntropy = () => {}) {
  const clock = createClock();
  const standIns = createStandIns(clock, onEntropy);
  const { control, packageControl, packageBytes, port } = boot;
  const host = createHost({ control, packageControl, packageBytes, post: (message) => port.postMessage(message) });
  return { clock, host, standIns };
}

/** @param {BootMessage} boot @param {number} print */
function checkFingerprint({ image }, print) {
  const expected = image?.fingerprint ?? 0;
  if (expected !== 0 && expected !== print) {
    throw new BootFailure("MACHINE_ENGINE_INCOMPATIBLE", "the references differ from the boot image's", "fingerprint");
  }
}

/** @param {BootMessage} boot */
async function make(boot) {
  let draws = 0;
  const { clock, host, standIns } = surroundings(boot, () => {
    draws += 1;
  });
  const { context, api } = await startEngine({ boot, clock, host, standIns, onEngine: () => () => {} });
  const made = makeImage(context, api, { prelude: boot.prelude, draws: () => draws });
  boot.port.postMessage({ type: "image", ...made }, [made.image]);
}

globalThis.onmessage = async (event) => {
  globalThis.onmessage = null;
  const boot = /** @type {BootMessage} */ (event.data);
  try {
    await (boot.mode === "make" ? make(boot) : serve(boot));
  } catch (thrown) {
    const known = thrown instanceof BootFailure;
    boot.port.postMessage({
      type: "failed",
      code: known ? thrown.code : "MACHINE_BOOT_FAILED",
      message: (thrown instanceof Error ? thrown.message : String(thrown)).slice(0, TEXT_LIMIT),
      ...(known && thrown.item !== undefined ? { item: thrown.item } : {}),
    });
  }
};
