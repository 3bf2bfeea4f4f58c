import { LockBusyError, LockError, type LockState } from '../../../lib/index.js';
import { claimFire } from '../../support/apps/claim-fire.js';
import { eventually } from '../../support/waiting/eventually.js';
import { grantedAt } from '../../support/redis/records.js';
import { type LockApp, closeAll, freshKey } from '../../support/apps/lock-app.js';
import { type NetApp, type QuorumNet } from '../../support/redis/quorum-net.js';
import { untilQuick } from '../../support/waiting/waiters.js';
import {
  SLOW_NODE,
  countEvents,
  startDegraded,
  startSubscribed,
  untilFree,
  untilHeld,
  warmUp,
} from './support/degraded.js';

const FIRES = 20;
const SOON_MS = 1_000;
/** Votes that are split cost several rounds, and a loser has to learn that the fire was claimed. */
const PATIENT = { waitMs: 10_000 };

/** Has all apps claim the same fires, one after the other; gives how often each was run. */
async function runFires(apps: readonly LockApp[], key: string, fires: number): Promise<number[]> {
  const runs = Array.from({ length: fires }, () => 0);
  const run = async (app: LockApp, fire: number) => {
    try {
      const lock = await claimFire(app, key, { ms: 1_000 * (fire + 1) }, PATIENT);
      runs[fire]! += 1;
      await lock.releaseAfter('done');
    } catch (error) {
      if (!['LOCK_CLAIMED', 'LOCK_BUSY'].includes((error as LockError).code)) throw error;
    }
  };
  for (let fire = 0; fire < fires; fire += 1) {
    await Promise.all(apps.map((app) => run(app, fire)));
  }
  return runs;
}

let net: QuorumNet;
let apps: [NetApp, NetApp, NetApp, NetApp];
beforeAll(async () => {
  ({ net, apps } = await startDegraded());
});
afterAll(closeAll);

describe('jobs on a quorum with one node down and one slow', () => {
  it('run once per fire', async () => {
    const key = freshKey();
    expect(await runFires(apps, key, FIRES)).toEqual(Array.from({ length: FIRES }, () => 1));
    const last = await apps[3].locks.lastRun(key);
    expect(last).toMatchObject({ outcome: 'done', fire: new Date(1_000 * FIRES) });
  }, 60_000);

  it('run once per fire when each app reaches another majority', async () => {
    const key = freshKey();
    for (const [i, app] of apps.entries()) app.reaches(...[0, 1, 2, 3].filter((node) => node !== i));
    const runs = await runFires(apps, key, FIRES / 2);
    for (const app of apps) app.reaches(0, 1, 2, 3);
    await Promise.all(apps.map((app) => warmUp(net, app)));
    expect(runs).toEqual(Array.from({ length: FIRES / 2 }, () => 1));
  }, 60_000);
});

