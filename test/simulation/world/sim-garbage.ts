interface Watched {
  readonly target: object;
  readonly onCollected: () => void;
}

/** Stands for the finalization registries of a process: an object is collected when the run says so. */
export class SimGarbage {
  readonly #watched = new Map<object, Watched>();

  /** As `watchGarbage` of the library. */
  readonly watch = <T>(onCollected: (held: T) => void) => ({
    register: (target: object, held: T, token: object): void => {
      this.#watched.set(token, { target, onCollected: () => onCollected(held) });
    },
    unregister: (token: object): void => void this.#watched.delete(token),
  });

  /** How many objects are watched. */
  get size(): number {
    return this.#watched.size;
  }

  /** Nobody refers to `target` any more. */
  collect(target: object): void {
    for (const [token, one] of this.#watched) {
      if (one.target !== target) continue;
      this.#watched.delete(token);
      one.onCollected();
    }
  }
}
