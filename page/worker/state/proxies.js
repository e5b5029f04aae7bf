/**
 * Python objects that the host holds (machine 7, hazards H3, H4, H5).
 *
 * The engine registers every such object in a finalization registry. The registrations are therefore the list of them;
 * the fields of the engine's shared object (pointer, flags, message, cache) are copied so that they can be reinstated.
 * A live record holds the objects weakly, else a save would keep host garbage, and with it Python objects, alive.
 *
 * @module
 */

const LEFT_MESSAGE = "This object belongs to a state of the machine that was left by a restore.";

/**
 * @typedef {object} CacheCopy
 * @property {any} cache
 * @property {Record<string, any>} fields own fields except the maps
 * @property {[any, any][]} map
 * @property {[any, any][]} jsonMap
 */

/**
 * @typedef {object} ProxyCopy
 * @property {import("../registry.js").Registration} registration
 * @property {Record<string, any> | null} fields of the shared object
 * @property {CacheCopy | null} cache
 */

/** @typedef {ProxyCopy[][]} LiveProxies one list per registry */

export class Proxies {
  #context;
  /** @type {WeakKey[]} host objects of the boot, kept so that base holds the same ones in every incarnation */
  #ofBoot = [];

  /**
   * Must be made before the engine registers anything.
   * @param {import("../context.js").EngineContext} context
   */
  constructor(context) {
    this.#context = context;
    for (const registry of context.registries) {
      const { register } = registry;
      registry.register = (target, held, token) => {
        this.#ofBoot.push(target);
        register.call(registry, target, held, token);
      };
    }
  }

  /** Called once, when base is taken: later host objects may come and go. */
  markBase() {
    for (const registry of this.#context.registries) delete (/** @type {any} */ (registry).register);
  }

  /** Runs the finalizers of host objects that are gone. */
  drain() {
    for (const registry of this.#context.registries) registry.drain();
  }

  /** Pointers of the host-held Python objects in order of their creation. */
  pointers() {
    return this.#context.registries.flatMap((registry) =>
      registry.registrations().flatMap(({ held }) => (typeof held?.ptr === "number" ? [held.ptr] : [])),
    );
  }

  /** @returns {LiveProxies} */
  capture() {
    return this.#context.registries.map((registry) =>
      registry.registrations().map((registration) => {
        const shared = sharedOf(registration);
        return {
          registration,
          fields: shared === undefined ? null : { ...shared },
          cache: copyCache(registration.held?.cache),
        };
      }),
    );
  }

  /**
   * Reinstates the proxies of `live` and disarms every other one (a call of it throws an ordinary error).
   * @param {LiveProxies} live
   */
  restore(live) {
    this.#context.registries.forEach((registry, i) => {
      const copies = live[i] ?? [];
      const kept = new Set(copies.map((copy) => copy.registration));
      for (const registration of registry.registrations()) {
        if (!kept.has(registration)) this.#disarm(registration);
      }
      for (const copy of copies) reinstate(copy);
      registry.replace(copies.map((copy) => copy.registration));
    });
  }

  /** @param {import("../registry.js").Registration} registration */
  #disarm(registration) {
    disarmShared(sharedOf(registration));
    const cache = registration.held?.cache;
    for (const map of [cache?.map, cache?.json_adaptor_map]) {
      if (!(map instanceof Map)) continue;
      for (const proxy of map.values()) {
        const shared = this.#context.module.PyProxy_getAttrsQuiet?.(proxy)?.shared;
        // A registered one is judged by its own registration.
        if (shared !== undefined && !shared.gcRegistered) disarmShared(shared);
      }
    }
  }
}

/** @param {any} shared */
function disarmShared(shared) {
  if (shared === undefined || shared.ptr === 0) return;
  shared.ptr = 0;
  shared.destroyed_msg = LEFT_MESSAGE;
}

/**
 * The engine's shared object of a registration, if it is one and still exists.
 * @param {import("../registry.js").Registration} registration
 * @returns {any}
 */
function sharedOf(registration) {
  const token = /** @type {any} */ (registration.token?.deref());
  return token !== undefined && typeof token === "object" && "ptr" in token ? token : undefined;
}

/**
 * @param {any} cache
 * @returns {CacheCopy | null}
 */
function copyCache(cache) {
  if (cache === undefined || cache === null) return null;
  const { map, json_adaptor_map: jsonMap, ...fields } = cache;
  return { cache, fields, map: [...(map ?? [])], jsonMap: [...(jsonMap ?? [])] };
}

/** @param {ProxyCopy} copy */
function reinstate({ registration, fields, cache }) {
  const shared = sharedOf(registration);
  if (shared !== undefined && fields !== null) Object.assign(shared, fields);
  if (cache === null) return;
  delete cache.cache.leaked;
  Object.assign(cache.cache, cache.fields);
  refill(cache.cache.map, cache.map);
  refill(cache.cache.json_adaptor_map, cache.jsonMap);
}

/**
 * @param {Map<any, any> | undefined} map
 * @param {readonly [any, any][]} entries
 */
function refill(map, entries) {
  if (map === undefined) return;
  map.clear();
  for (const [key, value] of entries) map.set(key, value);
}
