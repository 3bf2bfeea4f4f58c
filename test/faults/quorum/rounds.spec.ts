import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../../support/waiting/eventually.js';
import { setToken } from '../../support/redis/records.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { type NetApp, type QuorumNet, heldRow, holdsOn, startNet } from '../../support/redis/quorum-net.js';
import { untilQuick } from '../../support/waiting/waiters.js';

/** Apps that are connected to all nodes. */
async function warmApps(net: QuorumNet, count: number): Promise<NetApp[]> {
  const apps: NetApp[] = [];
  for (let i = 0; i < count; i += 1) apps.push(await net.app());
  for (const { locks } of apps) {
    const key = freshKey();
    await locks.withLock(key, () => eventually(async () => !(await heldRow(net.admins, key)).includes('0')));
  }
  return apps;
}

describe('rounds of a quorum', () => {
  afterEach(closeAll);

  it('do not block themselves when an operator interferes with the votes', async () => {
    const net = await startNet(3);
    const [a, operator] = await warmApps(net, 2);
    const key = freshKey();
    // The clock of the node that an operator reaches first is ahead.
    await setToken(net.admins[0]!, key, String((Date.now() + 60_000) * 1_000));
    for (const proxy of a!.proxies.slice(1)) proxy.delayMs = 200;
    const acquired = a!.locks.acquire(key, { leaseMs: 30_000, waitMs: 5_000 });
    await eventually(async () => (await heldRow(net.admins, key)) === '100');
    expect(await operator!.locks.forceRelease(key)).toBe(true);
    for (const proxy of a!.proxies) proxy.delayMs = 0;
    const lock = await acquired;
    expect(lock.held).toBe(true);
    await lock.release();
  });

  it('give a re-entering call the token of its owner, even on a node that had not granted the lock before', async () => {
    const net = await startNet(3);
    const [a, b] = await warmApps(net, 2);
    const [key, other] = [freshKey(), freshKey()];
    a!.reaches(0, 1);
    const outer = await a!.locks.acquire(key, { owner: 'job' });
    expect(await heldRow(net.admins, key)).toBe('110');
    const inner = await b!.locks.acquire([other, key], { owner: 'job' });
    expect(await heldRow(net.admins, key)).toBe('111');
    expect(inner.fencingTokens[1]).toBe(outer.fencingToken);
    await Promise.all([outer.release(), inner.release()]);
    // Node 2 had minted a greater one.
    expect((await b!.locks.acquire(key)).fencingToken).toBeGreaterThan(outer.fencingToken);
  });

  it('do not mistake the remains of a read hold on one node for an upgrade', async () => {
    const net = await startNet(3);
    const [reader, writer] = await warmApps(net, 2);
    const key = freshKey();
    const reading = await reader!.locks.acquire(key, { owner: 'job', mode: 'read', leaseMs: 3_000 });
    await eventually(async () => (await heldRow(net.admins, key)) === '111');
    reader!.reaches(0, 1);
    await reading.release();
    expect(await heldRow(net.admins, key)).toBe('001');
    writer!.reaches(0, 2);
    // The rest ends with its lease.
    const writing = await writer!.locks.acquire(key, { owner: 'job', waitMs: 10_000 });
    expect(writing.mode).toBe('write');
  });

  it('are not repeated all the time when a node does not know the holder', async () => {
    const net = await startNet(3);
    const [a, b] = await warmApps(net, 2);
    const key = freshKey();
    a!.reaches(0, 1);
    await a!.locks.acquire(key, { leaseMs: 30_000 });
    const asked = async () =>
      Number(/cmdstat_evalsha:calls=(\d+)/.exec(await net.admins[0]!.info('commandstats'))?.[1] ?? 0);
    const before = await asked();
    expect(await b!.locks.tryAcquire(key)).toBeNull();
    await b!.locks.acquire(key, { waitMs: 3_000 }).catch(() => undefined);
    expect((await asked()) - before).toBeLessThan(20);
  });

  it('wake a waiter by a message, though a node has lost the hold', async () => {
    const net = await startNet(3);
    const [a, b] = await warmApps(net, 2);
    // The next poll would be 2 s after the first try.
    await untilQuick(1_200, async () => {
      const key = freshKey();
      const lock = await a!.locks.acquire(key, { leaseMs: 60_000 });
      await eventually(async () => (await heldRow(net.admins, key)) === '111');
      await net.admins[0]!.del(`lock:${key}`);
      const waiting = b!.locks.acquire(key, { waitMs: 60_000 });
      await eventually(async () => (await b!.locks.inspect(key)).waiters === 1);
      await eventually(async () => (await heldRow(net.admins, key)) === '011');
      return async () => {
        await lock.release();
        await (await waiting).release();
      };
    });
  });

  it('keep no grant that comes after the release', async () => {
    const net = await startNet(3);
    const [a] = await warmApps(net, 1);
    const key = freshKey();
    a!.proxies[2]!.delayMs = 2_000;
    const lock = await a!.locks.acquire(key, { leaseMs: 30_000 });
    a!.proxies[2]!.delayMs = 0;
    // ioredis sends it again, 50 ms later.
    a!.proxies[2]!.cutAll();
    await sleep(15);
    await lock.release();
    await eventually(async () => (await holdsOn([net.admins[2]!], key))[0]!.length > 0, { timeoutMs: 1_000 }).catch(
      () => undefined,
    );
    await eventually(async () => (await heldRow(net.admins, key)) === '000', { timeoutMs: 4_000 });
  });
});
