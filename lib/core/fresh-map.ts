/** A copy is made after this number of additions, plus the number of entries. */
const ADDED_PER_COPY = 64;

/**
 * A map whose entries come and go with each call. When the table of a `Map` is full of deleted entries, V8 continues with a new
 * table, to which the old one refers, for iterators. Once a table has lived long enough to be moved to the old space, all
 * later tables, and all calls that were in them, survive the collections of the new space until the next full collection: under
 * load, a fifth of all objects of our calls did. Nothing refers to a copy, so a copy ends that chain.
 *
 * During an iteration, added entries may not be visited, and deleted ones may be.
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
