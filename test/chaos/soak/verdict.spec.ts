import { randomFrom } from '../worker/random.mjs';
import { verdictOf, type Series, seriesOf, table } from './verdict.js';
import { History } from '../../checker/history.js';
import { Story } from '../../checker/story.js';
import { unexpectedErrors } from './soak.js';

const MINUTES = 60;

/** A series of an hour; `at` gives the value of each minute. */
const series = (name: string, at: (minute: number) => number, minutes = MINUTES): Series => {
  const all = Array.from({ length: minutes }, (_, i) => i + 1);
  return { source: 'w0', name, minutes: all, values: all.map(at) };
};

const resultOf = (...args: Parameters<typeof series>): string => verdictOf(series(...args)).result;

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

  it('is not changed by a few samples in the middle of a failover', () => {
    expect(resultOf('sockets', (minute) => (minute % 17 === 0 ? 30 : 6))).toBe('flat');
    expect(resultOf('sockets', (minute) => (minute === MINUTES ? 30 : 6))).toBe('flat');
  });

  it('lets a quantity fall, or rise within its bound', () => {
    expect(resultOf('heap', (minute) => 40 - minute / 10)).toBe('flat');
    expect(resultOf('heap', (minute) => 20 + (minute * 50) / 1_440)).toBe('flat');
    expect(resultOf('heap', (minute) => 20 + (minute * 150) / 1_440)).toBe('growing');
  });

  it('does not call a run flat that is too short to check', () => {
    expect(resultOf('sockets', () => 6, 15)).toBe('too short');
    expect(resultOf('sockets', (minute) => 6 + minute, 16)).toBe('growing');
  });

  it('extrapolates the slope to a day, however often it is measured', () => {
    const quick = { ...series('sockets', (i) => i), minutes: Array.from({ length: MINUTES }, (_, i) => i / 4) };
    expect(verdictOf(quick)).toMatchObject({ perDay: 4 * 1_440, first: 10.5, last: 50.5 });
  });
});

const sample = (minute: number, source: string, values: Record<string, number>) => ({ minute, source, values });

describe('The series of a soak', () => {
  it('are one for each quantity of each source; what was not counted was not there', () => {
    const samples = [sample(1, 'w0', { sockets: 6 }), sample(1, 'w1', { sockets: 7 })];
    const all = seriesOf([...samples, sample(2, 'w0', { sockets: 6, 'kind WriteWrap': 1 })]);
    expect(all).toEqual([
      { source: 'w0', name: 'sockets', minutes: [1, 2], values: [6, 6] },
      { source: 'w0', name: 'kind WriteWrap', minutes: [1, 2], values: [0, 1] },
      { source: 'w1', name: 'sockets', minutes: [1], values: [7] },
    ]);
  });

  it('have a row, in which a process that leaks stands out', () => {
    const minutes = Array.from({ length: 20 }, (_, i) => i);
    const samples = minutes.flatMap((minute) => [
      sample(minute, 'w0', { sockets: 6 }),
      sample(minute, 'w1', { sockets: 6 + minute }),
    ]);
    const verdicts = seriesOf(samples).map(verdictOf);
    expect(table(verdicts)).toContain('| processes | sockets | 6, 9 | 6, 22 | 0, 1,440 | 150 | flat, growing |');
  });
});

const textsOf = (story: Story): string[] => unexpectedErrors(History.of(story.events)).map(({ text }) => text);

const failing = (code: string) => new Story().call(100, 'w0.1:1').of(150, 'w0.1:1', 'failed', { code });
const failover = (story: Story) =>
  story.nemesis(120, 'fault', { id: 1, kind: 'master killed', forgets: 'all' }).nemesis(130, 'over', { id: 1 });

describe('The errors that a soak expects', () => {
  it.each(['LOCK_BUSY', 'LOCK_WAIT_TIMEOUT', 'TimeoutError', 'skipped'])('are %s at any time', (code) => {
    expect(textsOf(failing(code))).toEqual([]);
  });

  it('are those of the store during a failover only', () => {
    expect(textsOf(failover(failing('LOCK_STORE')))).toEqual([]);
    expect(textsOf(failing('LOCK_STORE'))).toEqual(['w0.1:1 failed: LOCK_STORE']);
  });

  it('include those of the store after a long standstill', () => {
    const lag = (from: number) => failing('LOCK_STORE').process(110, 'w1.1', 'lag', { from });
    expect(textsOf(lag(-1_000))).toEqual([]);
    expect(textsOf(lag(50))).toEqual(['w0.1:1 failed: LOCK_STORE']);
  });

  it('do not include any others, failover or not', () => {
    expect(textsOf(failover(failing('TypeError')))).toEqual(['w0.1:1 failed: TypeError']);
  });

  it('are the same for a look at a lock', () => {
    const look = (code: string) => new Story().process(500, 'w0.1', 'error', { what: 'look', code });
    expect(textsOf(failover(look('LOCK_STORE')))).toEqual([]);
    expect(textsOf(look('LOCK_STORE'))).toEqual(['look of w0.1 failed: LOCK_STORE']);
  });
});
