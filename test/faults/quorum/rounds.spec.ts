import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../../support/waiting/eventually.js';
import { setToken } from '../../support/redis/records.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { dropHold, heldRow, holdsOn, type NetApp, startNet, warmApps, warmUp } from '../../support/redis/quorum-net.js';
import { type AcquireReply, type AcquireRequest, type LockStore } from '../../../lib/core/store/lock-store.js';
import { LOCK_STORE } from '../../../lib/redis-lock.tokens.js';

afterEach(closeAll);

describe('rounds of a quorum', () => {
  it('do not block themselves when an operator interferes with the votes', async () => {
    const net = await startNet(3);
    const [a, operator] = await warmApps(net, 2);
    const key = freshKey();
    // The clock of the node that an operator reaches first is ahead.
    await setToken(net.admins[0]!, key, String((Date.now() + 60_000) * 1_000));
    for (const proxy of a.proxies.slice(1)) proxy.delayMs = 200;
    const acquired = a.locks.acquire(key, { leaseMs: 30_000, waitMs: 5_000 });
    await eventually(async () => (await heldRow(net.admins, key)) === '100');
    expect(await operator.locks.forceRelease(key)).toBe(true);
    for (const proxy of a.proxies) proxy.delayMs = 0;
    const lock = await acquired;
    expect(lock.held).toBe(true);
    await lock.release();
  });

  it('give a re-entering call the token of its owner, even on a node that had not granted the lock before', async () => {
    const net = await startNet(3);
    const [a, b] = await warmApps(net, 2);
    const [key, other] = [freshKey(), freshKey()];
    a.reaches(0, 1);
    const outer = await a.locks.acquire(key, { owner: 'job' });
    expect(await heldRow(net.admins, key)).toBe('110');
    const inner = await b.locks.acquire([other, key], { owner: 'job' });
    expect(await heldRow(net.admins, key)).toBe('111');
    expect(inner.fencingTokens[1]).toBe(outer.fencingToken);
    await Promise.all([outer.release(), inner.release()]);
    // Node 2 had minted a greater one.
    expect((await b.locks.acquire(key)).fencingToken).toBeGreaterThan(outer.fencingToken);
  });

  it('do not mistake the remains of a read hold on one node for an upgrade', async () => {
    const net = await startNet(3);
    const [reader, writer] = await warmApps(net, 2);
    const key = freshKey();
    const reading = await reader.locks.acquire(key, { owner: 'job', mode: 'read', leaseMs: 3_000 });
    await eventually(async () => (await heldRow(net.admins, key)) === '111');
    reader.reaches(0, 1);
    await reading.release();
    expect(await heldRow(net.admins, key)).toBe('001');
    writer.reaches(0, 2);
    // The rest ends with its lease.
    const writing = await writer.locks.acquire(key, { owner: 'job', waitMs: 10_000 });
    expect(writing.mode).toBe('write');
  });
});

/** Sends an acquire to the store directly, without waiting for the lock. */
function ask({ app }: NetApp, key: string, request: Partial<AcquireRequest> = {}): Promise<AcquireReply> {
  const store = app.get<LockStore>(LOCK_STORE);
  const attempt = `${store.clientId}.${Math.random().toString(36).slice(2, 10).padEnd(8, '0')}`;
  const wish = { owner: undefined, mode: 'write', leaseMs: 1_500, waiterLeaseMs: 0, fair: false, permits: 0 } as const;
  return store.acquire({ keys: [key], attempt, holder: 'host:1', ...wish, ...request }, 400, () => undefined);
}

describe('an attempt that was given back in part', () => {
  it('has ended, even when too few nodes answered and none of them granted', async () => {
    const net = await startNet(5);
    const [holder, other] = await warmApps(net, 2);
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
    const net = await startNet(5);
    const [first, second, third] = await warmApps(net, 3);
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
        const theirs = await third.locks.acquire(key, { leaseMs: 2_000, waitMs: 3_000 });
        expect(mine.held && theirs.held).toBe(false);
        expect(theirs.fencingToken).toBeGreaterThan(mine.fencingToken);
        await theirs.release();
        await mine.release();
      }
      second.reaches(0, 1, 2, 3, 4);
      await warmUp(net.admins, second);
    }
  }, 90_000);
});

/** Of attempts that were given back. A node remembers the last seven. */
const USES = 10;

const LEASE = { leaseMs: 20_000 };

