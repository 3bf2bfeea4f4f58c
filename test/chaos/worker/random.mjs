/**
 * @typedef {object} Randoms
 * @property {() => number} next From 0 to 1.
 * @property {(share: number) => boolean} chance
 * @property {(min: number, max: number) => number} between A whole number of this range.
 * @property {<T>(list: readonly T[]) => T} pick
 */

/**
 * Random numbers that a seed determines (mulberry32).
 * @param {number} seed
 * @returns {Randoms}
 */
export function randomFrom(seed) {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  return {
    next,
    chance: (share) => next() < share,
    between: (min, max) => Math.floor(min + next() * (max - min + 1)),
    pick: (list) => list[Math.floor(next() * list.length)],
  };
}
