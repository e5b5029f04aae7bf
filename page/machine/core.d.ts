/** The browser face of the core, made from Rust when the product is built. */

/** Work that the core wants done. */
export type PageWork =
  | { type: "send"; text: string }
  | { type: "spawn"; incarnation: number; free: Uint32Array }
  | { type: "interrupt"; incarnation: number }
  | { type: "kill"; incarnation: number }
  | { type: "keepContents"; identities: Float64Array }
  | { type: "makeImage"; table: Uint32Array; record: string; limit: number }
  | { type: "sendImage" }
  | { type: "sendDisplays" }
  | { type: "placeImage"; address: string; free: Uint32Array }
  | {
      type: "post";
      incarnation: number;
      command: string;
      table: Uint32Array | undefined;
      free: Uint32Array | undefined;
      record: string | undefined;
    };

export class MachineCore {
  constructor(capability: string, pageEpoch: string, settings: string, imageSlots: number);
  start(now: number): void;
  bridgeMessage(now: number, text: string): void;
  bridgeClosed(now: number): void;
  workerMessage(
    now: number,
    incarnation: number,
    message: string,
    printed: string | undefined,
    table: Uint32Array | undefined,
    record: string | undefined,
  ): void;
  workerLost(now: number, incarnation: number, reason: string): void;
  workerKilled(now: number, incarnation: number, printed: string): void;
  imageMade(now: number, bytes: number): void;
  imagePlaced(now: number, table: Uint32Array, record: string, identities: Float64Array): void;
  imageRefused(now: number, code: string, message: string): void;
  tick(now: number): void;
  poll(): PageWork | undefined;
  deadline(): number | undefined;
}

/** Loads the core; `module_or_path` is where its WebAssembly is. */
export default function init(options: { module_or_path: URL }): Promise<unknown>;
