// Serves the page, the worker and an engine directory with the headers of machine 16.1.

import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { dirname, extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";

const PAGE = join(dirname(fileURLToPath(import.meta.url)), "..", "..");

const TYPES = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".json": "application/json",
  ".mjs": "text/javascript; charset=utf-8",
  ".py": "text/x-python; charset=utf-8",
  ".wasm": "application/wasm",
  ".whl": "application/zip",
  ".zip": "application/zip",
};

const PAGE_POLICY = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; connect-src 'self'";

/** Where the engine and the assembled kernel are; the tests cannot run without them. */
export function environment() {
  const { PYPROC_TEST_ENGINE: engine, PYPROC_TEST_KERNEL: kernel } = process.env;
  if (!engine || !kernel) throw new Error("set PYPROC_TEST_ENGINE (directory) and PYPROC_TEST_KERNEL (file)");
  return { engine, kernel };
}

/**
 * @param {{extra?: Map<string, Buffer>, patch?: (path: string, text: string) => string, policy?: (text: string) => string}}
 *   [options] `extra`: more files by path; `patch`: changes a script before it is served; `policy`: changes the worker's
 *   policy
 * @returns {Promise<{origin: string, requests: string[], extra: Map<string, Buffer>, close: () => Promise<void>}>}
 */
export async function startServer({ extra = new Map(), patch = (_, text) => text, policy = (text) => text } = {}) {
  const { engine, kernel } = environment();
  const list = JSON.parse(await readFile(join(PAGE, "worker", "modules.json"), "utf8"));
  /** @type {string[]} */
  const requests = [];
  let origin = "";

  const workerPolicy = () => {
    const scripts = [...list.modules, ...list.engine].map((path) => `${origin}/${path}`).join(" ");
    return `sandbox allow-scripts; default-src 'none'; script-src ${scripts} 'wasm-unsafe-eval'; connect-src 'none'; worker-src 'none'`;
  };

  /** @param {string} path */
  const load = async (path) => {
    const known = extra.get(path);
    if (known) return known;
    if (path === "/") return Buffer.from("<!doctype html><meta charset=utf-8><title>machine</title>");
    if (path === "/worker/kernel.wasm") return readFile(kernel);
    const file = path.startsWith("/engine/") ? join(engine, normalize(path.slice(7))) : join(PAGE, normalize(path));
    const bytes = await readFile(file);
    return /\.(js|mjs|py)$/.test(path) ? Buffer.from(patch(path, bytes.toString("utf8"))) : bytes;
  };

  const server = createServer(async (request, response) => {
    const path = new URL(request.url ?? "/", origin).pathname;
    requests.push(`${request.method} ${request.url}`);
    try {
      const body = await load(path);
      response.setHeader("Content-Type", path === "/" ? TYPES[".html"] : (TYPES[extname(path)] ?? "application/octet-stream"));
      response.setHeader("Content-Length", body.length);
      response.setHeader("X-Content-Type-Options", "nosniff");
      response.setHeader("Cache-Control", "no-store");
      response.setHeader("Cross-Origin-Embedder-Policy", "require-corp");
      response.setHeader("Cross-Origin-Opener-Policy", "same-origin");
      if (path === "/") response.setHeader("Content-Security-Policy", PAGE_POLICY);
      if (path === `/${list.entry}`) response.setHeader("Content-Security-Policy", policy(workerPolicy()));
      if (path.startsWith("/worker/") || path.startsWith("/engine/")) {
        response.setHeader("Access-Control-Allow-Origin", "*");
        response.setHeader("Cross-Origin-Resource-Policy", "cross-origin");
      }
      response.end(body);
    } catch (error) {
      if (/** @type {NodeJS.ErrnoException} */ (error).code !== "ENOENT") console.error(error);
      response.statusCode = 404;
      response.end();
    }
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
  const address = /** @type {import("node:net").AddressInfo} */ (server.address());
  origin = `http://127.0.0.1:${address.port}`;
  return {
    origin,
    requests,
    extra,
    close: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(() => resolve(undefined)));
    },
  };
}
