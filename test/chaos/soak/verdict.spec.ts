import { randomFrom } from '../worker/random.mjs';
import { type Series, judge } from './verdict.js';

const MINUTES = 60;

/** A series of an hour; `at` gives the value of each minute. */
const series = (name: string, at: (minute: number) => number, minutes = MINUTES): Series => {
  const all = Array.from({ length: minutes }, (_, i) => i + 1);
  return { source: 'w0', name, minutes: all, values: all.map(at) };
};

const resultOf = (...args: Parameters<typeof series>): string => judge(series(...args)).result;

/** From -size to size, evenly; the same for the same seed. */
const noise = (seed: number, size: number): (() => number) => {
  const random = randomFrom(seed);
  return () => (2 * random.next() - 1) * size;
};

const SEEDS = Array.from({ length: 200 }, (_, i) => i);

describe('The verdict of a soak', () => {
  it.each(['heap', 'rss', 'sockets', 'keys'])('is flat for %s that stay the same', (name) => {
    expect(resultOf(name, () => 20)).toBe('flat');
  });

  it('finds a heap that keeps the locks of 10 calls a second, under the noise of a collector', () => {
    const perMinute = (10 * 60 * 200) / 2 ** 20;
    for (const seed of SEEDS) {
      const jitter = noise(seed, 0.3);
      expect(resultOf('heap', (minute) => 20 + perMinute * minute + jitter())).toBe('growing');
    }
  });

  it('finds sockets, timers and keys without expiry of which each failover, or every other, leaves one', () => {
    for (const name of ['sockets', 'timers', 'keys without expiry', 'kind TCPSocketWrap']) {
      expect(resultOf(name, (minute) => 6 + minute)).toBe('growing');
      expect(resultOf(name, (minute) => 6 + Math.floor(minute / 2))).toBe('growing');
    }
  });

  it('finds a leak that begins late', () => {
    expect(resultOf('sockets', (minute) => 6 + Math.max(0, minute - 40))).toBe('growing');
  });

  it('takes noise for noise', () => {
    const found = SEEDS.flatMap((seed) => {
      const [of1, of2] = [noise(seed, 1), noise(seed + 1_000, 3)];
      return [resultOf('heap', () => 20 + of1()), resultOf('timers', () => Math.round(16 + of2()))];
    });
    expect(found.filter((result) => result !== 'flat')).toEqual([]);
  });

  it('lets caches fill and code be compiled in the first half', () => {
    expect(resultOf('heap', (minute) => 20 + 5 * Math.min(1, minute / 25))).toBe('flat');
  });

  it('is not turned by a few samples in the midst of a failover', () => {
    expect(resultOf('sockets', (minute) => (minute % 17 === 0 ? 30 : 6))).toBe('flat');
    expect(resultOf('sockets', (minute) => (minute === MINUTES ? 30 : 6))).toBe('flat');
  });

  it('lets a quantity fall, or rise within its bound', () => {
    expect(resultOf('heap', (minute) => 40 - minute / 10)).toBe('flat');
    expect(resultOf('heap', (minute) => 20 + (minute * 50) / 1_440)).toBe('flat');
    expect(resultOf('heap', (minute) => 20 + (minute * 150) / 1_440)).toBe('growing');
  });

  it('does not call a run flat that is too short to judge', () => {
    expect(resultOf('sockets', () => 6, 15)).toBe('too short');
    expect(resultOf('sockets', (minute) => 6 + minute, 16)).toBe('growing');
  });

  it('extrapolates the slope to a day, however often it is measured', () => {
    const quick = { ...series('sockets', (i) => i), minutes: Array.from({ length: MINUTES }, (_, i) => i / 4) };
    expect(judge(quick)).toMatchObject({ perDay: 4 * 1_440, first: 10.5, last: 50.5 });
  });
});
