import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { type FireClaim } from '../../../lib/core/lock-store.js';
import { type LockedOptions } from '../../../lib/interceptor/locked-call.js';
import { type EntryHost, enterCall } from '../../../lib/interceptor/locked-entry.js';
import { FakeClock } from '../../support/fake-clock.js';
import { jobCall } from '../../support/job-call.js';

const LOCK = {};
const FIRE = { kind: 'at', ms: 1_234_000, rememberMs: 99_000 } as const;
const HOUR = 3_600_000;

/** A call that has just begun; `entered` is what it claimed (null: nothing) as soon as it asks for its lock. */
function startCall(options: LockedOptions) {
  const clock = new FakeClock();
  const entries: (FireClaim | null)[] = [];
  let onEnter: () => void = () => undefined;
  const entered = new Promise<void>((resolve) => (onEnter = resolve));
  const enter = (_key: unknown, _options: unknown, { claim }: { claim?: FireClaim }) => {
    entries.push(claim ?? null);
    onEnter();
    return Promise.resolve(LOCK);
  };
  const fires = { claimOf: () => FIRE };
  const host = { locks: { enter }, fires, clock, leaseMs: 4_000, onUnavailable: 'fail' } as unknown as EntryHost;
  return { clock, entries, entered, done: enterCall(host, jobCall(options), undefined, []) };
}

/**
 * What comes first: the claim, or timers that are set just before and just after the call. However late the event loop
 * is, it calls timers in the order of their ends.
 */
async function orderOf(
  options: LockedOptions,
  before: readonly number[],
  after: readonly number[],
): Promise<unknown[]> {
  const order: unknown[] = [];
  const wait = (ms: number) => sleep(ms).then(() => order.push(ms));
  const first = before.map(wait);
  const { entered } = startCall(options);
  await Promise.all([...first, ...after.map(wait), entered.then(() => order.push('claim'))]);
  return order;
}

const setRandom = (value: number) => jest.spyOn(Math, 'random').mockReturnValue(value);
afterEach(() => void jest.restoreAllMocks());

describe('the delay before a claim', () => {
  it.each<[string, number, LockedOptions, number, number]>([
    ['up to 50 ms by itself', 0.999, {}, 48, 52],
    ['half of that in the mean', 0.5, {}, 23, 27],
    ['nearly nothing at the least', 0.001, {}, 1, 4],
    ['up to spreadMs', 0.999, { spreadMs: 36 }, 34, 38],
  ])('is %s (at random %d)', async (_what, random, options, least, most) => {
    setRandom(random);
    for (const oncePer of [HOUR, 'fire'] as const) {
      expect(await orderOf({ oncePer, ...options }, [least], [most])).toEqual([least, 'claim', most]);
    }
  });

  it.each<[string, LockedOptions]>([
    ['with `spreadMs: 0`', { oncePer: HOUR, spreadMs: 0 }],
    ['for a call that claims nothing', {}],
  ])('is none %s', async (_what, options) => {
    setRandom(0.999);
    expect(await orderOf(options, [1], [])).toEqual(['claim', 1]);
  });
});

describe('the claim of a call', () => {
  it.each<[LockedOptions, Omit<FireClaim, 'calledAt'>]>([
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
  ])('with %o is of the time of the call, before the delay', async (options, expected) => {
    const { clock, entries, done } = startCall(options);
    const calledAt = clock.now();
    clock.jump(30);
    expect(entries).toEqual([]);
    expect(await done).toEqual({ kind: 'locked', lock: LOCK });
    expect(entries).toEqual([{ ...expected, calledAt }]);
  });

  it('without oncePer is none', async () => {
    const { entries, done } = startCall({});
    await done;
    expect(entries).toEqual([null]);
  });
});
