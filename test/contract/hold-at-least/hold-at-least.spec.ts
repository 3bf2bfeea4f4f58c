import 'reflect-metadata';
import { Locked } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { grantedAt } from '../../support/redis/records.js';
import { rejection } from '../../support/waiting/rejection.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { expectDeadline, openStore } from '../support/stores.js';
import { topology } from '../../support/topologies/topology.js';
import { untilWaiting } from '../../support/waiting/waiters.js';

class Jobs {
  runs = 0;

  /** Once per fire without `oncePer`: instances whose clocks differ by less than half a minute find the key taken. */
  @Locked('job:<0>', { ifBusy: 'skip', holdAtLeastMs: 30_000 })
  async run(_id: string): Promise<string | undefined> {
    this.runs += 1;
    return 'ran';
  }

  @Locked('job:<0>', { ifBusy: 'skip', holdAtLeastMs: 1_000 })
  async brief(_id: string): Promise<string | undefined> {
    return 'ran';
  }

  @Locked('job:<0>', { ifBusy: 'skip' })
  async shortly(_id: string): Promise<string | undefined> {
    return 'ran';
  }
}

const RAN = ['ran', 'ran', 'ran'];

/** An instance with the jobs; `grants` are the times at which it ran, `skipped` the reasons why it did not. */
async function startJobs() {
  const { app, locks } = await startApp({}, { providers: [Jobs] });
  const [grants, skipped]: [number[], string[]] = [[], []];
  locks.events.on('acquired', (event) => grants.push(grantedAt(event)));
  locks.events.on('skipped', ({ where, reason }) => skipped.push(`${where} ${reason}`));
  return { jobs: app.get(Jobs), locks, grants, skipped };
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

  it('keeps the key taken after the work failed, too', async () => {
    const [a, b] = [await startApp(), await startApp()];
    const key = freshKey();
    const error = new Error('from the work');
    const work = a.locks.withLock(key, { holdAtLeastMs: 20_000 }, () => Promise.reject(error));
    expect(await rejection(work)).toBe(error);
    expect(await b.locks.tryAcquire(key)).toBeNull();
    expect(await a.locks.isLocked(key)).toBe(true);
  });

  it('admits a waiter that came during the work only when the time is over', async () => {
    const [a, b] = [await startApp(), await startApp()];
    const key = freshKey();
    const first = await a.locks.acquire(key, { holdAtLeastMs: 1_000 });
    const next = b.locks.acquire(key, { waitMs: 25_000 });
    await untilWaiting(a, key);
    await first.release();
    expect(grantedAt(await next)).toBeGreaterThanOrEqual(grantedAt(first) + 1_000);
  });

  it('frees the key at once when the work took longer', async () => {
    const [a, b, store] = [await startApp(), await startApp(), openStore()];
    const key = freshKey();
    const lock = await a.locks.acquire(key, { holdAtLeastMs: 50 });
    await eventually(async () => (await store.now()) > grantedAt(lock) + 50);
    await lock.release();
    expect(await b.locks.tryAcquire(key)).not.toBeNull();
  });

  it('keeps the key for longer than a shorter lease', async () => {
    const [a, b, store] = [await startApp(), await startApp(), openStore()];
    const key = freshKey();
    const lock = await a.locks.acquire(key, { leaseMs: 5_000, holdAtLeastMs: 30_000 });
    await lock.release();
    await expectDeadline(store, key, grantedAt(lock) + 30_000);
    expect(await a.locks.tryAcquire(key)).toBeNull();
    expect(await b.locks.tryAcquire(key)).toBeNull();
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

  it('runs again when the time is over, and at once without holdAtLeastMs', async () => {
    const [a, b, key] = [await startJobs(), await startJobs(), freshKey()];
    expect([await a.jobs.shortly(key), await b.jobs.shortly(key), await a.jobs.brief(key)]).toEqual(RAN);
    await eventually(() => b.jobs.brief(key));
    const [first, second] = [a.grants.at(-1)!, b.grants.at(-1)!];
    expect(second - first).toBeGreaterThanOrEqual(1_000);
    expect(a.skipped).toEqual([]);
  });
});
