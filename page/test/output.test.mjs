import assert from "node:assert/strict";
import { test } from "node:test";
import { takeOutput } from "../machine/output.js";
import { CONTROL } from "../worker/layout.js";
import { installStreams, openStreams } from "../worker/output.js";

/** As much of the engine's file system as the streams need. */
function fakeFiles() {
  class ErrnoError extends Error {}
  const devices = new Map();
  const nodes = new Map();
  const FS = {
    ErrnoError,
    streams: /** @type {any[]} */ ([]),
    createDevice: Object.assign(() => {}, { major: 70 }),
    makedev: (/** @type {number} */ major, /** @type {number} */ minor) => (major << 8) | minor,
    registerDevice: (/** @type {number} */ device, /** @type {any} */ operations) => devices.set(device, operations),
    unlink: () => {},
    mkdev: (/** @type {string} */ path, /** @type {number} */ device) => nodes.set(path, device),
    open: (/** @type {string} */ path) => {
      let fd = 0;
      while (FS.streams[fd]) fd += 1;
      FS.streams[fd] = { path, operations: devices.get(nodes.get(path)) };
    },
    close: (/** @type {any} */ stream) => {
      FS.streams[FS.streams.indexOf(stream)] = null;
    },
    write: (/** @type {number} */ fd, /** @type {Uint8Array} */ bytes) =>
      FS.streams[fd].operations.write(FS.streams[fd], bytes, 0, bytes.length),
  };
  return FS;
}

/** @param {number} size */
function terminal(size) {
  const control = new Int32Array(new SharedArrayBuffer(CONTROL.cells * 4));
  const block = new Uint8Array(new SharedArrayBuffer(size));
  const FS = fakeFiles();
  installStreams(FS, control, block);
  const encoder = new TextEncoder();
  return {
    FS,
    control,
    write: (/** @type {number} */ fd, /** @type {string} */ text) => FS.write(fd, encoder.encode(text)),
    take: () => takeOutput(control, block),
  };
}

test("both streams arrive in the order of writing, and taking empties the block", () => {
  const { write, take } = terminal(1024);
  write(1, "a");
  write(2, "bb");
  write(1, "ü\n");
  assert.deepEqual(take(), { stdout: "abbü\n", stdoutBytes: 6, stderrBytes: 2, stdoutDropped: 0 });
  assert.deepEqual(take(), { stdout: "", stdoutBytes: 0, stderrBytes: 0, stdoutDropped: 0 });
});

test("output that fits exactly is whole, also where a character crosses from head to tail", () => {
  const { write, take } = terminal(64);
  write(1, `${"h".repeat(47)}é${"t".repeat(15)}`);
  assert.deepEqual(take(), { stdout: `${"h".repeat(47)}é${"t".repeat(15)}`, stdoutBytes: 64, stderrBytes: 0, stdoutDropped: 0 });
});

for (const step of [1, 3, 16, 17, 100, 1000]) {
  test(`beginning and end are kept of output written ${step} bytes at a time`, () => {
    const { write, take } = terminal(64);
    let all = "";
    for (let index = 0; all.length < 1000; index += 1) {
      const part = String.fromCharCode(97 + (index % 26)).repeat(step);
      write(index % 2 ? 2 : 1, part);
      all += part;
    }
    const left = all.length - 64;
    const taken = take();
    assert.equal(taken.stdout, `${all.slice(0, 48)}\n[... ${left} bytes left out ...]\n${all.slice(-16)}`);
    assert.equal(taken.stdoutBytes, all.length);
    assert.equal(taken.stdoutDropped, left);
  });
}

test("a stopped incarnation writes nothing", () => {
  const { write, take, control } = terminal(64);
  control[CONTROL.stop] = -1;
  assert.equal(write(1, "late"), 4);
  assert.equal(take().stdoutBytes, 0);
});

test("closed descriptors are opened again on their devices", () => {
  const { FS } = terminal(64);
  const before = FS.streams.map((stream) => stream.path);
  assert.deepEqual(before, ["/dev/stdin", "/dev/stdout", "/dev/stderr"]);
  FS.close(FS.streams[0]);
  FS.close(FS.streams[2]);
  openStreams(FS);
  assert.deepEqual(FS.streams.map((stream) => stream.path), before);
});
