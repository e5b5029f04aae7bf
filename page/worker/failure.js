/**
 * Text for something that was thrown: an error, or an object with the members of one, as the engine throws at `exit`.
 * @param {any} thrown
 * @returns {string}
 */
export function describe(thrown) {
  try {
    const named = typeof thrown === "object" && thrown !== null && typeof thrown.message === "string";
    return named ? `${thrown.name}: ${thrown.message}` : String(thrown);
  } catch {
    return "a value that cannot be described was thrown";
  }
}

/**
 * A boot that cannot go on. `code` is one of the start codes of machine 20, `item` names what was missing or present.
 */
export class BootFailure extends Error {
  /**
   * @param {"MACHINE_BOOT_FAILED" | "MACHINE_ENGINE_INCOMPATIBLE" | "MACHINE_ISOLATION_FAILED"} code
   * @param {string} message
   * @param {string} [item]
   */
  constructor(code, message, item) {
    super(message);
    this.code = code;
    this.item = item;
  }
}
