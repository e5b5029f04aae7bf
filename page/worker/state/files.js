/**
 * The file system as state: nodes, streams and contents together (machine 7, 9.3 step 3).
 *
 * @module
 */

import { Contents } from "./contents.js";
import { Nodes } from "./nodes.js";
import { Streams } from "./streams.js";

const STANDARD_LIBRARY = /^\/lib\/python\d+\.zip$/;

/**
 * @typedef {object} LiveFiles
 * @property {import("./nodes.js").LiveNodes} nodes
 * @property {import("./streams.js").LiveStreams} streams
 */

/** @typedef {import("./nodes.js").PackedNodes & import("./streams.js").PackedStreams} PackedFiles */

export class Files {
  #module;
  #contents;
  #nodes;
  #streams;
  /** @type {Set<any>} */
  #mounts = new Set();
  /** @type {import("./nodes.js").LiveNodes | null} */
  #last = null;

  /** @param {import("../context.js").EngineContext} context */
  constructor(context) {
    this.#module = context.module;
    this.#contents = new Contents(context);
    this.#nodes = new Nodes(this.#module, this.#contents);
    this.#streams = new Streams(this.#module);
  }

  /** Called once, before the capture of base. */
  markBase() {
    const { FS } = this.#module;
    this.#mounts = new Set(FS.getMounts(FS.root.mount));
    this.#nodes.each((node) => {
      if (FS.isFile(node.mode) && STANDARD_LIBRARY.test(FS.getPath(node))) this.#contents.freezeStandard(node);
    });
    this.#nodes.markBase(this.capture().nodes);
  }

  /**
   * Reason to refuse a save.
   * @returns {{reason: string} | null}
   */
  refusal() {
    const { FS } = this.#module;
    if (this.#streams.unportable()) return { reason: "stream" };
    const mounts = FS.getMounts(FS.root.mount);
    if (mounts.some((/** @type {any} */ mount) => !this.#mounts.has(mount))) return { reason: "mount" };
    return null;
  }

  /** @returns {LiveFiles} */
  capture() {
    this.#last = this.#nodes.capture(this.#streams.nodes(), this.#last);
    return { nodes: this.#last, streams: this.#streams.capture() };
  }

  /** @param {LiveFiles} live */
  restore(live) {
    this.#nodes.restore(live.nodes);
    this.#streams.restore(live.streams);
    this.#last = live.nodes;
  }

  /**
   * @param {LiveFiles} live
   * @returns {PackedFiles}
   */
  pack(live) {
    return { ...this.#nodes.pack(live.nodes), ...this.#streams.pack(live.streams) };
  }

  /**
   * What `live` needs of the page: all identities, and the pieces that the page does not hold. Those count as held from
   * now on.
   * @param {LiveFiles} live
   * @returns {{identities: number[], contents: import("./contents.js").SentPiece[]}}
   */
  describe(live) {
    /** @type {number[]} */
    const identities = [];
    /** @type {import("./contents.js").SentPiece[]} */
    const contents = [];
    for (const { content } of live.nodes.copies) {
      if (content === null || content.pieces === null) continue;
      for (const { identity } of content.pieces) identities.push(identity);
      this.#contents.unsent(content, contents);
    }
    return { identities, contents };
  }

  /**
   * The page was told to forget all states but these; what only others named may have to be sent again.
   * @param {Iterable<LiveFiles>} states
   */
  keepOnly(states) {
    const kept = new Set(Array.from(states, ({ nodes }) => nodes));
    const contents = Array.from(kept, ({ copies }) => copies.flatMap(({ content }) => content ?? [])).flat();
    this.#contents.keepOnly(contents);
  }

  /**
   * @param {PackedFiles} packed
   * @param {readonly import("./contents.js").SentPiece[]} sent
   * @returns {LiveFiles}
   */
  adopt(packed, sent) {
    const nodes = this.#nodes.adopt(packed, this.#contents.receive(sent));
    this.#streams.adopt(packed, nodes);
    this.#last = null;
    return this.capture();
  }

  /**
   * The bytes of a file of the present state, for libraries that are instantiated again.
   * @param {string} path
   * @returns {Uint8Array}
   */
  read(path) {
    const { node } = this.#module.FS.lookupPath(path, { follow: true });
    return node.contents.slice(0, node.usedBytes);
  }
}
