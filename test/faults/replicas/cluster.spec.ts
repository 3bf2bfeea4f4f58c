import { type Lock } from '../../../lib/index.js';
import { type StartedCluster } from '../../../scripts/topologies.mjs';
import { beginMove, keyOn } from '../../support/redis/cluster-slots.js';
import { eventually } from '../../support/waiting/eventually.js';
import { rejection } from '../../support/waiting/rejection.js';
import { closeAll, freshKey, openAdmin, startApp } from '../../support/apps/lock-app.js';
import { ownCluster } from '../../support/redis/own-topologies.js';

const LEASE_MS = 3_000;

const release = async (locks: readonly Lock[]) => void (await Promise.all(locks.map((lock) => lock.release())));

describe('minReplicas on a cluster', () => {
  afterEach(closeAll);

  it('confirms the keys that the client writes, whichever node has them', async () => {
    const cluster = await ownCluster({ replicas: 1 });
    const { locks } = await startApp({ connection: cluster.connection, minReplicas: 1, leaseMs: LEASE_MS });
    const held = await Promise.all(Array.from({ length: 24 }, () => locks.acquire(freshKey(), { waitMs: 10_000 })));
    const several = await locks.acquire([freshKey(), freshKey(), freshKey()]);
    const renewed = new Set<string>();
    locks.events.on('renewed', ({ key }) => renewed.add(key));
    await eventually(() => held.every(({ key }) => renewed.has(key)));
    expect(held.filter((lock) => lock.held)).toHaveLength(24);
    const stored = await Promise.all(cluster.masters.map(({ url }) => openAdmin(url).keys('*')));
    expect(stored.flat()).toHaveLength(27);
    expect(stored.flat().filter((name) => !name.startsWith('lock:'))).toEqual([]);
    await release([...held, several]);
  });

  it('grants the locks of a slot that moves (ASK, MOVED)', async () => {
    const cluster = await ownCluster({ replicas: 1 });
    const { locks } = await startApp({ connection: cluster.connection, minReplicas: 1, leaseMs: LEASE_MS });
    const key = keyOn(0);
    // The node has not loaded any script yet.
    const move = await beginMove(cluster, `lock:${key}`);
    const whileMoving = await locks.acquire(key, { waitMs: 0 });
    const source = openAdmin(cluster.masters[0]!.url);
    expect((await rejection(source.exists(`lock:${key}`))).message).toMatch(/^ASK /);
    await release([whileMoving]);
    const across = await locks.acquire(key, { waitMs: 0 });
    await move.end();
    const renewed = new Set<string>();
    locks.events.on('renewed', (event) => renewed.add(event.key));
    await eventually(() => renewed.has(key));
    await release([across]);
    const after = await locks.acquire(key, { waitMs: 0 });
    await release([after]);
  });

  it('uses the addresses of `natMap`, even where a node names its own (MOVED, ASK)', async () => {
    const cluster = await ownCluster({ replicas: 1 });
    const natMap = await hideAddresses(cluster);
    const connection = { ...cluster.connection, natMap };
    const [a, b] = [await startApp({ connection, minReplicas: 1 }), await startApp({ connection })];
    const held = await Promise.all(Array.from({ length: 24 }, () => a.locks.acquire(freshKey())));
    await release(held);
    const keys = [0, 1, 2].map(keyOn);
    for (const key of keys) {
      await release([await a.locks.acquire(key, { waitMs: 0 })]);
      const move = await beginMove(cluster, `lock:${key}`);
      await move.moveKey(`lock:${key}`);
      await release([await a.locks.acquire(key, { waitMs: 0 })]);
      await move.end();
      const lock = await a.locks.acquire(key, { waitMs: 0 });
      const waiting = b.locks.acquire(key, { waitMs: 20_000 });
      await eventually(async () => (await a.locks.inspect(key)).waiters === 1);
      await release([lock]);
      await release([await waiting]);
    }
  });
});

/** Has the nodes tell clients addresses by which nobody reaches them; gives what translates these. */
async function hideAddresses({ masters, replicas }: StartedCluster) {
  const nodes = [...masters, ...replicas];
  const admins = nodes.map(({ url }) => openAdmin(url));
  const hostOf = (port: number) => `node-${port}.invalid`;
  await Promise.all(admins.map((admin, i) => admin.config('SET', 'cluster-announce-hostname', hostOf(nodes[i]!.port))));
  await Promise.all(admins.map((admin) => admin.config('SET', 'cluster-preferred-endpoint-type', 'hostname')));
  const told = async (admin: (typeof admins)[number]) => JSON.stringify(await admin.cluster('SLOTS'));
  await eventually(async () =>
    (await Promise.all(admins.map(told))).every((slots) => nodes.every(({ port }) => slots.includes(hostOf(port)))),
  );
  return Object.fromEntries(nodes.map(({ port }) => [`${hostOf(port)}:${port}`, { host: '127.0.0.1', port }]));
}
