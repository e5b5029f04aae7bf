/**
 * Makes the boot image in a worker that booted without one (machine 5.1, 5.2).
 *
 * @module
 */

import { BootFailure } from "./failure.js";
import { encodeImage } from "./image-format.js";
import { IMAGE_MODULES } from "./image-modules.js";

/** Modules that may draw entropy when they are imported. */
const MAY_DRAW = new Set(["random"]);

const PRELUDE_PATH = "/tmp/prelude";

/** Loads the prelude into a namespace of its own, whose builtins are a copy that guest code cannot change. */
const LOADER = `
def load():
    import builtins, sys, js
    space = {"__name__": "_machine", "__builtins__": dict(vars(builtins)), "__host__": js}
    for part in range(PARTS):
        path = f"${PRELUDE_PATH}-{part}"
        with open(path, encoding="utf-8") as file:
            source = file.read()
        exec(compile(source, "<machine>", "exec"), space)
load()
del load
import gc
gc.collect()
del gc
`;

/**
 * @typedef {object} MadeImage
 * @property {ArrayBuffer} image
 * @property {{start: number, modules: Record<string, number>}} entropy requests for random bytes by interpreter start and
 *   by the modules that made any
 */

/**
 * @param {import("./context.js").EngineContext} context
 * @param {any} api the engine's public API object
 * @param {{prelude: string[], draws: () => number}} options `prelude` holds the parts in order; `draws` counts entropy
 *   requests since the worker started
 * @returns {MadeImage}
 */
export function makeImage({ module, api: internal }, api, { prelude, draws }) {
  /** @param {string} source @param {string} what */
  const python = (source, what) => {
    const [status, errors] = internal.rawRun(source);
    if (status !== 0) throw new BootFailure("MACHINE_BOOT_FAILED", `${what} failed while making the image: ${errors}`, what);
  };

  const entropy = { start: draws(), modules: /** @type {Record<string, number>} */ ({}) };
  for (const name of IMAGE_MODULES) {
    const before = draws();
    python(`__import__("${name}")`, name);
    const drawn = draws() - before;
    if (drawn === 0) continue;
    entropy.modules[name] = drawn;
    if (!MAY_DRAW.has(name)) {
      throw new BootFailure("MACHINE_BOOT_FAILED", `the module ${name} draws entropy when it is imported`, name);
    }
  }

  prelude.forEach((source, part) => module.FS.writeFile(`${PRELUDE_PATH}-${part}`, source));
  python(LOADER.replace("PARTS", String(prelude.length)), "prelude");
  prelude.forEach((_, part) => module.FS.unlink(`${PRELUDE_PATH}-${part}`));

  const snapshot = /** @type {Uint8Array} */ (api.makeMemorySnapshot());
  const headerLength = new DataView(snapshot.buffer, snapshot.byteOffset, 8).getUint32(4, true);
  const image = encodeImage(snapshot.subarray(0, headerLength), snapshot.subarray(headerLength), module.wasmTable.length);
  return { image, entropy };
}
