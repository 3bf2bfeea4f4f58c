import { type StartedCluster } from '../../../scripts/topologies.mjs';
import { type LockApp, closeAll, closeLater, freshKey, openAdmin, startApp } from '../../support/apps/lock-app.js';
import { createCluster } from 'redis';
import { LIBRARY, itLikeIoredis } from '../../support/clients/library.js';
import { openCluster, startClusterNode } from '../../support/redis/cluster-node.js';
import { givenIoredisCluster } from '../../support/redis/connections.js';
import { eventually } from '../../support/waiting/eventually.js';
import { untilWaiting } from '../../support/waiting/waiters.js';
import { ownCluster } from '../../support/redis/own-topologies.js';

/** A client whose application reads from replicas. */
async function readingFromReplicas({ connection }: StartedCluster) {
  if (LIBRARY !== 'node-redis') return givenIoredisCluster(connection.cluster, { scaleReads: 'slave' });
  const rootNodes = connection.cluster.map((socket) => ({ socket }));
  const client = createCluster({ rootNodes, useReplicas: true });
  client.on('error', () => undefined);
  closeLater({ close: async () => client.destroy() });
  return client.connect();
}

/** `a` sees at once what `b` does to a lock, and is granted it next. */
async function takeTurns(a: LockApp, b: LockApp): Promise<void> {
  const key = freshKey();
  const held = await b.locks.acquire(key);
  expect(await a.locks.isLocked(key)).toBe(true);
  expect(await a.locks.tryAcquire(key)).toBeNull();
  const waiting = a.locks.acquire(key, { waitMs: 20_000 });
  await untilWaiting(a, key);
  await held.release();
  const next = await waiting;
  expect(next.fencingToken).toBeGreaterThan(held.fencingToken);
  await next.release();
  expect(await a.locks.isLocked(key)).toBe(false);
}

describe('a cluster client of the application', () => {
  afterEach(closeAll);

  it('that reads from replicas reads the state of a lock from its master', async () => {
    const cluster = await ownCluster();
    const client = await readingFromReplicas(cluster);
    const [a, b] = [await startApp({ connection: client }), await startApp({ connection: cluster.connection })];
    for (let i = 0; i < 6; i += 1) await takeTurns(a, b);
    const replicas = cluster.replicas.map(({ url }) => openAdmin(url));
    const ran = async (command: string) => {
      const infos = await Promise.all(replicas.map((replica) => replica.info('commandstats')));
      return infos.some((info) => info.includes(`cmdstat_${command}:calls=`));
    };
    expect([await ran('evalsha'), await ran('eval')]).toEqual([false, false]);
    // What the application reads comes from them.
    await eventually(async () => {
      await client.get(freshKey());
      return ran('get');
    });
  });

  it('that connects lazily hears messages', async () => {
    const { admin, port } = await startClusterNode();
    const { locks } = await startApp({ connection: openCluster(port, { lazyConnect: true }) });
    await locks.withLock(freshKey(), () => undefined);
    await eventually(async () => ((await admin.pubsub('CHANNELS', '*')) as string[]).length === 1);
  });

  itLikeIoredis('that sends commands in pipelines serves locks on all masters at once', async () => {
    const cluster = await ownCluster({ replicas: 0 });
    const connection = givenIoredisCluster(cluster.connection.cluster, { enableAutoPipelining: true });
    const [a, b] = [await startApp({ connection }), await startApp({ connection: cluster.connection })];
    await Promise.all(Array.from({ length: 12 }, () => takeTurns(a, b)));
  });
});
