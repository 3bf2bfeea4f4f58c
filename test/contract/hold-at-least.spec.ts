import 'reflect-metadata';
import { Locked } from '../../lib/index.js';
import { eventually } from '../support/waiting/eventually.js';
import { grantedAt } from '../support/redis/records.js';
import { gate } from '../support/waiting/gate.js';
import { outcomeOf } from '../support/waiting/outcome.js';
import { rejection } from '../support/waiting/rejection.js';
import { closeAll, freshKey, startApp } from '../support/apps/lock-app.js';
import { expectDeadline, openStore } from './support/stores.js';
import { topology } from '../support/topologies/topology.js';

class Jobs {
  runs = 0;

  /** Once per fire without `oncePer`: instances whose clocks differ by less than half a minute find the key taken. */
  @Locked('job:<0>', { ifBusy: 'skip', holdAtLeastMs: 30_000 })
  async run(_id: string): Promise<string | undefined> {
    this.runs += 1;
    return 'ran';
  }

  @Locked('job:<0>', { ifBusy: 'skip' })
  async shortly(_id: string): Promise<string | undefined> {
    return 'ran';
  }
}

/** Longer than a test waits. */
const MIN_MS = 120_000;

/** An instance with the jobs; `skipped` are the reasons why it did not run. */
async function startJobs() {
  const { app, locks } = await startApp({}, { providers: [Jobs] });
  const skipped: string[] = [];
  locks.events.on('skipped', ({ where, reason }) => skipped.push(`${where} ${reason}`));
  return { jobs: app.get(Jobs), locks, skipped };
}

describe('holdAtLeastMs', () => {
  afterEach(closeAll);

  it('keeps the key taken after the work has ended, and admits the waiter when the time is over', async () => {
    const [a, b, store] = [await startApp(), await startApp(), openStore()];
    const key = freshKey();
    const first = await a.locks.withLock(key, { holdAtLeastMs: 1_000 }, (lock) => lock);
    expect(first.held).toBe(false);
    const until = await store.deadlineOf(key);
    await expectDeadline(store, key, grantedAt(first) + 1_000);
    const next = await b.locks.acquire(key, { waitMs: 25_000 });
    expect(grantedAt(next)).toBeGreaterThanOrEqual(until - topology.spreadMs);
    expect(next.fencingToken).toBeGreaterThan(first.fencingToken);
  });

  it('also keeps the key taken after the work failed', async () => {
    const [a, b] = [await startApp(), await startApp()];
    const key = freshKey();
    const error = new Error('from the work');
    const work = a.locks.withLock(key, { holdAtLeastMs: 20_000 }, () => Promise.reject(error));
    expect(await rejection(work)).toBe(error);
    expect(await b.locks.tryAcquire(key)).toBeNull();
    expect(await a.locks.isLocked(key)).toBe(true);
  });
});

describe('holdAtLeastMs with `ifBusy: skip`', () => {
  afterEach(closeAll);

  it('skips calls of any instance that come after the work has ended', async () => {
    const [a, b, key] = [await startJobs(), await startJobs(), freshKey()];
    expect(await a.jobs.run(key)).toBe('ran');
    expect([await b.jobs.run(key), await a.jobs.run(key), await b.jobs.shortly(key)]).toEqual(Array(3).fill(undefined));
    expect([a.jobs.runs, b.jobs.runs]).toEqual([1, 0]);
    expect([a.skipped, b.skipped]).toEqual([['Jobs.run busy'], ['Jobs.run busy', 'Jobs.shortly busy']]);
    expect(await b.locks.inspect(`job:${key}`)).toMatchObject({ holders: [{ fencingToken: 0 }], waiters: 0 });
  });
});

describe('holdAtLeastMs and the end of the app', () => {
  afterEach(closeAll);

  it('keeps the key taken when the app closes while the work runs, and waits for the work only', async () => {
    const [a, b, store] = [await startApp({ drainMs: 60_000 }), await startApp(), openStore()];
    const [key, until, entered] = [freshKey(), gate(), gate()];
    const work = a.locks.withLock(key, { holdAtLeastMs: MIN_MS }, async (lock) => {
      entered.open();
      await until.opened;
      expect(lock.held).toBe(true);
      return lock;
    });
    await entered.opened;
    const close = outcomeOf(a.close().then(() => 'closed'));
    try {
      await expect(a.locks.tryAcquire(key)).rejects.toMatchObject({ code: 'LOCK_SHUTDOWN' });
      expect(close).toEqual({});
    } finally {
      until.open();
    }
    const lock = await work;
    await eventually(() => close.value);
    await expectDeadline(store, key, grantedAt(lock) + MIN_MS);
    expect(await b.locks.tryAcquire(key)).toBeNull();
  });

  it('keeps the key taken when the work takes longer than drainMs', async () => {
    const [a, b, store] = [await startApp({ drainMs: 50 }), await startApp(), openStore()];
    const key = freshKey();
    const lock = await a.locks.acquire(key, { holdAtLeastMs: MIN_MS });
    await a.close();
    expect(lock.signal.reason).toMatchObject({ code: 'LOCK_LOST', reason: 'shutdown' });
    await expectDeadline(store, key, grantedAt(lock) + MIN_MS);
    expect(await b.locks.tryAcquire(key)).toBeNull();
  });
});
