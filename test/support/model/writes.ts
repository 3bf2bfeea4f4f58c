/**
 * The writes of one command. A server may refuse the first one, because it is full or a replica; the command has changed
 * nothing then. After the first write, it refuses none.
 */
export class Writes {
  /** Throws to refuse the first write of a command. `adds`: it needs memory. */
  refuse: (adds: boolean) => void = () => undefined;
  #hasBegun = false;

  /** Called for each command. */
  start(): void {
    this.#hasBegun = false;
  }

  /** Before something is changed or removed. */
  change(): void {
    this.#first(false);
  }

  /** Before something is added. */
  add(): void {
    this.#first(true);
  }

  #first(adds: boolean): void {
    if (!this.#hasBegun) this.refuse(adds);
    this.#hasBegun = true;
  }
}
