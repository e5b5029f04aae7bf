// Pictures that code shows besides text (guide "Pictures").

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { openBrowser, openMachine } from "./support/browser.mjs";

/** @type {Awaited<ReturnType<typeof openBrowser>>} */
let opened;
/** @type {Awaited<ReturnType<typeof openMachine>>} */
let machine;
before(async () => {
  opened = await openBrowser();
  machine = await openMachine(opened);
  assert.equal(machine.first.type, "ready", JSON.stringify(machine.first));
});
after(() => opened?.close());

/**
 * A run's reply; what it displayed is `[type, Latin-1 text]`.
 * @param {string} code
 */
function run(code) {
  return machine.page.evaluate(async (source) => {
    const reply = await globalThis.machine.run(source);
    /** @param {ArrayBuffer} bytes */
    const text = (bytes) => String.fromCharCode(...new Uint8Array(bytes.slice(0, 64)));
    const shown = reply.displays?.map(({ mimeType, bytes }) => [mimeType, text(bytes)]);
    const sizes = reply.displays?.map(({ bytes }) => bytes.byteLength);
    return { ...reply, displays: shown, sizes };
  }, code);
}

/** @param {string} code */
async function failure(code) {
  const reply = await run(code);
  assert.equal(reply.ok, false, JSON.stringify(reply));
  assert.equal(reply.displays, undefined);
  return reply.error;
}

const DEFINE = `
import pyproc
class Shown:
    def __init__(self, **said): self.said = said
    def __repr__(self): return "Shown()"
class Png(Shown):
    def _repr_png_(self): return self.said.get("png")
    def _repr_svg_(self): return self.said.get("svg")
    def _repr_html_(self): return self.said.get("html")
`;

test("what has a representation is displayed, the first one counts", async () => {
  await run(DEFINE);
  const reply = await run("pyproc.display(Png(png=b'\\x89PNG', svg='<svg/>'), Png(svg='<svg>é</svg>'), Png(html='<b>1</b>'), Png(png=(b'p', {})))");
  assert.deepEqual(reply.displays, [
    ["image/png", "\x89PNG"],
    ["image/svg+xml", "<svg>\xc3\xa9</svg>"],
    ["text/html", "<b>1</b>"],
    ["image/png", "p"],
  ]);
  assert.equal(reply.value, undefined);
});

test("the bytes of an image file are displayed by their signature", async () => {
  const reply = await run(
    "pyproc.display(b'\\x89PNG\\r\\n\\x1a\\n1', b'\\xff\\xd8\\xff2', bytearray(b'GIF89a3'), memoryview(b'RIFF1234WEBP4'))",
  );
  assert.deepEqual(reply.displays.map(([type]) => type), ["image/png", "image/jpeg", "image/gif", "image/webp"]);
});

test("a value that is a picture is displayed beside its text, and one in HTML is not", async () => {
  const reply = await run("print('said')\nPng(png=b'abc')");
  assert.deepEqual(reply.displays, [["image/png", "abc"]]);
  assert.equal(reply.value, "Shown()");
  assert.equal(reply.stdout, "said\n");
  for (const code of ["Png(html='<b>1</b>')", "Png", "Png()", "b'\\x89PNG\\r\\n\\x1a\\n'"]) {
    assert.equal((await run(code)).displays, undefined, code);
  }
});

test("a value that fails to be a picture stays a value", async () => {
  const reply = await run(
    "class Bad:\n  def _repr_png_(self): raise SystemExit(3)\n  def __repr__(self): return 'Bad()'\nBad()",
  );
  assert.equal(reply.ok, true, JSON.stringify(reply));
  assert.equal(reply.value, "Bad()");
  assert.equal(reply.displays, undefined);
  assert.equal((await run("class Odd:\n  _repr_png_ = 5\nOdd()")).ok, true);
  assert.equal((await run("class Odd:\n  def _repr_png_(self): return 5\nOdd()")).displays, undefined);
});

test("matplotlib's figures and what is drawn in them are displayed when it is there", async () => {
  await run(`
import sys, types
artist, figure = types.ModuleType("matplotlib.artist"), types.ModuleType("matplotlib.figure")
class Artist:
    figure = None
class FigureBase(Artist):
    def savefig(self, file, format): file.write(b"figure as " + format.encode())
artist.Artist, figure.FigureBase = Artist, FigureBase
sys.modules["matplotlib.artist"], sys.modules["matplotlib.figure"] = artist, figure
line = Artist()
line.figure = FigureBase()
`);
  assert.deepEqual((await run("pyproc.display(line)")).displays, [["image/png", "figure as png"]]);
  assert.deepEqual((await run("line.figure")).displays, [["image/png", "figure as png"]]);
  const error = await failure("pyproc.display(Artist())");
  assert.equal(error.type, "TypeError");
  await run("del sys.modules['matplotlib.artist'], sys.modules['matplotlib.figure']");
  assert.equal((await run("line.figure")).displays, undefined);
});

test("what is no picture is refused with what would be one", async () => {
  for (const thing of ["1", "None", "'text'", "b''", "b'text'", "Png()", "Png(png='')"]) {
    const error = await failure(`pyproc.display(${thing})`);
    assert.match(error.message, thing === "Png(png='')" ? /empty/ : /is no picture.*_repr_png_.*WebP/, thing);
  }
  assert.equal((await run("pyproc.display()")).displays, undefined);
});

test("a run displays at most 16 pictures and 8 MiB, and the next one starts anew", async () => {
  const sixteen = await run("for _ in range(16): pyproc.display(Png(png=b'1'))");
  assert.equal(sixteen.displays.length, 16);
  const more = await failure("for _ in range(17): pyproc.display(Png(png=b'1'))");
  assert.match(more.message, /at most 16 pictures/);
  assert.equal(more.displaysDropped, 16);
  const most = await run("pyproc.display(Png(png=bytes(8388608)))");
  assert.deepEqual(most.sizes, [8388608]);
  const large = await failure("pyproc.display(Png(png=b'1'))\npyproc.display(Png(png=bytes(8388608)))");
  assert.match(large.message, /at most 8388608 bytes.*has 8388608 and 8388607 are left/);
  assert.equal(large.displaysDropped, 1);
  const caught = await run("try: pyproc.display(Png(png=bytes(8388609)))\nexcept ValueError: pyproc.display(Png(png=b'small'))");
  assert.deepEqual(caught.displays, [["image/png", "small"]]);
});

test("an error takes what was displayed away and says how much", async () => {
  const error = await failure("pyproc.display(Png(png=b'1'), Png(png=b'2'))\n1/0");
  assert.equal(error.type, "ZeroDivisionError");
  assert.equal(error.displaysDropped, 2);
  assert.equal((await run("1")).displays, undefined);
});

test("an interrupted run leaves nothing to the next one", async () => {
  const reply = await machine.interrupted("pyproc.display(Png(png=b'1'))\nwhile True: pass", 100);
  assert.equal(reply.error.kind, "interrupted", JSON.stringify(reply));
  assert.equal(reply.error.displaysDropped, 1);
  assert.deepEqual((await run("pyproc.display(Png(png=b'2'))")).displays, [["image/png", "2"]]);
});

test("the module says what it does", async () => {
  const help = (await run("pyproc.display.__doc__")).value;
  assert.match(help, /_repr_png_.*matplotlib.*at most 16/s);
  assert.equal((await run("pyproc.display.__module__")).value, "'pyproc'");
});
