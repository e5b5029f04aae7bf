// One Chromium, one server and one boot image for a test file.

import { readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { environment, startServer } from "./server.mjs";

const WORKER = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "worker");

const ARGUMENTS = [
  ...["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-component-update", "--disable-sync"],
  ...["--disable-background-networking", "--disable-dev-shm-usage"],
];

/** Key of everything that a boot image depends on. */
function imageKey() {
  const hash = createHash("sha256");
  const { engine, kernel } = environment();
  hash.update(readFileSync(join(engine, "pyodide.asm.mjs"))).update(readFileSync(kernel));
  for (const name of readdirSync(WORKER).sort()) {
    const path = join(WORKER, name);
    if (statSync(path).isFile()) hash.update(name).update(readFileSync(path));
  }
  return hash.digest("hex").slice(0, 24);
}

/**
 * Starts a browser and a server that has the boot image at `/image.bin`.
 * @param {Parameters<typeof startServer>[0] & {timezone?: string, imageKind?: string, args?: string[]}} [options] `imageKind`: which
 *   cached image to use; by default the usual one, or a new one where scripts are patched
 */
export async function openBrowser(options = {}) {
  const server = await startServer(options);
  const launching = chromium.launch({
    executablePath: process.env.PYPROC_TEST_CHROMIUM ?? "/usr/bin/chromium",
    args: [...ARGUMENTS, ...(options.args ?? [])],
    env: { ...process.env, TZ: options.timezone ?? "UTC" },
  });
  const close = async () => {
    await launching.then((browser) => browser.close(), () => {});
    await server.close();
  };
  try {
    const browser = await launching;
    const newPage = async () => {
      const page = await browser.newPage();
      if (process.env.PYPROC_TEST_VERBOSE) page.on("console", (message) => console.error(message.text()));
      await page.goto(`${server.origin}/`);
      return page;
    };
    const image = options.image
      ? { bytes: options.image, entropy: undefined }
      : await cachedImage(newPage, options.imageKind ?? (options.patch ? "" : "plain"));
    server.extra.set("/image.bin", image.bytes);
    return { server, newPage, image, close };
  } catch (error) {
    // What stays open would keep the test file running for ever.
    await close();
    throw error;
  }
}

/**
 * @param {() => Promise<import("playwright-core").Page>} newPage
 * @param {string} kind names the cached image; empty makes one that is not kept
 */
async function cachedImage(newPage, kind) {
  const path = join(tmpdir(), `machine-image-${kind}-${imageKey()}.bin`);
  if (kind !== "") {
    const bytes = await readFile(path).catch(() => undefined);
    if (bytes) return { bytes, entropy: undefined };
  }
  const page = await newPage();
  const { image, entropy } = await page.evaluate(async () => (await import("/test/support/client.js")).make());
  await page.close();
  const bytes = Buffer.from(image, "base64");
  if (kind !== "") await writeFile(path, bytes);
  return { bytes, entropy };
}

/**
 * A page with one machine. `run` and the others go to it.
 * @param {Awaited<ReturnType<typeof openBrowser>>} opened
 * @param {Record<string, any>} [assets]
 */
export async function openMachine(opened, assets = {}) {
  const page = await opened.newPage();
  const first = await page.evaluate(async (given) => {
    const { start } = await import("/test/support/client.js");
    const started = await start(given);
    Object.assign(globalThis, started);
    const { table, ...rest } = started.first;
    return { ...rest, pages: table?.length };
  }, assets);
  return {
    page,
    first,
    /** @param {string} code */
    run: (code) => page.evaluate((source) => globalThis.machine.run(source), code),
    /** @param {string} code @param {...number} delays */
    interrupted: (code, ...delays) =>
      page.evaluate(([source, times]) => globalThis.machine.interrupted(source, ...times), [code, delays]),
    /** @param {Record<string, any>} members */
    command: (members) => page.evaluate((given) => globalThis.machine.command(given), members),
    close: () => page.close(),
  };
}
