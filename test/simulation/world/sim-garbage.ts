interface Watched {
  readonly target: object;
  readonly onCollected: () => void;
}

/** Stands for the finalization registries of a process: an object is collected when the run says so. */
export class SimGarbage {
  readonly #watched = new Map<object, Watched>();
  /** What nobody referred to before it was watched. */
  readonly #unreferenced = new Set<object>();

  /** `later` calls back in a later turn of the process. */
  constructor(private readonly later: (callback: () => void) => void) {}

  /** As `watchGarbage` of the library. */
  readonly watch = <T>(onCollected: (held: T) => void) => ({
    register: (target: object, held: T, token: object): void => {
      this.#watched.set(token, { target, onCollected: () => onCollected(held) });
      if (this.#unreferenced.delete(target)) this.later(() => this.collect(target));
    },
    unregister: (token: object): void => void this.#watched.delete(token),
  });

  /** How many objects are watched. */
  get size(): number {
    return this.#watched.size;
  }

  /** Nobody refers to `target` any more. */
  collect(target: object): void {
    const found = [...this.#watched].find(([, one]) => one.target === target);
    if (!found) return void this.#unreferenced.add(target);
    const [token, { onCollected }] = found;
    this.#watched.delete(token);
    onCollected();
  }
}
