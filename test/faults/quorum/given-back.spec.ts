import { setTimeout as sleep } from 'node:timers/promises';
import { type AcquireReply, type AcquireRequest, type LockStore } from '../../../lib/core/store/lock-store.js';
import { LOCK_STORE } from '../../../lib/redis-lock.tokens.js';
import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { Beliefs } from './support/beliefs.js';
import { type NetApp, type QuorumNet, heldRow, startNet } from '../../support/redis/quorum-net.js';

/** Apps that are connected to all five nodes. */
async function start() {
  const net = await startNet(5);
  const apps = [await net.app(), await net.app(), await net.app()] as const;
  await Promise.all(apps.map((app) => warmUp(net, app)));
  return { net, apps };
}

async function warmUp({ admins }: QuorumNet, { locks }: NetApp): Promise<void> {
  await eventually(() => {
    const key = freshKey();
    const reached = () => eventually(async () => (await heldRow(admins, key)) === '11111', { timeoutMs: 1_000 });
    return locks.withLock(key, () => reached().then(Boolean, () => false));
  });
}

/** Sends an acquire to the store directly, without waiting for the lock. */
function ask({ app }: NetApp, key: string, request: Partial<AcquireRequest> = {}): Promise<AcquireReply> {
  const store = app.get<LockStore>(LOCK_STORE);
  const attempt = `${store.clientId}.${Math.random().toString(36).slice(2, 10).padEnd(8, '0')}`;
  const wish = { owner: undefined, mode: 'write', leaseMs: 1_500, waiterLeaseMs: 0, fair: false, permits: 0 } as const;
  return store.acquire({ keys: [key], attempt, holder: 'host:1', ...wish, ...request }, 400, () => undefined);
}

describe('an attempt that was given back in part', () => {
  afterEach(closeAll);

  it('has ended, even when too few nodes answered and none of them granted', async () => {
    const { net, apps } = await start();
    const [holder, other] = apps;
    const key = freshKey();
    const lock = await holder.locks.acquire(key, { leaseMs: 20_000 });
    await eventually(async () => (await heldRow(net.admins, key)) === '11111');
    other.reaches(0, 3, 4);
    other.proxies[3]!.blackhole(true);
    // The third was asked, and a release was sent after it: it would take away what a later round counts.
    const reply = await ask(other, key);
    expect(reply).toMatchObject({ outcome: 'given-back', cause: { retryable: true } });
    await lock.release();
  });

  it('never counts again: there is one writer when two nodes are away and one connection breaks', async () => {
    const { net, apps } = await start();
    const [first, second, third] = apps;
    const beliefs = new Beliefs();
    for (let round = 0; round < 8; round += 1) {
      const key = freshKey();
      const lock = await first.locks.acquire(key, { leaseMs: 10_000 });
      await eventually(async () => (await heldRow(net.admins, key)) === '11111');
      second.reaches(0, 3, 4);
      second.proxies[3]!.blackhole(true);
      const trying = second.locks.tryAcquire(key, { leaseMs: 2_000, renew: false }).catch(() => null);
      await sleep(20);
      await lock.release();
      // What it has lost is reset, and asked for again after the votes were counted.
      await sleep(45);
      second.proxies[3]!.blackhole(false);
      const mine = await trying;
      if (mine) {
        beliefs.enter(mine);
        const theirs = await third.locks.acquire(key, { leaseMs: 2_000, waitMs: 3_000 });
        beliefs.enter(theirs);
        beliefs.check(mine);
        await theirs.release();
        beliefs.leave(theirs);
        await mine.release();
        beliefs.leave(mine);
      }
      second.reaches(0, 1, 2, 3, 4);
      await warmUp(net, second);
    }
    expect(beliefs.violations).toEqual([]);
  }, 90_000);
});
