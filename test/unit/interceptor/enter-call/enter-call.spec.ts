import { ModulesContainer } from '@nestjs/core';
import { type LockedOptions } from '../../../../lib/interceptor/locked.options.js';
import { type EntryHost, enterCall } from '../../../../lib/interceptor/enter-call.js';
import { resolveModuleOptions } from '../../../../lib/redis-lock.options.js';
import { RedisLockService } from '../../../../lib/redis-lock.service.js';
import { FireFinder } from '../../../../lib/schedule/fire-finder.js';
import { startLocker } from '../../../support/core/core-parts.js';
import { outcomeOf } from '../../../support/waiting/outcome.js';
import { settled } from '../../../support/core/fake-clock.js';
import { type FakeStore, busy } from '../../../support/core/fake-store.js';
import { jobCall } from '../job-call.js';

const SKIPPED = { kind: 'skipped', answer: undefined };
const NOTHING = { locks: 0, waiting: 0, releasing: 0, timers: 0 };
const MODULE = { leaseMs: 4_000, waitMs: 30_000 };

/** A call of a job on the lock `job`, in a module whose leases are of 4 seconds and whose waits are of 30. */
async function enterJob(options: LockedOptions, answer: FakeStore['onAcquire'] = () => busy({ ahead: 1 })) {
  const { clock, store, locker } = startLocker();
  store.onAcquire = answer;
  const defaults = resolveModuleOptions(MODULE);
  const locks = new RedisLockService(locker, store, defaults);
  const skips: string[] = [];
  locks.events.on('skipped', ({ key, reason }) => skips.push(`${key} ${reason}`));
  const { leaseMs, onUnavailable } = defaults;
  const fires = new FireFinder(new ModulesContainer(), () => clock.wallNow());
  const host: EntryHost = { locks, awaited: locker.awaited, fires, clock, leaseMs, onUnavailable };
  const call = jobCall({ oncePer: 60_000, spreadMs: 0, ...options });
  const outcome = outcomeOf(Promise.resolve(enterCall(host, call, undefined, [])));
  await settled();
  return { clock, store, locker, outcome, skips };
}

describe('a call of a job with `rerunOnLoss` while another runs it', () => {
  it.each<[string, LockedOptions, number]>([
    ['two leases of its own', { leaseMs: 1_500 }, 3_000],
    ['two leases of the module', {}, 8_000],
    ['two leases of the module, also when it says `waitMs: undefined`', { waitMs: undefined }, 8_000],
    ['its own waitMs, which is shorter', { waitMs: 2_200 }, 2_200],
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
