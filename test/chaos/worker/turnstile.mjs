/** Lets calls pass while it is open. */
export class Turnstile {
  #inside = 0;
  /** The promise that calls wait for while it is closed. */
  #opened;
  #open;
  #emptied;

  async pass(call) {
    while (this.#opened) await this.#opened;
    this.#inside += 1;
    try {
      return await call();
    } finally {
      this.#inside -= 1;
      if (this.#inside === 0) this.#emptied?.();
    }
  }

  get isClosed() {
    return this.#opened !== undefined;
  }

  /** Admits no further calls; resolves when all have left. */
  async close() {
    this.#opened ??= new Promise((resolve) => (this.#open = resolve));
    if (this.#inside > 0) await new Promise((resolve) => (this.#emptied = resolve));
  }

  open() {
    this.#opened = undefined;
    this.#open?.();
  }
}
