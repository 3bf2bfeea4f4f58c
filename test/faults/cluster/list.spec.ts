import { type Lock, LockStoreError } from '../../../lib/index.js';
import { type StartedCluster } from '../../../scripts/topologies.mjs';
import { keyOn } from '../../support/redis/cluster-slots.js';
import { startClusterNode } from '../../support/redis/cluster-node.js';
import { eventually } from '../../support/waiting/eventually.js';
import { proxyTo } from '../../support/redis/own-redis.js';
import { keysOf } from '../../support/apps/listed.js';
import { type LockApp, closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { rejection } from '../../support/waiting/rejection.js';
import { ownCluster } from '../../support/redis/own-topologies.js';

/** Stops a node, and has `app` hold a lock on each of the masters, one of which was a replica. */
async function hang(cluster: StartedCluster, app: LockApp, during: (keys: string[]) => Promise<void>): Promise<void> {
  const keys = [0, 1, 2].map(keyOn).toSorted();
  for (const key of keys) await app.locks.withLock(key, () => undefined);
  const { pid } = cluster.masters[1]!;
  process.kill(pid, 'SIGSTOP');
  try {
    const acquire = (key: string) => app.locks.acquire(key, { waitMs: 4_000, leaseMs: 60_000 });
    const held: Lock[] = [];
    for (const key of keys) held.push(await eventually(() => acquire(key), { timeoutMs: 60_000 }));
    await during(keys);
    for (const lock of held) await lock.release();
  } finally {
    process.kill(pid, 'SIGCONT');
  }
}

describe('list', () => {
  afterEach(closeAll);

  it('includes the locks that a replica serves in place of a hanging node', async () => {
    const cluster = await ownCluster({ replicas: 1 });
    const app = await startApp({ connection: cluster.connection });
    await hang(cluster, app, async (keys) => expect(await keysOf(app)).toEqual(keys));
  }, 120_000);

  it('notices by itself that a node hangs, and asks its replica', async () => {
    const cluster = await ownCluster({ replicas: 1 });
    const app = await startApp({ connection: cluster.connection });
    const other = await startApp({ connection: cluster.connection });
    expect(await keysOf(app)).toEqual([]);
    // Whether the first call knows in time that the node is silent is a matter of a millisecond.
    const list = () => keysOf(app).catch(() => keysOf(app));
    await hang(cluster, other, async (keys) => expect(await list()).toEqual(keys));
  }, 120_000);

  it('waits for all nodes when it is the first command', async () => {
    const cluster = await ownCluster({ replicas: 0 });
    const holder = await startApp({ connection: cluster.connection });
    const keys = [0, 1, 2].map(keyOn);
    const held = await Promise.all(keys.map((key) => holder.locks.acquire(key)));
    const seed = await proxyTo(cluster.masters[0]!.url);
    seed.delayMs = 50;
    const app = await startApp({ connection: { cluster: [{ host: '127.0.0.1', port: seed.port }] } });
    expect(await keysOf(app)).toEqual(keys.toSorted());
    await Promise.all(held.map((lock) => lock.release()));
  });

  it('rejects when no node can be reached, rather than end without locks', async () => {
    const node = await startClusterNode();
    const app = await startApp({ connection: { cluster: [{ host: '127.0.0.1', port: node.port }] } });
    const held = await app.locks.acquire(freshKey());
    await node.stop();
    expect(await rejection(keysOf(app))).toBeInstanceOf(LockStoreError);
    await held.release().catch(() => undefined);
  });
});
