import { Cluster, type ClusterOptions, type Redis } from 'ioredis';
import { eventually } from '../waiting/eventually.js';
import { ownRedis } from './own-redis.js';
import { closeLater } from '../apps/lock-app.js';

/** A cluster of one node. The port of the cluster bus is 10,000 higher by default, which may be none. */
export async function startClusterNode(): Promise<{ admin: Redis; port: number; stop(): Promise<void> }> {
  for (let launch = 1; ; launch++) {
    const busPort = 20_000 + Math.floor(Math.random() * 10_000);
    try {
      // A node that has met no other knows no address of its own.
      const announced = ['--cluster-announce-ip', '127.0.0.1', '--cluster-port', String(busPort)];
      const server = await ownRedis(['--cluster-enabled', 'yes', ...announced]);
      const { admin, port } = server;
      await admin.call('CLUSTER', 'ADDSLOTSRANGE', 0, 16_383);
      await eventually(async () => String(await admin.call('CLUSTER', 'INFO')).includes('cluster_state:ok'));
      return { admin, port, stop: () => server.stop() };
    } catch (error) {
      if (launch === 5) throw error;
    }
  }
}

/** A client of the cluster that has a node there. */
export function openCluster(port: number, options: ClusterOptions = {}): Cluster {
  const client = new Cluster([{ host: '127.0.0.1', port }], options);
  client.on('error', () => undefined);
  closeLater({ close: async () => client.disconnect() });
  return client;
}
