import { getEventListeners } from 'node:events';
import { ModulesContainer } from '@nestjs/core';
import { AwaitedCalls } from '../../../lib/core/awaited-calls.js';
import { type FireClaim } from '../../../lib/core/store/fires.js';
import { type EntryHost, enterCall } from '../../../lib/interceptor/enter-call.js';
import { type LockedCall } from '../../../lib/interceptor/locked-call.js';
import { type LockedOptions } from '../../../lib/interceptor/locked.options.js';
import { resolveModuleOptions } from '../../../lib/redis-lock.options.js';
import { RedisLockService } from '../../../lib/redis-lock.service.js';
import { FireFinder } from '../../../lib/schedule/fire-finder.js';
import { startLocker } from '../../support/core/core-parts.js';
import { FakeClock, settled } from '../../support/core/fake-clock.js';
import { type FakeStore, busy } from '../../support/core/fake-store.js';
import { outcomeOf } from '../../support/waiting/outcome.js';

/** A method with `@Locked('job', options)`. */
const jobCall = (options: LockedOptions): LockedCall => ({
  where: 'Jobs.run',
  template: 'job',
  kind: 'promise',
  keyOf: () => 'job',
  name: 'run',
  method: jobCall,
  options: { ...options, mode: 'write' },
});

/** A module whose leases are of 4 seconds and whose waits are of 30. */
function startModule() {
  const { clock, store, locker } = startLocker();
  const defaults = resolveModuleOptions({ leaseMs: 4_000, waitMs: 30_000 });
  const locks = new RedisLockService(locker, store, defaults);
  const fires = new FireFinder(new ModulesContainer(), () => clock.wallNow());
  const { leaseMs, onUnavailable } = defaults;
  const host: EntryHost = { locks, locker, fires, clock, leaseMs, onUnavailable };
  return { clock, store, locker, locks, host };
}

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
  const locker = { awaited: new AwaitedCalls(clock), closing: new Set(), closeWithModule: () => undefined };
  const parts = { locks: { enter }, locker, fires, clock };
  const host = { ...parts, leaseMs: 4_000, onUnavailable: 'fail' } as unknown as EntryHost;
  return { clock, entries, done: enterCall(host, jobCall(options), self, []) };
}

const setRandom = (value: number) => jest.spyOn(Math, 'random').mockReturnValue(value);
afterEach(() => void jest.restoreAllMocks());

