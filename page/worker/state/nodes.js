/**
 * Nodes of the in-memory file system as state (machine 7, 9.3 step 3, hazards H1, H2).
 *
 * A capture is a shallow copy of every node that a name or an open stream reaches. Copies are immutable and reused while
 * no field of the node changed; a restore assigns the fields back to the same node objects. The name hash table is kept
 * as bucket heads plus each node's `name_next`.
 *
 * @module
 */

const TYPE_MASK = 0o170000;
const DIRECTORY = 0o040000;
const FILE = 0o100000;
const LINK = 0o120000;
const DEVICE = 0o020000;
const PIPE = 0o010000;
const SOCKET = 0o140000;
/** Property of a node that holds its newest copy. */
const COPY = Symbol("copy");

/**
 * @typedef {object} NodeCopy
 * @property {any} node
 * @property {any} parent
 * @property {string} name
 * @property {number} mode
 * @property {number} atime
 * @property {number} mtime
 * @property {number} ctime
 * @property {any} next
 * @property {any} mounted
 * @property {string | undefined} link
 * @property {import("./contents.js").Content | null} content of a file
 * @property {string[] | null} names of a directory's entries, in order
 * @property {any[] | null} children of the same length
 * @property {string} packed `PackedNode` in JSON
 */

/**
 * `[inode, parent inode, name, mode, device, atime, mtime, ctime, rest]`; times are milliseconds since 1970. `rest` is a
 * directory's child inodes in order, a link's target, a file's length followed by the identities of its pieces or by
 * `null` for the standard library, and `null` for a device.
 * @typedef {[number, number, string, number, number, number, number, number, any]} PackedNode
 */

/**
 * @typedef {object} LiveNodes
 * @property {NodeCopy[]} copies those that have a name first, in hash chain order
 * @property {number} named how many of them have a name
 * @property {any[]} table heads of the hash chains
 * @property {number} nextInode
 * @property {string} directory working directory
 */

/**
 * @typedef {object} PackedNodes
 * @property {string} nodes one `PackedNode` in JSON per line: a single string crosses between realms much faster than
 *   thousands of arrays, and lines of unchanged nodes are reused
 * @property {number} named
 * @property {number} nextInode
 * @property {string} directory
 */

/**
 * @param {string} nodes of a packed record
 * @returns {PackedNode[]}
 */
export function parseNodes(nodes) {
  return JSON.parse(`[${nodes.replaceAll("\n", ",")}]`);
}

/** @param {any} node */
export function typeOf(node) {
  return node.mode & TYPE_MASK;
}

export class Nodes {
  #FS;
  #MEMFS;
  #contents;
  /** @type {Map<number, any>} nodes of base by inode */
  #base = new Map();

  /**
   * @param {import("../context.js").EngineModule} module
   * @param {import("./contents.js").Contents} contents
   */
  constructor(module, contents) {
    this.#FS = module.FS;
    this.#MEMFS = module.MEMFS;
    this.#contents = contents;
  }

  /** @param {LiveNodes} live */
  markBase(live) {
    for (const { node } of live.copies) this.#base.set(node.id, node);
  }

  /**
   * Calls `visit` for every node that has a name.
   * @param {(node: any) => void} visit
   */
  each(visit) {
    for (const head of this.#FS.nameTable) {
      for (let node = head; node; node = node.name_next) visit(node);
    }
  }

