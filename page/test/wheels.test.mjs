// Wheels (machine 17.1, 17.2).

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { openBrowser, openMachine } from "./support/browser.mjs";

/** @param {Record<string, string | Buffer>} members */
function wheel(members) {
  const chunks = [];
  const directory = [];
  let offset = 0;
  for (const [name, content] of Object.entries(members)) {
    const bytes = Buffer.from(content);
    const path = Buffer.from(name);
    const common = Buffer.alloc(26);
    common.writeUInt16LE(20, 0);
    common.writeUInt32LE(crc32(bytes), 10);
    common.writeUInt32LE(bytes.length, 14);
    common.writeUInt32LE(bytes.length, 18);
    common.writeUInt16LE(path.length, 22);
    const local = Buffer.concat([Buffer.from("PK\x03\x04"), common, path, bytes]);
    const central = Buffer.alloc(18);
    central.writeUInt32LE(offset, 14);
    directory.push(Buffer.concat([Buffer.from("PK\x01\x02\x14\x00", "latin1"), common, Buffer.alloc(0), central.subarray(4), path]));
    chunks.push(local);
    offset += local.length;
  }
  const index = Buffer.concat(directory);
  const end = Buffer.alloc(22);
  end.write("PK\x05\x06", 0, "latin1");
  end.writeUInt16LE(directory.length, 8);
  end.writeUInt16LE(directory.length, 10);
  end.writeUInt32LE(index.length, 12);
  end.writeUInt32LE(offset, 16);
  return Buffer.concat([...chunks, index, end]);
}

/** @param {Buffer} bytes */
function crc32(bytes) {
  let crc = ~0;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit += 1) crc = (crc >>> 1) ^ (0xedb88320 & -(crc & 1));
  }
  return ~crc >>> 0;
}

const META = { "pkg-1.dist-info/WHEEL": "Wheel-Version: 1.0\n", "pkg-1.dist-info/METADATA": "Name: pkg\nVersion: 1\n" };

const WHEELS = {
  plain: wheel({ "plain/__init__.py": "import helper\nvalue = helper.value + 1\n", "plain/data.txt": "text", ...META }),
  helper: wheel({ "helper.py": "value = 41\n", "helper-1.dist-info/WHEEL": "", "helper-1.data/scripts/run": "x", "helper-1.data/purelib/extra.py": "e = 1\n" }),
  large: wheel({ "large.py": "size = len(open(__file__.replace('large.py', 'large.bin'), 'rb').read())\n", "large.bin": Buffer.alloc(3_500_000, 7), "large-1.dist-info/WHEEL": "" }),
  climbing: wheel({ "climbing.py": "", "../outside.py": "", ...META }),
  absolute: wheel({ "/absolute.py": "", ...META }),
  backslash: wheel({ "backslash.py": "", "a\\b.py": "", ...META }),
  bare: wheel({ "bare.py": "" }),
  damaged: Buffer.from("this is no archive"),
};

/** @type {Awaited<ReturnType<typeof openBrowser>>} */
let opened;
/** @type {Awaited<ReturnType<typeof openMachine>>} */
let machine;
/** @type {Record<string, {url: string, bytes: number}>} */
const index = {};

before(async () => {
  const extra = new Map();
  for (const [name, bytes] of Object.entries(WHEELS)) {
    extra.set(`/wheels/${name}.whl`, bytes);
    index[name] = { url: `/wheels/${name}.whl`, bytes: bytes.length };
  }
  index.short = { url: "/wheels/plain.whl", bytes: 1 };
  index.absent = { url: "/wheels/absent.whl", bytes: 10 };
  opened = await openBrowser({ extra });
  machine = await openMachine(opened, { wheels: index });
});
after(() => opened?.close());

test("the test's own archives are valid", () => {
  const directory = mkdtempSync(join(tmpdir(), "wheel-"));
  try {
    const listing = execFileSync("python3", ["-c", "import sys, zipfile, io; print(zipfile.ZipFile(io.BytesIO(sys.stdin.buffer.read())).testzip())"], { input: WHEELS.plain });
    assert.equal(listing.toString().trim(), "None");
  } finally {
    rmSync(directory, { recursive: true });
  }
});

test("an import fetches its wheel and those of its imports within one run", async () => {
  assert.equal((await machine.run("import plain\nplain.value")).value, "42");
  assert.equal((await machine.run("import os\nos.listdir('/tmp'), open(os.path.dirname(plain.__file__) + '/data.txt').read()")).value, "([], 'text')");
  assert.equal((await machine.run("import importlib.metadata as m\nm.version('pkg')")).value, "'1'");
  assert.equal((await machine.run("open('/lib/python3.14/site-packages/pkg-1.dist-info/INSTALLER').read()")).value, "'pyproc\\n'");
});

test("library data is installed, scripts are not", async () => {
  assert.equal((await machine.run("import extra\nextra.e")).value, "1");
  assert.equal((await machine.run("import os\n[n for _, _, f in os.walk('/lib/python3.14/site-packages') for n in f if n == 'run']")).value, "[]");
});

test("a wheel of several pieces arrives whole", async () => {
  assert.equal((await machine.run("import large\nlarge.size")).value, "3500000");
});

test("an unknown name is asked for once and is an ordinary import error", async () => {
  const requests = opened.server.requests.length;
  for (let round = 0; round < 2; round += 1) {
    assert.equal((await machine.run("import nowhere_to_be_found")).error.type, "ModuleNotFoundError");
  }
  assert.equal((await machine.run("import plain.missing")).error.type, "ModuleNotFoundError");
  assert.equal(opened.server.requests.length, requests);
});

test("a wheel of another size, or one that is not served, is no wheel", async () => {
  assert.equal((await machine.run("import short")).error.type, "ModuleNotFoundError");
  assert.equal((await machine.run("import absent")).error.type, "ModuleNotFoundError");
});

for (const name of ["climbing", "absolute", "backslash", "bare", "damaged"]) {
  test(`a wheel that is ${name} is refused and leaves nothing behind`, async () => {
    const before = (await machine.run("import os\nsorted(os.listdir('/lib/python3.14/site-packages')), os.listdir('/lib/python3.14'), os.listdir('/tmp')")).value;
    const { error } = await machine.run(`import ${name}`);
    assert.equal(error.type, "WheelError");
    assert.match(error.message, /MACHINE_PACKAGE_INVALID/);
    assert.equal((await machine.run("sorted(os.listdir('/lib/python3.14/site-packages')), os.listdir('/lib/python3.14'), os.listdir('/tmp')")).value, before);
  });
}

test("a path or an address as a name reaches nobody", async () => {
  const requests = opened.server.requests.length;
  await machine.run("import importlib\nfor n in ('../x', 'http://h/', 'a b', '/wheels/plain.whl'):\n    try: importlib.import_module(n)\n    except Exception: pass");
  assert.equal(opened.server.requests.length, requests);
});

test("a preloaded package is there before the first run", async () => {
  const loaded = await openMachine(opened, { wheels: index, preload: ["plain"] });
  assert.equal(loaded.first.type, "ready", JSON.stringify(loaded.first));
  assert.equal((await loaded.run("import sys\n'plain' in sys.modules")).value, "True");
  await loaded.close();
});

test("a preload that cannot be imported fails the start", async () => {
  const failed = await openMachine(opened, { preload: ["nowhere_to_be_found"] });
  assert.equal(failed.first.type, "failed");
  assert.equal(failed.first.code, "MACHINE_BOOT_FAILED");
  assert.match(failed.first.message, /nowhere_to_be_found/);
  await failed.close();
});
