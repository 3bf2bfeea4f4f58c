import { type ClusterOptions, type Redis } from 'ioredis';
import { type RedisConnection } from '../../../lib/index.js';
import { eventually } from '../waiting/eventually.js';
import { givenCluster } from './connections.js';
import { ownRedis } from './own-redis.js';

/** Starts a cluster of one node. The default bus port is 10,000 higher than the port, which may not exist. */
export async function startClusterNode(): Promise<{ admin: Redis; port: number; stop(): Promise<void> }> {
  for (let launch = 1; ; launch++) {
    const busPort = 20_000 + Math.floor(Math.random() * 10_000);
    try {
      // A node that has not met another one does not know its own address.
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

/** A client of the cluster with a node on that port. */
export const openCluster = (port: number, options: ClusterOptions = {}): RedisConnection =>
  givenCluster([{ host: '127.0.0.1', port }], options);
