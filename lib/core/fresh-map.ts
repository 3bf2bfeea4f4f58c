/** So many entries are added before a copy is made, and as many more as there are. */
const ADDED_PER_COPY = 64;

/**
 * A map whose entries come and go with each call. When the table of a `Map` is full of deleted entries, V8 goes on with a new one,
 * and lets the old one refer to it, for iterators. If a table has lived long enough to be moved to the old space, all tables
 * that follow it, and all calls that were in them, survive the collections of the new space until the next full one: under
 * load, a fifth of what our calls had made did. Nothing refers to a copy, so it ends that chain.
 *
 * During an iteration, what is added may not be visited, and what is deleted may be.
 */
export class FreshMap<K, V> {
  #map = new Map<K, V>();
  #added = 0;

  get size(): number {
    return this.#map.size;
  }

  get(key: K): V | undefined {
    return this.#map.get(key);
  }

  has(key: K): boolean {
    return this.#map.has(key);
  }

  set(key: K, value: V): void {
    if (this.#added >= ADDED_PER_COPY + this.#map.size) {
      this.#map = new Map(this.#map);
      this.#added = 0;
    }
    this.#added += 1;
    this.#map.set(key, value);
  }

  delete(key: K): boolean {
    return this.#map.delete(key);
  }

  keys(): IterableIterator<K> {
    return this.#map.keys();
  }

  values(): IterableIterator<V> {
    return this.#map.values();
  }
}
