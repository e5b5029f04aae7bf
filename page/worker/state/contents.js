/**
 * File contents as immutable state: copy on write and identities (machine 9.1 step 6, 19, hazard H2).
 *
 * A byte array that a capture has seen is frozen: the wrapped write operation clones it first. Contents are described to
 * the page in pieces of 1 MiB; each piece has an identity and its bytes are sent once. The wrapped operations remember
 * which pieces a write touched, so a small change in a large file makes one new piece.
 *
 * @module
 */

/** Bytes of a piece. */
export const PIECE_BYTES = 1024 * 1024;

/**
 * @typedef {object} Piece
 * @property {number} identity unique among all incarnations of a page
 * @property {number} known generation in which the page is known to hold the bytes
 */

/**
 * Immutable bytes of a file. `pieces` is `null` for the standard library, which every incarnation has.
 * @typedef {object} Content
 * @property {Uint8Array} bytes at least `used` long
 * @property {number} used
 * @property {Piece[] | null} pieces
 */

/** @typedef {{identity: number, bytes: Uint8Array}} SentPiece */

/** Identities that one incarnation can give out; the incarnation's number times this is the first. */
export const IDENTITY_SPAN = 2 ** 32;

export class Contents {
  /** @type {WeakMap<Uint8Array, Content>} */
  #frozen = new WeakMap();
  /** @type {WeakMap<Uint8Array, {base: Content, dirty: Set<number>}>} */
  #edits = new WeakMap();
  #nextIdentity;
  #generation = 1;
  /** @type {Content | null} */
  #standard = null;

  /**
   * Wraps the in-memory file system's operations that change contents.
   * @param {import("../context.js").EngineContext} context
   */
  constructor({ module: { MEMFS }, incarnation }) {
    this.#nextIdentity = incarnation * IDENTITY_SPAN;
    MEMFS.stream_ops.write = this.#wrapWrite(MEMFS.stream_ops.write);
    MEMFS.ops_table.file.stream.write = MEMFS.stream_ops.write;
    MEMFS.resizeFileStorage = this.#wrapResize(MEMFS.resizeFileStorage);
  }

