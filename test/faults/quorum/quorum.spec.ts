import { LockLostError, LockStoreError, LockWaitTimeoutError } from '../../../lib/index.js';
import { startQuorum } from '../../../scripts/topologies.mjs';
import { eventually } from '../../support/waiting/eventually.js';
import { startAgain } from '../../support/redis/own-redis.js';
import { type LockApp, closeAll, closeLater, freshKey, openAdmin, startApp } from '../../support/apps/lock-app.js';
import { heldRow, startNet } from '../../support/redis/quorum-net.js';
import { startTcpProxy } from '../../support/network/tcp-proxy.js';
import { untilQuick, untilRenewed } from '../../support/waiting/waiters.js';
import { rejection } from '../../support/waiting/rejection.js';
import { setToken } from '../../support/redis/records.js';
import { givenClient } from '../../support/redis/connections.js';

/** Masters of their own, and as many apps. */
async function start(size: number, apps = 2) {
  const quorum = await startQuorum(size);
  closeLater({ close: () => quorum.stop() });
  const { connection, servers } = quorum;
  const started: LockApp[] = [];
  for (let i = 0; i < apps; i += 1) started.push(await startApp({ connection }));
  return { connection, servers, apps: started, admins: servers.map(({ url }) => openAdmin(url)) };
}

const nullWithoutAnswer = (error: unknown): null => {
  if (error instanceof LockStoreError) return null;
  throw error;
};

describe('a quorum of masters', () => {
  afterEach(closeAll);

  it.each([
    [1, 0],
    [2, 0],
    [3, 1],
    [4, 1],
    [5, 2],
    [6, 2],
  ])('of %i works without %i of them', async (size, down) => {
    const { apps, servers } = await start(size);
    for (const server of servers.slice(0, down)) await server.kill();
    const key = freshKey();
    const lock = await apps[0]!.locks.acquire(key, { leaseMs: 3_000 });
    expect(await apps[1]!.locks.tryAcquire(key)).toBeNull();
    const waiting = apps[1]!.locks.acquire(key, { waitMs: 20_000, leaseMs: 3_000 });
    // For longer than a lease.
    await untilRenewed(apps[0]!, 4, { timeoutMs: 15_000 });
    expect(lock.held).toBe(true);
    await lock.release();
    const next = await waiting;
    expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
    await next.release();
  });

  it.each([
    [2, 1],
    [3, 2],
    [4, 2],
    [5, 3],
  ])('of %i fails without %i of them, and reports what each answered', async (size, down) => {
    const { apps, servers } = await start(size);
    for (const server of servers.slice(0, down)) await server.kill();
    const error = await rejection<LockStoreError>(apps[0]!.locks.acquire(freshKey(), { waitMs: 2_000 }));
    expect(error).toBeInstanceOf(LockStoreError);
    expect(error.message).toContain(`${size - down} of ${size} masters answered`);
    const answers = error.nodes!.map(({ node, answer }) => [node, answer]);
    expect(answers).toEqual(servers.map(({ port }, i) => [`127.0.0.1:${port}`, i < down ? 'unreachable' : 'granted']));
    expect(error.message).toContain(`127.0.0.1:${servers[0]!.port} unreachable (`);
  });

  it.each([2, 3, 4, 5])('of %i has one winner when many try at once, again and again', async (size) => {
    const { apps } = await start(size, 4);
    let wins = 0;
    // Where the process stands still, the time of all calls may run out; where nothing breaks a tie, most tries have no winner.
    for (let tried = 0; wins < 20; tried += 1) {
      expect(tried).toBeLessThan(60);
      const key = freshKey();
      const tries = apps.map((app) => app.locks.tryAcquire(key).catch(nullWithoutAnswer));
      const winners = (await Promise.all(tries)).filter((lock) => lock !== null);
      expect(winners.length).toBeLessThanOrEqual(1);
      wins += winners.length;
    }
  });

  it('loses a lock that a majority has forgotten, and does not bring it back', async () => {
    const { apps, servers, admins } = await start(3);
    const key = freshKey();
    const lock = await apps[0]!.locks.acquire(key, { leaseMs: 1_500 });
    await eventually(async () => (await heldRow(admins, key)) === '111');
    // Both are away before one is back: a renewal in between would lock the first again.
    await Promise.all(servers.slice(1).map((server) => server.kill()));
    await Promise.all(servers.slice(1).map((server) => startAgain(server)));
    await eventually(() => lock.signal.aborted, { timeoutMs: 5_000 });
    expect(lock.signal.reason).toBeInstanceOf(LockLostError);
    expect(await rejection(lock.extend(1_000))).toBeInstanceOf(LockLostError);
    expect((await heldRow(admins, key)).slice(1)).toBe('00');
  });

  it('is not held up by a node that does not answer', async () => {
    const { servers, admins } = await start(3, 0);
    const proxy = closeLater(await startTcpProxy(servers[2]!.port));
    const connection = [servers[0]!.url, servers[1]!.url, proxy.url];
    const a = await startApp({ connection });
    const b = await startApp({ connection });
    const key = freshKey();
    // Until both know the third one.
    for (const { locks } of [a, b]) {
      await locks.withLock(key, () => eventually(async () => (await heldRow(admins, key)) === '111'));
    }
    proxy.blackhole(true);
    // A command is given up after 2 s.
    await untilQuick(1_500, async () => async () => (await a.locks.acquire(freshKey())).release());
    const lock = await a.locks.acquire(key, { leaseMs: 60_000 });
    const error = await rejection<LockWaitTimeoutError>(b.locks.acquire(key, { waitMs: 1_000 }));
    expect(error).toBeInstanceOf(LockWaitTimeoutError);
    expect(error.nodes!.map(({ answer }) => answer)).toEqual(['busy', 'busy', 'unreachable']);
    expect(error.message).toContain('held by');
    await lock.release();
    expect(await b.locks.tryAcquire(key)).not.toBeNull();
  });

  it('has tokens that rise over majorities that share one node only', async () => {
    const { servers, admins } = await start(3, 0);
    const proxies = await Promise.all(servers.map(async ({ port }) => closeLater(await startTcpProxy(port))));
    const { locks } = await startApp({ connection: proxies.map(({ url }) => url) });
    const key = freshKey();
    let last = 0;
    for (let round = 0; round < 12; round += 1) {
      // The clock of one node is an hour ahead: only it would know the greatest token.
      const ahead = String((Date.now() + 3_600_000 * (1 + round)) * 1_000);
      await setToken(admins[round % 3]!, key, ahead);
      for (const [i, proxy] of proxies.entries()) {
        const isAway = i === (round + 1) % 3;
        proxy.refuse(isAway);
        if (isAway) proxy.cutAll();
      }
      const lock = await locks.acquire(key);
      expect(lock.fencingToken).toBeGreaterThan(last);
      last = lock.fencingToken;
      await lock.release();
    }
  });
});

