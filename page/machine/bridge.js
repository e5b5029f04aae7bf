/**
 * The page's end of the bridge: one WebSocket to the host, opened by the first message.
 *
 * @module
 */

const PATH = "/bridge";

const PRESENCE_PATH = "/presence";

/** Bytes of one part of a binary transfer. */
const PART = 1 << 20;

/** Bytes that may wait in the socket before more is given to it. */
const BUFFERED = 8 << 20;

/** @param {string} path */
function open(path) {
  const address = new URL(path, location.href);
  address.protocol = "ws:";
  return new WebSocket(address);
}

/**
 * Lets the host know that this page is there, and when it ends: the connection lasts as long as the page.
 * @param {string} capability
 */
export function bePresent(capability) {
  const socket = open(PRESENCE_PATH);
  socket.addEventListener("open", () => socket.send(capability));
  return socket;
}

/** One connection; it is never opened again. */
export class Bridge {
  constructor() {
    /** @type {(text: string) => void} */
    this.onMessage = () => {};
    /** @type {() => void} */
    this.onClosed = () => {};
    /** @type {WebSocket | undefined} */
    this.socket = undefined;
    /** @type {(string | Uint8Array<ArrayBuffer>)[]} */
    this.waiting = [];
  }

  /**
   * Sends a text message.
   * @param {string} text
   */
  send(text) {
    this.#deliver(text);
  }

  /**
   * Sends bytes as binary messages in order, no faster than they leave. Only one such transfer may be under way.
   * @param {ArrayBuffer} bytes
   */
  async sendBytes(bytes) {
    for (let at = 0; at < bytes.byteLength; at += PART) {
      while (this.socket !== undefined && this.socket.bufferedAmount > BUFFERED) {
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
      this.#deliver(new Uint8Array(bytes, at, Math.min(PART, bytes.byteLength - at)));
    }
  }

  /** @param {string | Uint8Array<ArrayBuffer>} message */
  #deliver(message) {
    if (this.socket?.readyState === WebSocket.OPEN) {
      this.socket.send(message);
      return;
    }
    this.waiting.push(message);
    this.socket ??= this.#connect();
  }

  #connect() {
    const socket = open(PATH);
    socket.binaryType = "arraybuffer";
    socket.addEventListener("open", () => {
      for (const message of this.waiting.splice(0)) {
        socket.send(message);
      }
    });
    socket.addEventListener("message", ({ data }) => {
      if (typeof data === "string") {
        this.onMessage(data);
      }
    });
    socket.addEventListener("close", () => this.onClosed());
    return socket;
  }
}