/** Three masters, and two apps that are connected to all of them. */
async function twoApps() {
  const net = await startNet(3);
  const [giver, taker] = await warmApps(net, 2);
  /** All that the giver has asked the nodes for was done, and what it has sent because of an answer. */
  const heard = async (key: string): Promise<void> => {
    for (let i = 0; i < 2; i += 1) await giver.locks.inspect(key);
  };
  return { net, giver, taker, heard };
}

/** Transfers a lock before the last node hears of its grant; on a machine that is too slow for that, the next lock. */
async function transferEarly({ net, giver, taker }: Awaited<ReturnType<typeof twoApps>>) {
  giver.proxies[2]!.delayMs = 400;
  for (let tries = 1; ; tries += 1) {
    const key = freshKey();
    const lock = await giver.locks.acquire(key, LEASE);
    const text = await lock.transfer();
    const row = await heldRow(net.admins, key);
    if (tries === 10) expect(row).toBe('110');
    if (row === '110') return { key, text };
    await (await taker.locks.adopt(text)).release();
  }
}

describe('a grant of a late node of a quorum', () => {
  it.each(['before', 'after'])('takes nothing from a lock that was transferred, %s its adoption', async (when) => {
    const apps = await twoApps();
    const { net, taker, heard } = apps;
    const { key, text } = await transferEarly(apps);
    if (when === 'before') await heard(key);
    const adopted = await taker.locks.adopt(text);
    await heard(key);
    const [holds] = await holdsOn(net.admins, key);
    expect((await holdsOn(net.admins, key)).slice(0, 2)).toEqual([holds, holds]);
    expect([adopted.held, await taker.locks.tryAcquire(key)]).toEqual([true, null]);
    expect(await adopted.release()).toBe(true);
    await eventually(async () => (await heldRow(net.admins, key)) === '000');
  });

  it('is not asked for by the one that has transferred the lock, whose late renewal finds it gone', async () => {
    const { net, giver, taker, heard } = await twoApps();
    const key = freshKey();
    const lock = await giver.locks.acquire(key, { ...LEASE, mode: 'read' });
    await heard(key);
    giver.proxies[2]!.delayMs = 400;
    const adopted = await taker.locks.adopt(await lock.transfer());
    // The node remembers the last seven attempts that have ended.
    for (let i = 0; i < 10; i += 1) await taker.locks.withLock(key, { mode: 'read' }, async () => undefined);
    await heard(key);
    expect((await holdsOn(net.admins, key)).map((holds) => holds.length)).toEqual([1, 1, 1]);
    expect(await adopted.release()).toBe(true);
    await eventually(async () => (await heldRow(net.admins, key)) === '000');
  });
});

describe('an adoption that a majority of a quorum refuses', () => {
  it('leaves nothing on the node that carried it out', async () => {
    const { net, giver, taker } = await twoApps();
    const key = freshKey();
    const lock = await giver.locks.acquire(key, { leaseMs: 600_000 });
    await eventually(async () => (await heldRow(net.admins, key)) === '111');
    const text = await lock.transfer();
    for (const admin of net.admins.slice(0, 2)) await dropHold(admin, key);
    await expect(taker.locks.adopt(text)).rejects.toMatchObject({ code: 'LOCK_LOST' });
    await eventually(async () => (await heldRow(net.admins, key)) === '000');
  });
});

describe('a node of a quorum that has lost a lock', () => {
  it('does not get it again when it reports that after the release', async () => {
    const net = await startNet(3);
    const [a, b] = [await net.app(), await net.app()];
    const slow = net.admins[2]!;
    const key = freshKey();
    const lock = await a.locks.acquire(key, { leaseMs: 6_000 });
    await eventually(async () => (await heldRow(net.admins, key)) === '111');
    const renewed = new Promise((resolve) => a.locks.events.on('renewed', resolve));
    await slow.del(`lock:${key}`);
    a.proxies[2]!.delayMs = 200;
    await renewed;
    await lock.release();
    await eventually(async () => (await slow.hexists(`lock:${key}`, 'r')) === 1);
    // The node forgets that it was given back.
    for (let i = 0; i < USES; i += 1) await b.locks.withLock(key, { waitMs: 5_000 }, () => undefined);
    // Answers come in the order of the commands: the renewal before the first, and what follows from it before the second.
    for (let i = 0; i < 2; i += 1) await a.locks.inspect(key);
    await eventually(async () => (await holdsOn(net.admins, key)).flat().length === 0, { timeoutMs: 2_000 });
  }, 60_000);
});
