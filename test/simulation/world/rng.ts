/** A small generator of pseudo-random numbers (sfc32). The same words give the same numbers, on every machine. */
export class Rng {
  #a: number;
  #b: number;
  #c: number;
  #d = 1;

  /** Each part of a run has a stream of its own, named by `words`: what one part draws does not change another. */
  constructor(...words: readonly (number | string)[]) {
    let state = 0x9e3779b9;
    for (const word of words.flatMap(numbersOf)) state = mixed(state ^ mixed(word));
    const next = (): number => (state = mixed(state + 0x9e3779b9));
    [this.#a, this.#b, this.#c] = [next(), next(), next()];
    for (let i = 0; i < 12; i += 1) this.u32();
  }

  u32(): number {
    const result = (((this.#a + this.#b) | 0) + this.#d) | 0;
    this.#d = (this.#d + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = (this.#c << 21) | (this.#c >>> 11);
    this.#c = (this.#c + result) | 0;
    return result >>> 0;
  }

  /** From 0 to 1, without 1. */
  fraction(): number {
    return this.u32() / 2 ** 32;
  }

  float(min: number, max: number): number {
    return min + (max - min) * this.fraction();
  }

  /** A whole number; both ends are possible. */
  int(min: number, max: number): number {
    return min + Math.floor(this.fraction() * (max - min + 1));
  }

  /** Mostly near `min`, sometimes near `max`. */
  skewed(min: number, max: number): number {
    return min + (max - min) * this.fraction() ** 3;
  }

  /** The time to the next of events that come at random, this often on average. */
  exponential(mean: number): number {
    return -Math.log(1 - this.fraction()) * mean;
  }

  chance(probability: number): boolean {
    return probability > 0 && this.fraction() < probability;
  }

  pick<T>(list: readonly T[]): T {
    return list[Math.floor(this.fraction() * list.length)]!;
  }
}

const numbersOf = (word: number | string): number[] =>
  typeof word === 'number'
    ? [word | 0, Math.floor(word / 2 ** 32) | 0]
    : Array.from(word, (char) => char.codePointAt(0)!);

function mixed(value: number): number {
  let z = value | 0;
  z = Math.imul(z ^ (z >>> 16), 0x85ebca6b);
  z = Math.imul(z ^ (z >>> 13), 0xc2b2ae35);
  return (z ^ (z >>> 16)) | 0;
}
