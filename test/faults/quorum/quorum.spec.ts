import { setTimeout as sleep } from 'node:timers/promises';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type RedisOptions } from 'ioredis';
import {
  type Lock,
  type LockBusyError,
  LockLostError,
  LockStoreError,
  LockWaitTimeoutError,
} from '../../../lib/index.js';
import { startQuorum } from '../../../scripts/topologies.mjs';
import { eventually } from '../../support/waiting/eventually.js';
import { loadScripts, ownRedis, startAgain } from '../../support/redis/own-redis.js';
import { closeAll, closeLater, freshKey, type LockApp, openAdmin, startApp } from '../../support/apps/lock-app.js';
import { dropHold, heldRow, holdsOn, type QuorumNet, startNet, warmApps } from '../../support/redis/quorum-net.js';
import { startTcpProxy } from '../../support/network/tcp-proxy.js';
import { untilQuick, untilRenewed } from '../../support/waiting/waiters.js';
import { rejection } from '../../support/waiting/rejection.js';
import { hashOf, setToken } from '../../support/redis/records.js';
import { claimFire } from '../../support/apps/claim-fire.js';
import { startVip } from '../../support/network/vip.js';
import { makeFolder } from '../../../scripts/redis.mjs';

afterEach(closeAll);

/** Independent masters, and the same number of apps. */
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
  it('never has two holders when a release of an earlier round arrives late', async () => {
    const net = await startNet(3);
    const key = freshKey();
    const [first, second, third] = await warmApps(net, 3);
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
});

const LEASE_MS = 4_000;

/** Tries again and again to get in, until it is closed; gives what it got. */
function besiege({ locks }: LockApp, key: string) {
  const stopped = new AbortController();
  const got: Lock[] = [];
  const run = async (): Promise<void> => {
    while (!stopped.signal.aborted) {
      const lock = await locks.tryAcquire(key).catch(() => null);
      if (lock) got.push(lock);
      await sleep(20);
    }
  };
  const running = run();
  const close = async (): Promise<readonly Lock[]> => {
    stopped.abort();
    await running;
    return got;
  };
  return closeLater({ close });
}

/** The attempt that holds it on all nodes; for an instant, others may also have the vote of a node. */
const holderOf = ({ admins }: QuorumNet, key: string): Promise<string> =>
  eventually(
    async () => {
      const holds = await holdsOn(admins, key);
      return holds[0]!.find((attempt) => holds.every((there) => there.includes(attempt)));
    },
    { timeoutMs: 20_000 },
  );

/** Restarts one node after the other without data; each is given time to get back what it had. */
async function restartAll(net: QuorumNet, key: string): Promise<void> {
  const { servers, admins } = net;
  const holder = await holderOf(net, key);
  for (const [i, server] of servers.entries()) {
    await server.kill();
    await startAgain(server);
    await eventually(() => loadScripts(admins[i]!).then(() => true));
    await eventually(async () => (await holderOf(net, key)) === holder);
  }
}

describe('nodes that restart without their data, one after the other', () => {
  it('get the lock again as soon as they are back, and admit no other caller', async () => {
    const net = await startNet(3);
    const [a, b] = [await net.app(), await net.app()];
    const key = freshKey();
    const lock = await a.locks.acquire(key, { leaseMs: LEASE_MS });
    await holderOf(net, key);
    const siege = besiege(b, key);
    await restartAll(net, key);
    expect(await siege.close()).toEqual([]);
    expect([lock.held, lock.signal.aborted]).toEqual([true, false]);
    await lock.release();
    const next = await b.locks.acquire(key);
    expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
  }, 60_000);
});

/** A master whose only replica is at the end of a line, which has no delay at first. */
async function startFarReplicated() {
  const { port, url, admin } = await ownRedis();
  const line = closeLater(await startVip(port));
  await ownRedis(['--replicaof', '127.0.0.1', String(line.port)]);
  await eventually(async () => (await admin.info('replication')).includes('state=online'), { timeoutMs: 20_000 });
  return { url, admin, line };
}

