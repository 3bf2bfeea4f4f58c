import { type LockStore } from '../../../lib/core/store/lock-store.js';
import { LOCK_STORE } from '../../../lib/redis-lock.tokens.js';
import { type StartedRedis } from '../../../scripts/redis.mjs';
import { type StartedCluster } from '../../../scripts/topologies.mjs';
import { eventually } from '../../support/waiting/eventually.js';
import { expectWoken } from '../../support/waiting/waiters.js';
import { type LockApp, closeAll, openAdmin, startApp } from '../../support/apps/lock-app.js';
import { ownCluster } from '../../support/redis/own-topologies.js';

type Node = Pick<StartedRedis, 'port' | 'url'> & { readonly admin: ReturnType<typeof openAdmin> };

async function start() {
  const cluster = await ownCluster();
  const nodes = [...cluster.masters, ...cluster.replicas].map(({ port, url }) => ({
    port,
    url,
    admin: openAdmin(url),
  }));
  return { cluster, nodes };
}

/** To which of the nodes an app listens. */
async function nodeOf(nodes: readonly Node[], { app }: LockApp): Promise<Node | undefined> {
  const channel = `lock:wake:${app.get<LockStore>(LOCK_STORE).clientId}`;
  for (const node of nodes) {
    const channels = (await node.admin.pubsub('CHANNELS', '*').catch(() => [])) as string[];
    if (channels.includes(channel)) return node;
  }
  return undefined;
}

/** An app that listens to a replica: each one takes any node. */
async function appOnReplica({ connection, replicas }: StartedCluster, nodes: readonly Node[]) {
  for (;;) {
    const app = await startApp({ connection: { ...connection, slotsRefreshInterval: 200 } });
    const node = await eventually(() => nodeOf(nodes, app));
    const replica = replicas.find(({ port }) => port === node.port);
    if (replica) return { app, node, replica };
  }
}

describe('the subscriber of a cluster', () => {
  afterEach(closeAll);

  it('moves to another node when its node dies', async () => {
    const { cluster, nodes } = await start();
    const { app, node, replica } = await appOnReplica(cluster, nodes);
    const holder = await startApp({ connection: cluster.connection });
    await expectWoken(holder, app);
    await replica.kill();
    const others = nodes.filter((other) => other !== node);
    await eventually(() => nodeOf(others, app));
    await expectWoken(holder, app);
  });

  it('moves to another node when its node leaves the cluster and stays up', async () => {
    const { cluster, nodes } = await start();
    const { app, node } = await appOnReplica(cluster, nodes);
    const holder = await startApp({ connection: cluster.connection });
    const id = await node.admin.cluster('MYID');
    const others = nodes.filter((other) => other !== node);
    await node.admin.call('CLUSTER', 'RESET', 'HARD');
    for (const { admin } of others) await admin.call('CLUSTER', 'FORGET', id);
    await eventually(() => nodeOf(others, app));
    await expectWoken(holder, app);
  });
});
