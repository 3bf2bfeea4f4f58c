import { ModulesContainer } from '@nestjs/core';
import { Interval } from '@nestjs/schedule';
import { systemRandomness } from '../../../lib/core/randomness.js';
import { type FireClaim } from '../../../lib/core/store/fires.js';
import { currentLock, Locked, type LockedOptions, runNow } from '../../../lib/index.js';
import { LockInterceptor } from '../../../lib/interceptor/lock.interceptor.js';
import { addRunningModule, removeModule } from '../../../lib/interceptor/running-modules.js';
import { resolveModuleOptions } from '../../../lib/redis-lock.options.js';
import { RedisLockService } from '../../../lib/redis-lock.service.js';
import { startLocker } from '../../support/core/core-parts.js';
import { settled } from '../../support/core/fake-clock.js';
import { type FakeStore, busy } from '../../support/core/fake-store.js';
import { outcomeOf } from '../../support/waiting/outcome.js';

const HOUR = 3_600_000;
const NOTHING = { locks: 0, waiting: 0, releasing: 0, timers: 0 };

const running: Parameters<typeof removeModule>[0][] = [];
afterEach(() => {
  running.splice(0).forEach(removeModule);
  jest.restoreAllMocks();
});

/** A module on a fake store, with leases of 4 seconds and waits of 30. */
function startModule() {
  const { clock, store, locker } = startLocker();
  const defaults = resolveModuleOptions({ leaseMs: 4_000, waitMs: 30_000 });
  const locks = new RedisLockService(locker, store, defaults);
  const modules = new ModulesContainer();
  const module = { interceptor: new LockInterceptor(locks, locker, defaults, modules), modules };
  addRunningModule(module);
  running.push(module);
  const skips: string[] = [];
  locks.events.on('skipped', ({ key, reason }) => skips.push(`${key} ${reason}`));
  return { clock, store, locker, skips };
}

/** The job `Jobs.run`, which runs every hour, with the lock `job`. */
function jobWith(options: LockedOptions) {
  class Jobs {
    @Interval(HOUR)
    @Locked('job', options)
    async run(): Promise<string | undefined> {
      return 'ran';
    }
  }
  return Jobs;
}

const runOf = (options: LockedOptions): Promise<string | undefined> => new (jobWith(options))().run();

/** What each command of the store claims so far; null: nothing. */
const claimsOf = (store: FakeStore): (FireClaim | null)[] => store.acquires.map(({ request }) => request.claim ?? null);

describe('the delay before a claim', () => {
  it.each<[string, number, LockedOptions, number]>([
    ['up to 50 ms by itself', 0.998, {}, 49.9],
    ['nearly nothing at the least', 0.002, {}, 0.1],
    ['up to spreadMs', 0.75, { spreadMs: 36 }, 27],
  ])('is %s (at random %d)', async (_what, random, options, delayMs) => {
    // Not `Math.random`: Nest would make the ids of modules from it, here and in later tests.
    jest.spyOn(systemRandomness, 'fraction').mockReturnValue(random);
    for (const oncePer of [HOUR, 'fire'] as const) {
      const { clock, store } = startModule();
      const done = runOf({ oncePer, ...options });
      await settled();
      expect([clock.delays, store.asked]).toEqual([[delayMs], []]);
      await clock.advance(delayMs);
      expect(await done).toBe('ran');
      running.splice(0).forEach(removeModule);
    }
  });

  it.each<[string, LockedOptions]>([
    ['with `spreadMs: 0`', { oncePer: HOUR, spreadMs: 0 }],
    ['for a call that claims nothing', {}],
  ])('is none %s', async (_what, options) => {
    const { store } = startModule();
    expect(await runOf(options)).toBe('ran');
    expect(store.asked).toEqual(['job']);
  });

  it('ends when the module closes, or has begun to, and then the job is skipped', async () => {
    const { clock, locker, skips } = startModule();
    const options: LockedOptions = { oncePer: HOUR, spreadMs: HOUR };
    const [delayed, closed] = [outcomeOf(runOf(options)), locker.close(0)];
    await settled();
    await closed;
    const late = outcomeOf(runOf(options));
    await settled();
    expect([delayed, late]).toEqual([{ value: undefined }, { value: undefined }]);
    expect(skips).toEqual(['job shutdown', 'job shutdown']);
    expect([clock.timers, locker.closing.size]).toEqual([0, 0]);
  });
});