describe('a quorum, when messages are late', () => {
  afterEach(closeAll);

  it('never has two holders when a release of an earlier round arrives late', async () => {
    const net = await startNet(3);
    const key = freshKey();
    const [first, second, third] = [await net.app(), await net.app(), await net.app()];
    for (const { locks } of [first, second, third]) await locks.withLock(freshKey(), () => undefined);
    first.reaches(0, 1);
    const held = await first.locks.acquire(key, { leaseMs: 20_000 });

    // The third node grants, but so late that the vote is over. A release of it now, which would take long on its way, could
    // take the grant away that a later round counts: so none is sent while the attempt lives.
    const way = second.proxies[2]!;
    way.delayMs = 200;
    let isVoteOver = false;
    second.locks.events.on('waiting', () => (isVoteOver = true));
    const waiting = second.locks.acquire(key, { leaseMs: 6_000, waitMs: 20_000 });
    await eventually(async () => (await heldRow(net.admins, key)) === '111');
    await eventually(() => isVoteOver);
    expect(await heldRow(net.admins, key)).toBe('111');
    way.delayMs = 0;
    second.reaches(0, 2);
    await held.release();
    const lock = await waiting;
    expect(await heldRow(net.admins, key)).toBe('101');
    expect(await third.locks.tryAcquire(key)).toBeNull();
    expect(lock.held).toBe(true);
  }, 60_000);

  it('accepts clients of the application as its nodes', async () => {
    const net = await startNet(3);
    const { locks } = await startApp({ connection: net.servers.map(({ url }) => givenClient(url)) });
    expect(await locks.withLock(freshKey(), () => 'done')).toBe('done');
  });
});