  /** Drops what the engine keeps of pipes and sockets after they were closed. None may be open. */
  #dropClosed() {
    /** @type {any[]} */
    const closed = [];
    this.each((node) => {
      if (typeOf(node) === PIPE || typeOf(node) === SOCKET) closed.push(node);
    });
    for (const node of closed) this.#FS.hashRemoveNode(node);
  }

  /**
   * @param {Iterable<any>} opened nodes that streams hold; no pipes and sockets
   * @param {LiveNodes | null} last the newest capture or restored state; returned again when nothing differs from it
   * @returns {LiveNodes}
   */
  capture(opened, last) {
    const FS = this.#FS;
    this.#dropClosed();
    /** @type {NodeCopy[]} */
    const copies = [];
    this.each((node) => copies.push(this.#copy(node)));
    const named = copies.length;
    this.#loose(opened, copies);
    const same =
      last !== null &&
      last.named === named &&
      last.nextInode === FS.nextInode &&
      last.directory === FS.currentPath &&
      last.copies.length === copies.length &&
      last.copies.every((copy, i) => copy === copies[i]);
    if (same) return last;
    return { copies, named, table: [...FS.nameTable], nextInode: FS.nextInode, directory: FS.currentPath };
  }

  /**
   * Adds nodes that only streams reach, and their removed parents.
   * @param {Iterable<any>} opened
   * @param {NodeCopy[]} copies
   */
  #loose(opened, copies) {
    /** @type {Set<any> | null} */
    let seen = null;
    for (const start of opened) {
      for (let node = start; ; node = node.parent) {
        seen ??= new Set(copies.map((copy) => copy.node));
        if (seen.has(node)) break;
        seen.add(node);
        copies.push(this.#copy(node));
      }
    }
  }

  /**
   * @param {any} node
   * @returns {NodeCopy}
   */
  #copy(node) {
    const last = /** @type {NodeCopy | undefined} */ (node[COPY]);
    if (last !== undefined && unchanged(last, node)) return last;
    const type = typeOf(node);
    const content = type === FILE ? this.#contents.freeze(node) : null;
    const names = type === DIRECTORY && node.contents ? Object.keys(node.contents) : null;
    const children = names === null ? null : names.map((name) => node.contents[name]);
    /** @type {NodeCopy} */
    const copy = {
      node,
      parent: node.parent,
      name: node.name,
      mode: node.mode,
      atime: node.atime,
      mtime: node.mtime,
      ctime: node.ctime,
      next: node.name_next,
      mounted: node.mounted,
      link: node.link,
      content,
      names,
      children,
      packed: JSON.stringify(packNode(node, content, children)),
    };
    node[COPY] = copy;
    return copy;
  }

  /** @param {LiveNodes} live */
  restore(live) {
    const FS = this.#FS;
    for (const copy of live.copies) {
      if (!unchanged(copy, copy.node)) assign(copy);
      copy.node[COPY] = copy;
    }
    live.table.forEach((head, i) => {
      FS.nameTable[i] = head;
    });
    FS.nextInode = live.nextInode;
    FS.currentPath = live.directory;
  }

  /**
   * @param {LiveNodes} live
   * @returns {PackedNodes}
   */
  pack(live) {
    return {
      nodes: live.copies.map((copy) => copy.packed).join("\n"),
      named: live.named,
      nextInode: live.nextInode,
      directory: live.directory,
    };
  }

  /**
   * Makes the nodes of another incarnation: those of base are matched by inode and type, the others are created.
   * @param {PackedNodes} packed
   * @param {Received} received
   * @returns {Map<number, any>} node by inode
   */
  adopt(packed, received) {
    const FS = this.#FS;
    const entries = parseNodes(packed.nodes);
    /** @type {Map<number, any>} */
    const nodes = new Map();
    for (const entry of entries) nodes.set(entry[0], this.#match(entry) ?? this.#create(entry));
    const find = (/** @type {number} */ inode) => {
      const node = nodes.get(inode);
      if (node === undefined) throw new Error(`inode ${inode} is missing`);
      return node;
    };
    for (const [inode, parent, name, mode, , atime, mtime, ctime] of entries) {
      Object.assign(find(inode), { parent: find(parent), name, mode, atime, mtime, ctime });
    }
    for (const entry of entries) this.#fill(find(entry[0]), entry[8], find, received);
    FS.nameTable.fill(undefined);
    // Adding puts a node at the head of its chain, so the order is turned around to come out as it was.
    for (let i = packed.named - 1; i >= 0; i -= 1) FS.hashAddNode(find(entries[i][0]));
    FS.nextInode = packed.nextInode;
    FS.currentPath = packed.directory;
    return nodes;
  }

  /** @param {PackedNode} entry */
  #match([inode, , , mode, device]) {
    const node = this.#base.get(inode);
    const same = node !== undefined && typeOf(node) === (mode & TYPE_MASK) && (node.rdev ?? 0) === device;
    return same ? node : undefined;
  }

  /** @param {PackedNode} entry */
  #create([inode, , name, mode, device]) {
    const FS = this.#FS;
    const operations = operationsOf(this.#MEMFS.ops_table, mode & TYPE_MASK);
    const node = new FS.FSNode(FS.root, name, mode, device);
    node.id = inode;
    node.node_ops = operations.node;
    node.stream_ops = operations.stream;
    return node;
  }

  /**
   * @param {any} node
   * @param {any} rest of its packed form
   * @param {(inode: number) => any} find
   * @param {Received} received
   */
  #fill(node, rest, find, received) {
    const type = typeOf(node);
    if (type === LINK) node.link = rest;
    if (type === DIRECTORY && rest !== null) {
      node.contents = {};
      for (const inode of rest) {
        const child = find(inode);
        node.contents[child.name] = child;
      }
    }
    if (type === FILE) {
      const content = this.#contents.assemble(rest[0], rest.slice(1), received);
      node.contents = content.bytes;
      node.usedBytes = content.used;
    }
  }
}