describe('the claim of a call', () => {
  const FIRE = { kind: 'slot', ms: HOUR, rememberMs: 2 * HOUR } as const;

  it.each<[LockedOptions, Omit<FireClaim, 'calledAt' | 'job'>]>([
    [{ oncePer: HOUR }, { ...FIRE, rerunOnLoss: false }],
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
    const { clock, store } = startModule();
    const calledAt = clock.now();
    const done = runOf(options);
    await settled();
    expect(store.asked).toEqual([]);
    await clock.advance(50);
    expect(await done).toBe('ran');
    expect(claimsOf(store)).toEqual([{ ...expected, job: 'Jobs.run', calledAt }]);
  });

  it.each<[string, (Jobs: ReturnType<typeof jobWith>) => unknown]>([
    ['Jobs.run', () => undefined],
    ['Jobs.run', () => Object.create(null)],
    ['Jobs.run', (Jobs) => new Jobs()],
    ['ShopJobs.run', (Jobs) => new (class ShopJobs extends Jobs {})()],
  ])('names the job %s for the object of %p', async (job, objectOf) => {
    const { store } = startModule();
    const Jobs = jobWith({ oncePer: HOUR, spreadMs: 0 });
    await Jobs.prototype.run.call(objectOf(Jobs) as never);
    expect(claimsOf(store)).toMatchObject([{ job }]);
  });
});

/** A call of a job whose lock is busy. */
async function startJob(options: LockedOptions) {
  const module = startModule();
  module.store.onAcquire = () => busy({ ahead: 1 });
  const outcome = outcomeOf(runOf({ oncePer: 60_000, spreadMs: 0, ...options }));
  await settled();
  return { ...module, outcome };
}

describe('a call of a job with `rerunOnLoss` while another runs it', () => {
  it.each<[string, LockedOptions, number]>([
    ['two of its leases', { leaseMs: 1_500 }, 3_000],
    ['two leases of the module', {}, 8_000],
    ['its own waitMs, which is longer', { waitMs: 20_000, leaseMs: 1_500 }, 20_000],
  ])('waits for %s, and then is skipped', async (_howLong, options, limitMs) => {
    const { clock, store, locker, outcome, skips } = await startJob({ rerunOnLoss: true, ...options });
    await clock.advance(limitMs - 1);
    expect([outcome, skips]).toEqual([{}, []]);
    await clock.advance(1);
    expect([outcome, skips]).toEqual([{ value: undefined }, ['job busy']]);
    expect([new Set(store.givenBack), locker.live]).toEqual([new Set(['job']), NOTHING]);
  });

  it('is skipped when the other one has finished the run', async () => {
    const { clock, store, locker, outcome, skips } = await startJob({ rerunOnLoss: true });
    store.onAcquire = () => ({ outcome: 'refused', reason: 'claimed' });
    await clock.advance(7_000);
    expect([outcome, skips, locker.live]).toEqual([{ value: undefined }, ['job claimed'], NOTHING]);
  });

  it('tries once with `waitMs: 0`', async () => {
    const { outcome, skips, store } = await startJob({ rerunOnLoss: true, waitMs: 0 });
    expect([outcome, skips, store.asked]).toEqual([{ value: undefined }, ['job busy'], ['job']]);
  });
});

describe('the run of a job', () => {
  /** What the release of a job reports whose work does this, and is then cut off by the end of the drain. */
  async function outcomesAfter(work: () => unknown): Promise<unknown[]> {
    const { clock, store, locker } = startModule();
    class Jobs {
      @Locked('job', { oncePer: HOUR, spreadMs: 0 })
      async run(): Promise<void> {
        await work();
        await new Promise(() => undefined);
      }
    }
    void new Jobs().run();
    await settled();
    const closed = locker.close(10);
    await clock.advance(1_000);
    await closed;
    return store.releases.map(({ request }) => request.runOutcome);
  }

  it('is done when its work releases the lock, so that its fire is not run again', async () => {
    expect(await outcomesAfter(() => currentLock().release())).toEqual(['done']);
  });

  it('has no outcome when the module closes before its end', async () => {
    expect(await outcomesAfter(() => undefined)).toEqual([undefined]);
  });
});

describe('a run by hand of a job with `rerunOnLoss` while another runs it', () => {
  it.each([{}, { waitMs: 20_000 }])('tries once, and rejects: %j', async (options) => {
    const { store, skips } = startModule();
    store.onAcquire = () => busy({ ahead: 1 });
    const outcome = outcomeOf(runNow(() => runOf({ oncePer: 60_000, rerunOnLoss: true, ...options })));
    await settled();
    expect([outcome.error, store.asked, skips]).toMatchObject([{ code: 'LOCK_BUSY' }, ['job'], []]);
  });
});

describe('a call of a job without `rerunOnLoss` while another runs it', () => {
  it('tries once, and then is skipped', async () => {
    const { outcome, skips, store, locker } = await startJob({});
    expect([outcome, skips]).toEqual([{ value: undefined }, ['job busy']]);
    expect([store.acquires.map(({ request }) => request.waiterLeaseMs), locker.live]).toEqual([[0], NOTHING]);
  });
});