describe('the delay before a claim', () => {
  it.each<[string, number, LockedOptions, number]>([
    ['up to 50 ms by itself', 0.998, {}, 49.9],
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

  it('ends when the module closes, or has begun to, and then the job is skipped', async () => {
    const { clock, locker, host } = startModule();
    const call = jobCall({ oncePer: HOUR, spreadMs: HOUR });
    const [delayed, closed] = [outcomeOf(enterCall(host, call, undefined, [])), locker.close(0)];
    await settled();
    await closed;
    const late = outcomeOf(enterCall(host, call, undefined, []));
    await settled();
    expect([delayed.value, late.value]).toMatchObject([{ kind: 'skipped' }, { kind: 'skipped' }]);
    expect([clock.timers, locker.closing.size]).toEqual([0, 0]);
  });
});

describe('the claim of a call', () => {
  it.each<[LockedOptions, Omit<FireClaim, 'calledAt' | 'job'>]>([
    [{ oncePer: HOUR }, { kind: 'slot', ms: HOUR, rememberMs: 2 * HOUR, rerunOnLoss: false }],
    [{ oncePer: 29_999 }, { kind: 'slot', ms: 29_999, rememberMs: 60_000, rerunOnLoss: false }],
    [
      { oncePer: 20, rerunOnLoss: true },
      { kind: 'slot', ms: 20, rememberMs: 60_000, rerunOnLoss: true },
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
    ['Jobs.run', Object.create(null)],
    ['ShopJobs.run', new (class ShopJobs {})()],
  ])('names the job %s for an instance like %p', async (job, self) => {
    const { entries, done } = startCall({ oncePer: HOUR, spreadMs: 0 }, self);
    await done;
    expect(entries).toMatchObject([{ job }]);
  });
});

const SKIPPED = { kind: 'skipped', answer: undefined };
const NOTHING = { locks: 0, waiting: 0, releasing: 0, timers: 0 };

/** A call of a job on the lock `job`. */
async function enterJob(options: LockedOptions, answer: FakeStore['onAcquire'] = () => busy({ ahead: 1 })) {
  const { clock, store, locker, locks, host } = startModule();
  store.onAcquire = answer;
  const skips: string[] = [];
  locks.events.on('skipped', ({ key, reason }) => skips.push(`${key} ${reason}`));
  const call = jobCall({ oncePer: 60_000, spreadMs: 0, ...options });
  const outcome = outcomeOf(Promise.resolve(enterCall(host, call, undefined, [])));
  await settled();
  return { clock, store, locker, outcome, skips };
}

describe('a call of a job with `rerunOnLoss` while another runs it', () => {
  it.each<[string, LockedOptions, number]>([
    ['two leases of its own', { leaseMs: 1_500 }, 3_000],
    ['two leases of the module', {}, 8_000],
    ['its own waitMs, which is longer', { waitMs: 20_000, leaseMs: 1_500 }, 20_000],
  ])('waits for %s, and then is skipped', async (_howLong, options, limitMs) => {
    const { clock, store, locker, outcome, skips } = await enterJob({ rerunOnLoss: true, ...options });
    await clock.advance(limitMs - 1);
    expect([outcome, skips]).toEqual([{}, []]);
    await clock.advance(1);
    expect([outcome, skips]).toEqual([{ value: SKIPPED }, ['job busy']]);
    expect([new Set(store.givenBack), locker.live]).toEqual([new Set(['job']), NOTHING]);
  });

  it('is skipped when the other one has finished the run', async () => {
    const { clock, store, locker, outcome, skips } = await enterJob({ rerunOnLoss: true });
    store.onAcquire = () => ({ outcome: 'refused', reason: 'claimed' });
    await clock.advance(7_000);
    expect([outcome, skips, locker.live]).toEqual([{ value: SKIPPED }, ['job claimed'], NOTHING]);
  });

  it('tries once with `waitMs: 0`', async () => {
    const { outcome, skips, store } = await enterJob({ rerunOnLoss: true, waitMs: 0 });
    expect([outcome, skips, store.asked]).toEqual([{ value: SKIPPED }, ['job busy'], ['job']]);
  });
});

describe('a call of a job without `rerunOnLoss` while another runs it', () => {
  it('tries once, and then is skipped', async () => {
    const { outcome, skips, store, locker } = await enterJob({});
    expect([outcome, skips]).toEqual([{ value: SKIPPED }, ['job busy']]);
    expect([store.acquires.map(({ request }) => request.waiterLeaseMs), locker.live]).toEqual([[0], NOTHING]);
  });
});

/** A call whose options have a signal of long life, and which comes with one of its own. */
function start() {
  const { store, locker, host } = startModule();
  const [ofOptions, ofCall] = [new AbortController(), new AbortController()];
  const options = { mode: 'write', signal: ofOptions.signal } as const;
  const call = { where: 'Feed.read', template: 'feed', kind: 'observable', keyOf: () => 'feed', options } as const;
  const enter = async () => enterCall(host, { ...call, name: 'read', method: start }, undefined, [], ofCall.signal);
  return { store, locker, enter, ofOptions, ofCall };
}

/** How much a signal keeps of others: its listeners, and what Node has it remember. */
function keptBy(signal: AbortSignal): number {
  const own = signal as unknown as Record<symbol, { readonly size?: number } | undefined>;
  const sizes = Object.getOwnPropertySymbols(signal).map((name) => own[name]?.size ?? 0);
  return getEventListeners(signal, 'abort').length + sizes.reduce((sum, size) => sum + size, 0);
}

describe('a call with a signal in its options and one of its own', () => {
  it('leaves no listener on either when it has its lock', async () => {
    const { enter, locker, ofOptions, ofCall } = start();
    const before = [keptBy(ofOptions.signal), keptBy(ofCall.signal)];
    for (let i = 0; i < 10; i += 1) {
      const entered = await enter();
      if (entered.kind === 'locked') await entered.lock.release();
    }
    expect(locker.live.locks).toBe(0);
    expect([keptBy(ofOptions.signal), keptBy(ofCall.signal)]).toEqual(before);
  });

  it.each(['ofOptions', 'ofCall'] as const)('is cancelled by the signal %s, with its reason', async (which) => {
    const { store, locker, enter, ...controllers } = start();
    store.onAcquire = () => busy();
    const outcome = outcomeOf(enter());
    await settled();
    expect([outcome, locker.live.waiting]).toEqual([{}, 1]);
    const reason = new Error('enough');
    controllers[which].abort(reason);
    await settled();
    expect(outcome).toEqual({ error: reason });
    expect(Object.values(controllers).map(({ signal }) => getEventListeners(signal, 'abort'))).toEqual([[], []]);
  });

  it.each(['ofOptions', 'ofCall'] as const)('sends no request when the signal %s is already aborted', async (which) => {
    const { store, enter, ...controllers } = start();
    const reason = new Error('enough');
    controllers[which].abort(reason);
    const outcome = outcomeOf(enter());
    await settled();
    expect([outcome, store.asked]).toEqual([{ error: reason }, []]);
  });
});
