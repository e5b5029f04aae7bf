// Opens a browser whose worker has an extra command for tests, `hook`, and optionally lacks one fix.

import assert from "node:assert/strict";
import { openBrowser } from "./support/browser.mjs";

/** What the host does with Python objects and the engine in the tests. Appended to the worker's command module. */
const HOOKS = `
const later = globalThis.setTimeout;
let held;
async function hook({ name, value }, { module, registries, exports }) {
  switch (name) {
    case "collect":
      for (let i = 0; i < 3; i += 1) {
        %CollectGarbage(0);
        await new Promise((done) => later(done, 20));
      }
      return {};
    case "hold": {
      const shared = registries[0].registrations().at(-1).token.deref();
      held = module.pyproxy_new(shared.ptr, { shared, flags: shared.flags });
      return { pointer: shared.ptr };
    }
    case "call":
      try {
        return { returned: held(...(value ?? [])) };
      } catch (error) {
        return { threw: String(error.message), trap: error instanceof WebAssembly.RuntimeError };
      }
    case "destroy":
      held.destroy();
      return {};
    case "release":
      held = undefined;
      return {};
    case "stack":
      exports.__stack_pointer.value += value;
      return {};
    case "mount":
      module.FS.mkdir("/mnt");
      module.FS.mount(module.MEMFS, {}, "/mnt");
      return {};
    case "unmount":
      module.FS.unmount("/mnt");
      return {};
    case "registrations":
      return { count: registries[0].registrations().length };
    case "table":
      return { length: module.wasmTable.length };
  }
}
`;

const HANDLED = "const members = checkpoints.handle(command);";

/**
 * @param {{file: string, from: string, to?: string, extra?: Map<string, Buffer>}} [fault] a part of a script that is
 *   replaced
 * @param {Map<string, Buffer>} [extra]
 */
export async function openHooked(fault, extra = new Map()) {
  let broken = false;
  const opened = await openBrowser({
    extra,
    args: ["--js-flags=--allow-natives-syntax"],
    imageKind: "plain",
    patch: (path, text) => {
      if (path === "/worker/commands.js") {
        assert.ok(text.includes(HANDLED), "the command module has changed");
        return `${text.replace(HANDLED, `if (command.op === "hook") return { ok: true, ...(await hook(command, context)) };\n    ${HANDLED}`)}${HOOKS}`;
      }
      if (fault === undefined || path !== `/worker/${fault.file}`) return text;
      assert.ok(text.includes(fault.from), `${fault.file} does not contain the fix`);
      broken = true;
      return text.replaceAll(fault.from, fault.to ?? "");
    },
  });
  const close = opened.close;
  return {
    ...opened,
    close: async () => {
      await close();
      assert.equal(broken, fault !== undefined, "the fault was not served");
    },
  };
}
