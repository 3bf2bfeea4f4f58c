import { type Socket, connect, createServer } from 'node:net';
import { LockStoreError, type RedisLockModuleOptions } from '../../../lib/index.js';
import { itLikeIoredis, itOnNodeRedis } from '../../support/clients/library.js';
import { beginMove, keyOn } from '../../support/redis/cluster-slots.js';
import { givenCluster } from '../../support/redis/connections.js';
import { eventually } from '../../support/waiting/eventually.js';
import { expectWoken, untilRenewed } from '../../support/waiting/waiters.js';
import { type LockApp, closeAll, closeLater, freshKey, openAdmin, startApp } from '../../support/apps/lock-app.js';
import { ownRedis } from '../../support/redis/own-redis.js';
import { ownCluster } from '../../support/redis/own-topologies.js';
import { rejection } from '../../support/waiting/rejection.js';

/** The address of an endpoint. What its nodes name without a host is at this address, and not on `localhost`. */
const ENDPOINT = '127.0.0.2';

/** A cluster that an app reaches at one endpoint, and a Redis that listens on this machine at the port that the second node announces. */
async function startBehindEndpoint(endpointType = 'unknown-endpoint') {
  const cluster = await ownCluster({ replicas: 0 });
  const decoy = await ownRedis();
  const ports = cluster.masters.map(({ port }, i) => ({ port, announced: i === 1 ? decoy.port : port }));
  for (const { port, announced } of ports) {
    const admin = openAdmin(`redis://127.0.0.1:${port}`);
    await admin.config('SET', 'cluster-preferred-endpoint-type', endpointType);
    await admin.config('SET', 'cluster-announce-port', announced);
    const sockets = new Set<Socket>();
    const server = createServer((socket) => {
      const node = connect(port, '127.0.0.1');
      for (const one of [socket, node]) sockets.add(one.on('error', () => undefined));
      socket.pipe(node).pipe(socket);
    });
    await new Promise<void>((resolve) => server.listen(announced, ENDPOINT, resolve));
    const close = async (): Promise<void> => {
      for (const one of sockets) one.destroy();
      server.close();
    };
    closeLater({ close });
  }
  const first = openAdmin(cluster.masters[0]!.url);
  await eventually(async () => JSON.stringify(await first.cluster('SLOTS')).includes(`,${decoy.port},`));
  return { cluster, decoy, connection: { cluster: [{ host: ENDPOINT, port: ports[0]!.port }] } };
}

async function start() {
  const cluster = await ownCluster({ replicas: 0 });
  const { connection } = cluster;
  const startApps = (count: number, more: RedisLockModuleOptions = {}) =>
    Promise.all(Array.from({ length: count }, () => startApp({ connection, ...more })));
  return { ...cluster, startApps };
}

