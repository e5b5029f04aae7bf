/**
 * Calls into Python (machine 12.6, 15): the entries of the prelude, through the promising wrapper that was kept.
 *
 * @module
 */

import { BootFailure, describe } from "./failure.js";
import { promising } from "./primitives.js";

/** How often a run whose answer was lost is asked to end before the engine counts as failed. */
const SETTLE_LIMIT = 8;

/** Identifiers of Python's monitoring tools. */
const TOOLS = [0, 1, 2, 3, 4, 5];

/** The engine has failed: nothing may be called in this incarnation again. */
export class EngineFailure extends Error {}

/** A Python exception that left an entry. The message is its traceback. */
class PythonRaised extends Error {
  /** @param {{type: string, message: string}} raised */
  constructor({ type, message }) {
    super(message);
    this.type = type;
  }

  /** The exception in the form of the prelude's answers. */
  answer() {
    const lines = this.message.trimEnd().split("\n");
    const last = (lines.at(-1) ?? "").slice(0, MESSAGE_LIMIT);
    const traceback = this.message.slice(-TRACEBACK_LIMIT);
    return { error: { kind: "exception", type: this.type, module: "", message: last, traceback } };
  }
}

/** Characters, as in the prelude. */
const MESSAGE_LIMIT = 8192;
const TRACEBACK_LIMIT = 65536;

/** @param {unknown} thrown */
function ignoreRaised(thrown) {
  if (!(thrown instanceof PythonRaised)) throw thrown;
  return true;
}

/**
 * @typedef {object} Entries
 * @property {(source: string, runSeq: number) => Promise<any>} run the answer of the prelude, parsed: `{}`, `{value?,
 *   valueChars?, displays?}` or `{error}`. Rejects with `EngineFailure`
 * @property {(config: string) => Promise<void>} boot the fixes after a boot; rejects with `BootFailure`
 */

/**
 * @param {import("./context.js").EngineContext} context
 * @param {any} prelude proxy of the module `_machine`, which offers its entries until `boot` ran; destroyed here
 * @returns {Entries}
 */
export function createEntries({ module, api, exports }, prelude) {
  if (promising === undefined) {
    throw new BootFailure("MACHINE_ENGINE_INCOMPATIBLE", "the browser has no promising calls", "WebAssembly.promising");
  }
  const apply = promising(/** @type {Function} */ (exports._pyproxy_apply));
  const raise = /** @type {() => void} */ (exports.pythonexc2js);
  const { PythonError } = api;

  /** @param {any} callable */
  const entry = (callable) => {
    /** @param {any[]} args */
    return async (...args) => {
      let result;
      try {
        result = await apply(module.PyProxy_getPtr(callable), args, args.length, [], 0);
        if (result === module.error) raise();
      } catch (thrown) {
        if (thrown instanceof PythonError) throw new PythonRaised(/** @type {any} */ (thrown));
        throw new EngineFailure(describe(thrown));
      }
      return result;
    };
  };
  const offered = prelude.entries;
  const [run, settle, boot, setEvents] = [0, 1, 2, 3].map((index) => entry(offered.get(index)));
  offered.destroy();
  prelude.destroy();

  /** @param {unknown} answer */
  const parse = (answer) => {
    if (typeof answer !== "string") throw new EngineFailure("the run returned no text");
    return JSON.parse(answer);
  };

  /**
   * Ends a run that raised: first the monitoring callbacks, which could raise in every Python frame, then the rest.
   * Python ignores interrupts afterwards.
   */
  const end = async () => {
    for (const tool of TOOLS) await setEvents(tool, 0).catch(ignoreRaised);
    for (let attempt = 0; attempt < SETTLE_LIMIT; attempt += 1) {
      const raised = await settle().then(() => false, ignoreRaised);
      if (!raised) return;
    }
    throw new EngineFailure("the run did not end");
  };

  return {
    run: async (source, runSeq) => {
      let answer;
      try {
        answer = await run(source, runSeq);
      } catch (thrown) {
        if (!(thrown instanceof PythonRaised)) throw thrown;
        await end();
        return thrown.answer();
      }
      if (typeof answer !== "string") throw new EngineFailure("the run returned no text");
      return JSON.parse(answer);
    },
    boot: async (config) => {
      try {
        await boot(config);
      } catch (thrown) {
        throw new BootFailure("MACHINE_BOOT_FAILED", `the fixes after boot failed: ${describe(thrown)}`, "prelude");
      }
    },
  };
}
