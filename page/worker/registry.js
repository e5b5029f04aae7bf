/**
 * Finalization registry whose finalizers run only when the machine asks for it (machine 4.2, hazard H3).
 *
 * The browser's own registry may call back at any turn. Here its callbacks only enqueue; `drain` runs them at a command
 * boundary, and a restore replaces the registrations by those of the state that is restored.
 *
 * @module
 */

const RealRegistry = globalThis.FinalizationRegistry;
const RealWeakRef = globalThis.WeakRef;

/**
 * @typedef {object} Registration
 * @property {WeakRef<WeakKey>} target
 * @property {any} held what the finalizer receives
 * @property {WeakRef<WeakKey> | undefined} token unregistration token
 */

/** @type {ManagedRegistry[]} */
const registries = [];

/** Every managed registry, in order of construction. */
export const managedRegistries = /** @type {readonly ManagedRegistry[]} */ (registries);

export class ManagedRegistry {
  /** @type {(held: any) => void} */
  #finalize;
  /** @type {Set<Registration>} */
  #live = new Set();
  /** @type {Registration[]} */
  #queue = [];
  /** @type {FinalizationRegistry<Registration>} */
  #real;
  /** @type {WeakMap<WeakKey, Set<Registration>>} */
  #byToken = new WeakMap();

  /** @param {(held: any) => void} finalize */
  constructor(finalize) {
    if (typeof finalize !== "function") throw new TypeError("a finalizer must be callable");
    this.#finalize = finalize;
    this.#real = new RealRegistry((registration) => {
      if (this.#live.has(registration)) this.#queue.push(registration);
    });
    registries.push(this);
  }

  /**
   * @param {WeakKey} target
   * @param {any} held
   * @param {WeakKey} [token]
   */
  register(target, held, token) {
    /** @type {Registration} */
    const registration = {
      target: new RealWeakRef(target),
      held,
      token: token === undefined ? undefined : new RealWeakRef(token),
    };
    this.#live.add(registration);
    this.#index(registration);
    this.#real.register(target, registration, registration);
  }

  /** @param {Registration} registration */
  #index(registration) {
    const token = registration.token?.deref();
    if (token === undefined) return;
    const known = this.#byToken.get(token);
    if (known === undefined) this.#byToken.set(token, new Set([registration]));
    else known.add(registration);
  }

  /**
   * @param {WeakKey} token
   * @returns {boolean} whether something was registered under it
   */
  unregister(token) {
    const known = this.#byToken.get(token);
    if (known === undefined) return false;
    this.#byToken.delete(token);
    let found = false;
    for (const registration of known) {
      found = this.#live.delete(registration) || found;
      this.#real.unregister(registration);
    }
    return found;
  }

  /** Runs the finalizers of all targets that are gone. Returns how many ran. */
  drain() {
    let ran = 0;
    for (let next = this.#queue.shift(); next !== undefined; next = this.#queue.shift()) {
      if (!this.#live.delete(next)) continue;
      this.#finalize(next.held);
      ran += 1;
    }
    return ran;
  }

  /** The registrations that hold now: targets alive, or gone and not yet finalized. */
  registrations() {
    return [...this.#live];
  }

  /**
   * Makes exactly `registrations` (from `registrations()` of this registry) hold. Queued finalizers of others are
   * dropped; those whose target has vanished meanwhile are queued again.
   * @param {Iterable<Registration>} registrations
   */
  replace(registrations) {
    const wanted = new Set(registrations);
    for (const registration of this.#live) {
      if (!wanted.has(registration)) this.#real.unregister(registration);
    }
    this.#queue = [];
    for (const registration of wanted) {
      this.#index(registration);
      const target = registration.target.deref();
      if (target === undefined) this.#queue.push(registration);
      else if (!this.#live.has(registration)) this.#real.register(target, registration, registration);
    }
    this.#live = wanted;
  }
}