  /**
   * Write, append and mapped write-back all arrive here.
   * @param {(stream: any, buffer: any, offset: number, length: number, position: number, canOwn?: boolean) => number} write
   */
  #wrapWrite(write) {
    return (
      /** @type {any} */ stream,
      /** @type {any} */ buffer,
      /** @type {number} */ offset,
      /** @type {number} */ length,
      /** @type {number} */ position,
      /** @type {boolean | undefined} */ canOwn,
    ) => {
      const { node } = stream;
      const before = node.contents;
      const used = node.usedBytes;
      const grows = position + length > before.length;
      if (this.#frozen.has(before) && length > 0 && !grows) {
        // Only the used part is copied: what lies behind it must read as zero when the file grows over it.
        node.contents = new Uint8Array(before.length);
        node.contents.set(before.subarray(0, used));
      }
      const written = write(stream, buffer, offset, length, position, canOwn);
      this.#edited(before, node.contents, Math.min(position, used), position + length);
      return written;
    };
  }

  /** @param {(node: any, size: number) => void} resize */
  #wrapResize(resize) {
    return (/** @type {any} */ node, /** @type {number} */ size) => {
      const before = node.contents;
      const used = node.usedBytes;
      resize(node, size);
      this.#edited(before, node.contents, Math.min(used, size), size);
    };
  }

  /**
   * Carries the knowledge about `before` over to `after` and marks `[from, to)` as touched.
   * @param {Uint8Array} before
   * @param {Uint8Array} after the same array, or the one that replaced it
   * @param {number} from
   * @param {number} to
   */
  #edited(before, after, from, to) {
    let edit = this.#edits.get(after);
    if (after !== before) {
      const base = this.#frozen.get(before);
      edit = base === undefined ? this.#edits.get(before) : { base, dirty: new Set() };
      if (edit !== undefined) this.#edits.set(after, edit);
    }
    if (edit === undefined) return;
    for (let piece = Math.floor(from / PIECE_BYTES); piece * PIECE_BYTES < to; piece += 1) edit.dirty.add(piece);
  }

  /**
   * Declares a file's bytes as part of every incarnation: they are never sent.
   * @param {any} node
   */
  freezeStandard(node) {
    this.#standard = { bytes: node.contents, used: node.usedBytes, pieces: null };
    this.#frozen.set(node.contents, this.#standard);
  }

  /**
   * Freezes a file's bytes and returns their description.
   * @param {any} node
   * @returns {Content}
   */
  freeze(node) {
    const bytes = /** @type {Uint8Array} */ (node.contents);
    const used = /** @type {number} */ (node.usedBytes);
    const known = this.#frozen.get(bytes);
    if (known !== undefined && known.used === used) return known;
    const edit = this.#edits.get(bytes);
    /** @type {Piece[]} */
    const pieces = [];
    for (let start = 0; start < used; start += PIECE_BYTES) {
      const length = Math.min(PIECE_BYTES, used - start);
      pieces.push(reusable(edit, pieces.length, length) ?? this.#newPiece());
    }
    /** @type {Content} */
    const content = { bytes, used, pieces };
    this.#frozen.set(bytes, content);
    this.#edits.delete(bytes);
    return content;
  }

  /** @returns {Piece} */
  #newPiece() {
    this.#nextIdentity += 1;
    return { identity: this.#nextIdentity, known: 0 };
  }

  /**
   * The pieces of `content` that the page does not hold, with copies of their bytes; they count as held from now on.
   * @param {Content} content
   * @param {SentPiece[]} out
   */
  unsent(content, out) {
    content.pieces?.forEach((piece, i) => {
      if (piece.known === this.#generation) return;
      piece.known = this.#generation;
      const start = i * PIECE_BYTES;
      // A copy, because a message would carry the whole buffer of a view.
      const bytes = content.bytes.slice(start, Math.min(start + PIECE_BYTES, content.used));
      out.push({ identity: piece.identity, bytes });
    });
  }

  /**
   * States were forgotten: from now on the page holds exactly the pieces of `contents`.
   * @param {Iterable<Content>} contents
   */
  keepOnly(contents) {
    const last = this.#generation;
    this.#generation += 1;
    for (const { pieces } of contents) {
      for (const piece of pieces ?? []) if (piece.known === last) piece.known = this.#generation;
    }
  }

  /**
   * Bytes that came from the page, as frozen content.
   * @param {number} used
   * @param {readonly (number | null)[]} identities of the pieces, or one `null` for the standard library
   * @param {Map<number | null, {piece: Piece, bytes: Uint8Array}>} received
   * @returns {Content}
   */
  assemble(used, identities, received) {
    if (identities[0] === null) {
      if (this.#standard?.used !== used) throw new Error("the standard library differs");
      return this.#standard;
    }
    const bytes = new Uint8Array(used);
    const pieces = identities.map((identity, i) => {
      const found = received.get(identity);
      if (found === undefined) throw new Error(`contents ${identity} are missing`);
      bytes.set(found.bytes, i * PIECE_BYTES);
      return found.piece;
    });
    const content = { bytes, used, pieces };
    this.#frozen.set(bytes, content);
    return content;
  }

  /**
   * @param {readonly SentPiece[]} sent
   * @returns {Map<number | null, {piece: Piece, bytes: Uint8Array}>}
   */
  receive(sent) {
    return new Map(
      sent.map(({ identity, bytes }) => [identity, { piece: { identity, known: this.#generation }, bytes }]),
    );
  }
}

/**
 * @param {{base: Content, dirty: Set<number>} | undefined} edit
 * @param {number} index
 * @param {number} length
 * @returns {Piece | undefined} the piece that still has the same bytes
 */
function reusable(edit, index, length) {
  if (edit === undefined || edit.base.pieces === null || edit.dirty.has(index)) return undefined;
  const before = Math.min(PIECE_BYTES, edit.base.used - index * PIECE_BYTES);
  return before === length ? edit.base.pieces[index] : undefined;
}
