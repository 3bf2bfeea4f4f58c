/** Sums up the log of a run: two runs with the same digest had the same events, replies and outcomes in the same order. */
export class Digest {
  #low = 0x811c9dc5;
  #high = 0x1b873593;

  number(value: number): void {
    this.#mix(value | 0);
    this.#mix(Math.floor((value % 1) * 2 ** 32) | 0);
  }

  text(value: string): void {
    for (let i = 0; i < value.length; i += 1) this.#mix(value.charCodeAt(i));
  }

  get hex(): string {
    return [this.#high, this.#low].map((part) => (part >>> 0).toString(16).padStart(8, '0')).join('');
  }

  #mix(value: number): void {
    this.#low = Math.imul(this.#low ^ value, 0x01000193);
    this.#high = Math.imul(this.#high ^ (this.#low >>> 15) ^ value, 0x85ebca6b);
  }
}