describe('messages on a quorum with one node down and one slow', () => {
  it('tell a holder of a revocation, whichever node it hears', async () => {
    const holder = await startSubscribed(net);
    for (const node of [0, 1, 2, SLOW_NODE]) {
      await holder.hears(node);
      const key = freshKey();
      const events = countEvents(holder, key);
      const lock = await holder.locks.acquire(key, { leaseMs: 30_000 });
      const { signal } = lock;
      await untilHeld(net, key);
      expect(await apps[0].locks.forceRelease(key)).toBe(true);
      // Long before the renewal.
      await eventually(() => signal.aborted, { timeoutMs: 5_000, message: `Not heard of node ${node}` });
      expect(signal.reason).toMatchObject({ reason: 'revoked' });
      expect(events).toEqual({ acquired: 1, lost: 1 });
      expect(lock.held).toBe(false);
    }
  });

  it('are replaced by the next renewal when a holder hears none', async () => {
    const holder = await startSubscribed(net);
    await holder.hears();
    const key = freshKey();
    const events = countEvents(holder, key);
    const lock = await holder.locks.acquire(key, { leaseMs: 3_000 });
    const { signal } = lock;
    await untilHeld(net, key);
    expect(await apps[0].locks.forceRelease(key)).toBe(true);
    // Not the end of the lease, which has another reason.
    await eventually(() => signal.aborted);
    expect(signal.reason).toMatchObject({ reason: 'revoked' });
    expect(events).toEqual({ acquired: 1, lost: 1 });
    expect(lock.held).toBe(false);
  });

  it('wake a waiter that hears only one node, long before its poll', async () => {
    const waiter = await startSubscribed(net);
    for (const node of [0, 1, 2, SLOW_NODE]) {
      await waiter.hears(node);
      await untilQuick(SOON_MS, async () => {
        const key = freshKey();
        const events = countEvents(waiter, key);
        const held = await apps[0].locks.acquire(key, { leaseMs: 60_000 });
        await untilHeld(net, key);
        const waiting = waiter.locks.acquire(key, { leaseMs: 60_000 });
        await eventually(() => events.waiting === 1);
        return async () => {
          await held.release();
          await (await waiting).release();
          expect(events).toEqual({ waiting: 1, acquired: 1, released: 1 });
        };
      });
    }
  });
});

describe('a lock of a quorum with one node down and one slow', () => {
  it('is extended, and downgraded so that a reader enters', async () => {
    const [a, b] = apps;
    const key = freshKey();
    const events = countEvents(b, key);
    const lock = await a.locks.acquire(key, { leaseMs: 60_000 });
    await lock.extend(600_000);
    expect(lock.remainingMs).toBeGreaterThan(500_000);
    const waiting = b.locks.acquire(key, { mode: 'read' });
    await eventually(() => events.waiting === 1);
    await lock.downgrade();
    const reader = await waiting;
    expect([lock.held, reader.held, await b.locks.tryAcquire(key)]).toEqual([true, true, null]);
    await untilHeld(net, key);
    await Promise.all([lock.release(), reader.release()]);
    await untilFree(net, key);
    expect(events).toEqual({ waiting: 1, acquired: 1, released: 1 });
  });

  it('stays taken for `holdAtLeastMs`', async () => {
    const key = freshKey();
    const events = countEvents(apps[0], key);
    const first = await apps[0].locks.withLock(key, { holdAtLeastMs: 3_000 }, (lock) => lock);
    await expect(apps[1].locks.acquire(key, { waitMs: 0 })).rejects.toBeInstanceOf(LockBusyError);
    const next = await apps[1].locks.acquire(key, { waitMs: 10_000 });
    expect(grantedAt(next)).toBeGreaterThanOrEqual(grantedAt(first) + 3_000);
    expect(next.fencingToken).toBeGreaterThan(first.fencingToken);
    expect(events).toEqual({ acquired: 1, released: 1 });
  });

  it('is reported correctly by inspect, list and isLocked', async () => {
    const [a, b] = apps;
    const key = freshKey('told');
    const events = countEvents(a, key);
    const lock = await a.locks.acquire(key, { leaseMs: 30_000 });
    await untilHeld(net, key);
    const holder = { mode: 'write', fencingToken: lock.fencingToken };
    const expected = { key, mode: 'write', fencingToken: lock.fencingToken, holders: [holder] };
    await eventually(async () => (await b.locks.inspect(key)).fencingToken === lock.fencingToken);
    expect(await b.locks.inspect(key)).toMatchObject(expected);
    const listed: LockState[] = [];
    for await (const state of b.locks.list({ prefix: 'told' })) listed.push(state);
    expect(listed).toMatchObject([expected]);
    expect(await b.locks.isLocked(key)).toBe(true);
    await lock.release();
    await eventually(async () => !(await b.locks.isLocked(key)), { timeoutMs: 5_000 });
    expect(await b.locks.lastRun(key)).toBeNull();
    expect(events).toEqual({ acquired: 1, released: 1 });
  });
});
