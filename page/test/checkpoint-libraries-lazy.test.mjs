// Hazard H9 of machine 10: the offset table is slow to read, so it is read only once libraries are in play.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Libraries } from "../worker/state/libraries.js";

/** An engine with a hundred offsets that counts how often they are read. */
function engine() {
  const seen = { reads: 0, events: 0, beforeFirst: () => {} };
  const GOT = Object.fromEntries(
    Array.from({ length: 100 }, (_, i) => [
      `symbol${i}`,
      {
        get value() {
          seen.reads += 1;
          return i;
        },
      },
    ]),
  );
  const LDSO = { loadedLibsByName: { __main__: { exports: {} } }, loadedLibsByHandle: {} };
  const context = {
    module: { GOT, LDSO, wasmTable: { length: 10, get: () => null } },
    libraryEvents: { count: () => seen.events, beforeFirst: (/** @type {() => void} */ run) => (seen.beforeFirst = run) },
  };
  return { seen, libraries: new Libraries(/** @type {any} */ (context)) };
}

test("saves and restores without a library event do not read the offset table (hazard H9)", () => {
  const { seen, libraries } = engine();
  libraries.markBase();
  for (let i = 0; i < 5; i += 1) libraries.restore(libraries.capture());
  assert.equal(seen.reads, 0);
});

test("the offset table is read just before the first event and once for each capture after events", () => {
  const { seen, libraries } = engine();
  libraries.markBase();
  seen.beforeFirst();
  assert.equal(seen.reads, 100);
  seen.events += 1;
  libraries.capture();
  libraries.capture();
  assert.equal(seen.reads, 200);
});
