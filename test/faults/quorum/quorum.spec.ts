import { setTimeout as sleep } from 'node:timers/promises';
import {
  LockBusyError,
  LockConfigurationError,
  LockLostError,
  LockStoreError,
  LockWaitTimeoutError,
} from '../../../lib/index.js';
import { startQuorum } from '../../../scripts/topologies.mjs';
import { eventually } from '../../support/waiting/eventually.js';
import { startAgain } from '../../support/redis/own-redis.js';
import { type LockApp, closeAll, closeLater, freshKey, openAdmin, startApp } from '../../support/apps/lock-app.js';
import { heldRow } from '../../support/redis/quorum-net.js';
import { startTcpProxy } from '../../support/network/tcp-proxy.js';
import { untilQuick } from '../../support/waiting/waiters.js';
import { rejection } from '../../support/waiting/rejection.js';
import { hashOf, setToken } from '../../support/redis/records.js';

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

  it('grants a lock on all of them, with one token, and releases it on all of them', async () => {
    const { apps, admins } = await start(5);
    const key = freshKey();
    const lock = await apps[0]!.locks.acquire(key);
    await eventually(async () => (await heldRow(admins, key)) === '11111');
    const busy = await rejection<LockBusyError>(apps[1]!.locks.acquire(key, { waitMs: 0 }));
    expect(busy).toBeInstanceOf(LockBusyError);
    expect(busy.nodes).toHaveLength(5);
    await lock.release();
    await eventually(async () => (await heldRow(admins, key)) === '00000');
    const next = await apps[1]!.locks.acquire(key);
    expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
    await next.release();
  });

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
    let renewals = 0;
    apps[0]!.locks.events.on('renewed', () => (renewals += 1));
    const lock = await apps[0]!.locks.acquire(key, { leaseMs: 3_000 });
    expect(await apps[1]!.locks.tryAcquire(key)).toBeNull();
    const waiting = apps[1]!.locks.acquire(key, { waitMs: 20_000, leaseMs: 3_000 });
    // For longer than a lease.
    await eventually(() => renewals > 3, { timeoutMs: 15_000 });
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

  it('serves all waiters, one at a time, with rising tokens', async () => {
    const { apps } = await start(3, 4);
    const key = freshKey();
    let inside = 0;
    const tokens: number[] = [];
    const call = ({ locks }: LockApp) =>
      locks.withLock(key, { waitMs: 20_000 }, async (lock) => {
        inside += 1;
        expect(inside).toBe(1);
        tokens.push(lock.fencingToken);
        await sleep(2);
        inside -= 1;
      });
    await Promise.all(apps.flatMap((app) => Array.from({ length: 15 }, () => call(app))));
    expect(tokens).toEqual([...tokens].sort((a, b) => a - b));
    expect(new Set(tokens).size).toBe(60);
  });

  it('restores a lock on a node that came back empty', async () => {
    const { apps, servers, admins } = await start(3);
    const key = freshKey();
    const lock = await apps[0]!.locks.acquire(key, { leaseMs: 6_000 });
    await servers[2]!.kill();
    await startAgain(servers[2]!);
    await eventually(async () => (await heldRow(admins, key)) === '111', { timeoutMs: 15_000 });
    const hash = await hashOf(admins[2]!, key);
    expect(hash['token']).toBeDefined();
    expect(Number(hash['token'])).toBeGreaterThanOrEqual(lock.fencingToken);
    await servers[0]!.kill();
    expect(await apps[1]!.locks.tryAcquire(key)).toBeNull();
    await lock.release();
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

  it('loses a lock when a majority is away until the lease ends', async () => {
    const { apps, servers } = await start(3);
    // Long enough for a renewal that fails, also on a busy machine.
    const lock = await apps[0]!.locks.acquire(freshKey(), { leaseMs: 3_000 });
    for (const server of servers.slice(1)) await server.kill();
    await eventually(() => lock.signal.aborted, { timeoutMs: 10_000 });
    expect(lock.signal.reason).toMatchObject({ reason: 'unreachable' });
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

  it('refuses permits, fair queues, and the same server twice', async () => {
    const { connection, servers, apps } = await start(3, 1);
    const { locks } = apps[0]!;
    const refused = async (options: object) => rejection(locks.acquire(freshKey(), options));
    expect(await refused({ mode: 'read', permits: 2 })).toBeInstanceOf(LockConfigurationError);
    expect(await refused({ fair: true })).toBeInstanceOf(LockConfigurationError);
    await (await locks.acquire(freshKey(), { fair: false })).release();
    const proxy = closeLater(await startTcpProxy(servers[0]!.port));
    const twice = await startApp({ connection: [connection[0]!, connection[1]!, proxy.url] });
    const error = await rejection(
      twice.locks.acquire(freshKey()).then((lock) => twice.locks.acquire(lock.key, { waitMs: 0 })),
    );
    expect(error).toBeInstanceOf(LockConfigurationError);
  });

  it('admits readers by majority, and a writer after all of them', async () => {
    const { apps } = await start(5, 3);
    const key = freshKey();
    const readers = await Promise.all(apps.slice(0, 2).map(({ locks }) => locks.acquire(key, { mode: 'read' })));
    const state = await apps[2]!.locks.inspect(key);
    expect([state.mode, state.holders.length]).toEqual(['read', 2]);
    const writer = apps[2]!.locks.acquire(key, { waitMs: 10_000 });
    for (const reader of readers) await reader.release();
    await (await writer).release();
  });
});