/** @typedef {Map<number | null, {piece: import("./contents.js").Piece, bytes: Uint8Array}>} Received */

/**
 * @param {any} node
 * @param {import("./contents.js").Content | null} content
 * @param {any[] | null} children
 * @returns {PackedNode}
 */
function packNode(node, content, children) {
  /** @type {any} */
  let rest = null;
  if (content !== null) {
    rest = [content.used, ...(content.pieces?.map(({ identity }) => identity) ?? [null])];
  } else if (children !== null) {
    rest = children.map((child) => child.id);
  } else if (typeOf(node) === LINK) {
    rest = node.link;
  }
  const { id, parent, name, mode, rdev, atime, mtime, ctime } = node;
  return [id, parent.id, name, mode, rdev ?? 0, atime, mtime, ctime, rest];
}

/**
 * @param {NodeCopy} copy
 * @param {any} node
 */
function unchanged(copy, node) {
  return (
    copy.parent === node.parent &&
    copy.name === node.name &&
    copy.mode === node.mode &&
    copy.atime === node.atime &&
    copy.mtime === node.mtime &&
    copy.ctime === node.ctime &&
    copy.next === node.name_next &&
    copy.mounted === node.mounted &&
    copy.link === node.link &&
    (copy.content === null || (copy.content.bytes === node.contents && copy.content.used === node.usedBytes)) &&
    sameEntries(copy, node.contents)
  );
}

/**
 * @param {NodeCopy} copy
 * @param {any} contents
 */
function sameEntries({ names, children }, contents) {
  if (names === null || children === null) return true;
  let i = 0;
  for (const name in contents) {
    if (names[i] !== name || children[i] !== contents[name]) return false;
    i += 1;
  }
  return i === names.length;
}

/** @param {NodeCopy} copy */
function assign({ node, parent, name, mode, atime, mtime, ctime, next, mounted, link, content, names, children }) {
  Object.assign(node, { parent, name, mode, atime, mtime, ctime, mounted, name_next: next });
  if (link !== undefined) node.link = link;
  if (content !== null) {
    node.contents = content.bytes;
    node.usedBytes = content.used;
  }
  if (names !== null && children !== null) {
    node.contents = {};
    names.forEach((entry, i) => {
      node.contents[entry] = children[i];
    });
  }
}

/**
 * Operations of the in-memory file system for a type of node.
 * @param {any} table
 * @param {number} type
 */
function operationsOf(table, type) {
  switch (type) {
    case DIRECTORY:
      return table.dir;
    case FILE:
      return table.file;
    case LINK:
      return table.link;
    case DEVICE:
      return table.chrdev;
    default:
      throw new Error(`a node of type ${type} cannot be created`);
  }
}