/** Three masters with a replica each, which answers after `roundTripMs`; an app that asks them to confirm. */
async function startWithReplicas(roundTripMs: number, replicaTimeoutMs: number, leaseMs: number) {
  const masters = await Promise.all([startFarReplicated(), startFarReplicated(), startFarReplicated()]);
  const connection = masters.map(({ url }) => url);
  const options = { connection, leaseMs, minReplicas: 1, replicaTimeoutMs };
  const apps = [await startApp(options), await startApp(options)] as const;
  for (const { locks } of apps) await locks.withLock(freshKey(), () => undefined);
  for (const { line } of masters) line.delayMs = roundTripMs / 2;
  return { masters, apps, admins: masters.map(({ admin }) => admin) };
}

describe('a quorum whose grants are confirmed by replicas', () => {
  it('waits for the replicas up to `replicaTimeoutMs`', async () => {
    const { apps, admins } = await startWithReplicas(400, 1_500, 4_000);
    const key = freshKey();
    const lock = await apps[0].locks.acquire(key);
    await eventually(async () => (await heldRow(admins, key)) === '111');
    expect(await apps[1].locks.tryAcquire(key)).toBeNull();
    const waiting = apps[1].locks.acquire(key, { waitMs: 20_000 });
    await eventually(async () => (await apps[0].locks.inspect(key)).waiters === 1);
    await lock.release();
    await (await waiting).release();
  });

  it('gives back what the replicas did not confirm in time, and reports it', async () => {
    const { masters, apps, admins } = await startWithReplicas(0, 300, 8_000);
    for (const { line } of masters) line.delayMs = 2_000;
    const key = freshKey();
    const error = await rejection<LockStoreError>(apps[0].locks.acquire(key, { waitMs: 500 }));
    expect(error.message).toContain('Only 0 of 1 replicas confirmed');
    await eventually(async () => (await heldRow(admins, key)) === '000');
  });

  it('keeps the fire of a running job on a master whose replicas do not confirm that it has the hold again', async () => {
    const { masters, apps, admins } = await startWithReplicas(0, 300, 3_000);
    const [key, admin] = [freshKey(), admins[1]!];
    const lock = await claimFire(apps[0], key);
    await eventually(async () => (await heldRow(admins, key)) === '111');
    masters[1].line.delayMs = 2_000;
    await dropHold(admin, key);
    await eventually(async () => (await admin.hexists(`lock:${key}`, 'late')) === 1, { timeoutMs: 10_000 });
    expect((await hashOf(admin, key))['run:Jobs.run']).toMatch(/^1000 .* -$/);
    await lock.releaseAfter('done');
  }, 30_000);
});

/** A master, and one sentinel that calls it by the default name of all sentinels. */
async function startGroup() {
  const master = await ownRedis();
  const folder = makeFolder();
  closeLater({ close: async () => folder.remove() });
  const file = join(folder.path, 'sentinel.conf');
  writeFileSync(file, `sentinel monitor mymaster 127.0.0.1 ${master.port} 1\n`);
  const sentinel = await ownRedis([file, '--sentinel', '--dir', folder.path]);
  const address = { host: '127.0.0.1', port: sentinel.port };
  const connection: RedisOptions = { sentinels: [address], name: 'mymaster' };
  return { master, connection, name: `sentinel mymaster of 127.0.0.1:${sentinel.port}` };
}

describe('a quorum of groups of sentinels that all name their master the same', () => {
  it('holds locks, and reports what each group answered by its sentinels', async () => {
    const groups = await Promise.all([startGroup(), startGroup(), startGroup()]);
    const connection = groups.map((group) => group.connection);
    const names = groups.map(({ name }) => name);
    const [a, b] = [await startApp({ connection }), await startApp({ connection })];
    const key = freshKey();
    const lock = await a.locks.acquire(key, { leaseMs: 20_000 });
    const admins = groups.map(({ master }) => master.admin);
    await eventually(async () => (await heldRow(admins, key)) === '111');
    const busy = await rejection<LockBusyError>(b.locks.acquire(key, { waitMs: 0 }));
    expect(busy.nodes!.map(({ node }) => node)).toEqual(names);
    await lock.release();
    await Promise.all(groups.slice(1).map(({ master }) => master.kill()));
    const error = await rejection<LockStoreError>(a.locks.acquire(key, { waitMs: 500 }));
    for (const name of names) expect(error.message).toContain(`${name} `);
  });
});