describe('a cluster', () => {
  afterEach(closeAll);

  it('is reached through some of its nodes, or through a given client', async () => {
    const cluster = await start();
    const client = givenCluster(cluster.connection.cluster);
    const one = await startApp({ connection: { cluster: [cluster.connection.cluster[0]!] } });
    const other = await startApp({ connection: client });
    for (const n of [0, 1, 2]) {
      const key = keyOn(n);
      const lock = await one.locks.acquire(key);
      expect(await other.locks.tryAcquire(key)).toBeNull();
      await lock.release();
      await expectWoken(one, other, () => keyOn(n));
    }
  });

  it('locks keys of one tag in one command', async () => {
    const cluster = await start();
    const hashTag = (key: string) => (key.startsWith('order') ? key.split(':')[1] : undefined);
    const { locks } = (await cluster.startApps(1, { hashTag }))[0]!;
    const id = freshKey();
    const keys = [`order:${id}:stock`, `order:${id}:payment`, `order:${id}:{x}%`];
    const lock = await locks.acquire(keys);
    const admins = cluster.masters.map(({ url }) => openAdmin(url));
    const stored = (await Promise.all(admins.map((admin) => admin.keys('*')))).filter((names) => names.length > 0);
    expect(stored.map((names) => names.sort())).toEqual([
      [`lock:{${id}}order:${id}:payment`, `lock:{${id}}order:${id}:stock`, `lock:{${id}}order:${id}:%7Bx%7D%25`].sort(),
    ]);
    const listed: string[] = [];
    for await (const state of locks.list({ prefix: `order:${id}` })) listed.push(state.key);
    expect(listed.sort()).toEqual([...keys].sort());
    expect(await locks.tryAcquire(keys[1]!)).toBeNull();
    await lock.release();
    expect(await locks.isLocked(keys[0]!)).toBe(false);
  });

  it('keeps holds and serves waiters while the slot moves (MOVED, ASK)', async () => {
    const cluster = await start();
    const [a, b, c] = (await cluster.startApps(3)) as [LockApp, LockApp, LockApp];
    const key = keyOn(0);
    const lock = await a.locks.acquire(key, { leaseMs: 4_000 });
    const waiting = b.locks.acquire(key, { waitMs: 20_000, leaseMs: 4_000 });
    await eventually(async () => (await a.locks.inspect(key)).waiters === 1);
    const move = await beginMove(cluster, `lock:${key}`);
    await move.moveKey(`lock:${key}`);
    // Its key is where the slot is not yet: ASK.
    await untilRenewed(a, 2);
    expect(await c.locks.tryAcquire(key)).toBeNull();
    await move.end();
    await lock.extend(1_000);
    await lock.release();
    const next = await waiting;
    expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
    expect(await c.locks.tryAcquire(key)).toBeNull();
    await next.release();
    await (await c.locks.acquire(key)).release();
  });

  it('locks several keys of a moving slot once all of them have arrived (TRYAGAIN)', async () => {
    const cluster = await start();
    const hashTag = () => 'one';
    const [a, b] = (await cluster.startApps(2, { hashTag })) as [LockApp, LockApp];
    const keys = [freshKey(), freshKey()];
    await (await a.locks.acquire(keys)).release();
    const move = await beginMove(cluster, '{one}');
    await move.moveKey(`lock:{one}${keys[0]}`);
    const both = b.locks.acquire(keys, { waitMs: 20_000 });
    const single = await a.locks.acquire(keys[0]!);
    await single.release();
    let isGranted = false;
    void both.then(() => (isGranted = true));
    await (await a.locks.acquire(keys[1]!)).release();
    expect(isGranted).toBe(false);
    await move.end();
    const lock = await both;
    expect(lock.fencingTokens[0]).toBeGreaterThan(single.fencingToken);
    await lock.release();
  });

  itOnNodeRedis.each(['MOVED', 'ASK'])(
    'that names no hosts is reached at the host that was asked, also by a redirection (%s)',
    async (kind) => {
      const { cluster, decoy, connection } = await startBehindEndpoint();
      const { locks } = await startApp({ connection, minReplicas: 0 });
      for (const n of [0, 1, 2]) await (await locks.acquire(keyOn(n))).release();
      const key = keyOn(0);
      const { end } = await beginMove(cluster, `lock:${key}`);
      if (kind === 'MOVED') await end();
      const lock = await locks.acquire(key);
      const target = openAdmin(cluster.masters[1]!.url);
      await target.call('ASKING');
      expect(await target.exists(`lock:${key}`)).toBe(1);
      expect(await decoy.admin.dbsize()).toBe(0);
      await lock.release();
    },
  );

  itLikeIoredis.each(['unknown-endpoint', 'hostname'])(
    'whose nodes name no hosts is refused with what to do, since the library cannot use it (%s)',
    async (endpointType) => {
      const { connection } = await startBehindEndpoint(endpointType);
      const { locks } = await startApp({ connection });
      const error = await rejection<LockStoreError>(locks.acquire(keyOn(1), { waitMs: 3_000 }));
      expect(error).toBeInstanceOf(LockStoreError);
      expect(error.message).toMatch(/names its nodes without a host.*cluster-preferred-endpoint-type/);
      expect(error.retryable).toBe(false);
    },
  );
});
