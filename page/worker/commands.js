/**
 * Executes the page's commands, one at a time, each answered by exactly one reply.
 *
 * @module
 */

import { EngineFailure } from "./entry.js";
import { describe } from "./failure.js";
import { filesChanged } from "./files.js";
import { CONTROL } from "./layout.js";
import { openStreams } from "./output.js";

/**
 * @typedef {object} CommandParts
 * @property {import("./context.js").EngineContext} context
 * @property {import("./context.js").Checkpoints} checkpoints
 * @property {import("./entry.js").Entries} entries
 */

/**
 * What the run displayed, as bytes.
 * @param {[mimeType: string, base64: string][] | undefined} displays
 * @returns {{displays?: {mimeType: string, bytes: ArrayBuffer}[]}}
 */
function withDisplays(displays) {
  if (displays === undefined) return {};
  return { displays: displays.map(([mimeType, data]) => ({ mimeType, bytes: Uint8Array.fromBase64(data).buffer })) };
}

/**
 * Returns the function that executes one command and resolves to its reply. It never rejects.
 * @param {CommandParts} parts
 * @returns {(command: any) => Promise<Record<string, any>>}
 */
export function createCommands({ context, checkpoints, entries }) {
  const { control, memory, registries, clock } = context;
  /** @type {string | undefined} */
  let failed;
  let busy = false;

  /** @param {any} command */
  const run = async ({ code, runSeq }) => {
    for (const registry of registries) registry.drain();
    openStreams(context.module.FS);
    const answer = await entries.run(code, runSeq);
    for (const registry of registries) registry.drain();
    if (answer.error === undefined) return { ok: true, ...answer, ...withDisplays(answer.displays) };
    const { error } = answer;
    if (error.type === "KeyboardInterrupt" && Atomics.load(control, CONTROL.interrupted) === 1) error.kind = "interrupted";
    return { ok: false, error };
  };

  /** @param {any} command */
  const execute = async (command) => {
    if (failed !== undefined) return { ok: false, failed };
    if (command.op === "run") return run(command);
    const members = checkpoints.handle(command);
    if (command.op === "restore" || command.op === "adopt") filesChanged();
    return { ok: true, ...members };
  };

  return async (command) => {
    const { id, op } = command;
    if (busy) return { type: "reply", id, ok: false, refused: { reason: "running" } };
    busy = true;
    const started = clock.now();
    /** @type {Record<string, any>} */
    let members;
    try {
      members = await execute(command);
    } catch (thrown) {
      failed = thrown instanceof EngineFailure ? thrown.message : `${op}: ${describe(thrown)}`;
      members = { ok: false, failed };
    }
    if (typeof members.failed === "string") failed = members.failed;
    busy = false;
    const heapBytes = memory.buffer.byteLength;
    return { heapBytes, ...members, type: "reply", id, durationMs: Math.max(0, clock.now() - started) };
  };
}
