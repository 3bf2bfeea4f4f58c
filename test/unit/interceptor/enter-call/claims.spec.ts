import { jest } from '@jest/globals';
import { AwaitedCalls } from '../../../../lib/core/awaited-calls.js';
import { type FireClaim } from '../../../../lib/core/store/fires.js';
import { type LockedOptions } from '../../../../lib/interceptor/locked.options.js';
import { type EntryHost, enterCall } from '../../../../lib/interceptor/enter-call.js';
import { FakeClock, settled } from '../../../support/core/fake-clock.js';
import { jobCall } from '../job-call.js';

const LOCK = {};
const FIRE = { kind: 'at', ms: 1_234_000, rememberMs: 99_000 } as const;
const HOUR = 3_600_000;

/** A call that has just begun; `entries` is what it claimed (null: nothing) when it asked for its lock. */
function startCall(options: LockedOptions, self?: unknown) {
  const clock = new FakeClock();
  const entries: (FireClaim | null)[] = [];
  const enter = (_key: unknown, _options: unknown, { claim }: { claim?: FireClaim }) => {
    entries.push(claim ?? null);
    return Promise.resolve(LOCK);
  };
  const fires = { claimOf: () => FIRE };
  const parts = { locks: { enter }, awaited: new AwaitedCalls(clock), fires, clock };
  const host = { ...parts, leaseMs: 4_000, onUnavailable: 'fail' } as unknown as EntryHost;
  return { clock, entries, done: enterCall(host, jobCall(options), self, []) };
}

const setRandom = (value: number) => jest.spyOn(Math, 'random').mockReturnValue(value);
afterEach(() => void jest.restoreAllMocks());

describe('the delay before a claim', () => {
  it.each<[string, number, LockedOptions, number]>([
    ['up to 50 ms by itself', 0.998, {}, 49.9],
    ['half of that in the mean', 0.5, {}, 25],
    ['nearly nothing at the least', 0.002, {}, 0.1],
    ['up to spreadMs', 0.75, { spreadMs: 36 }, 27],
  ])('is %s (at random %d)', async (_what, random, options, delayMs) => {
    setRandom(random);
    for (const oncePer of [HOUR, 'fire'] as const) {
      const { clock, entries, done } = startCall({ oncePer, ...options });
      await settled();
      expect([clock.delays, entries]).toEqual([[delayMs], []]);
      await clock.advance(delayMs);
      expect(entries).toHaveLength(1);
      await done;
    }
  });

  it.each<[string, LockedOptions]>([
    ['with `spreadMs: 0`', { oncePer: HOUR, spreadMs: 0 }],
    ['for a call that claims nothing', {}],
  ])('is none %s', async (_what, options) => {
    const { clock, entries, done } = startCall(options);
    await done;
    expect([clock.delays, entries.length]).toEqual([[], 1]);
  });
});

describe('the claim of a call', () => {
  it.each<[LockedOptions, Omit<FireClaim, 'calledAt' | 'job'>]>([
    [{ oncePer: HOUR }, { kind: 'slot', ms: HOUR, rememberMs: 2 * HOUR, rerunOnLoss: false }],
    [{ oncePer: 30_001 }, { kind: 'slot', ms: 30_001, rememberMs: 60_002, rerunOnLoss: false }],
    [{ oncePer: 29_999 }, { kind: 'slot', ms: 29_999, rememberMs: 60_000, rerunOnLoss: false }],
    [
      { oncePer: 20, rerunOnLoss: true },
      { kind: 'slot', ms: 20, rememberMs: 60_000, rerunOnLoss: true },
    ],
    [
      { oncePer: 20, rerunOnLoss: false },
      { kind: 'slot', ms: 20, rememberMs: 60_000, rerunOnLoss: false },
    ],
    [{ oncePer: 'fire' }, { ...FIRE, rerunOnLoss: false }],
    [
      { oncePer: 'fire', rerunOnLoss: true },
      { ...FIRE, rerunOnLoss: true },
    ],
  ])('has the time of the call, before the delay, with %o', async (options, expected) => {
    const { clock, entries, done } = startCall(options);
    const calledAt = clock.now();
    await settled();
    expect(entries).toEqual([]);
    await clock.advance(50);
    expect(await done).toEqual({ kind: 'locked', lock: LOCK });
    expect(entries).toEqual([{ ...expected, job: 'Jobs.run', calledAt }]);
  });

  it.each([
    ['Jobs.run', undefined],
    ['Jobs.run', {}],
    ['Jobs.run', Object.create(null)],
    ['Jobs.run', new (class {})()],
    ['ShopJobs.run', new (class ShopJobs {})()],
  ])('names the job %s for an instance like %p', async (job, self) => {
    const { entries, done } = startCall({ oncePer: HOUR, spreadMs: 0 }, self);
    await done;
    expect(entries).toMatchObject([{ job }]);
  });

  it('does not exist without oncePer', async () => {
    const { entries, done } = startCall({});
    await done;
    expect(entries).toEqual([null]);
  });
});
