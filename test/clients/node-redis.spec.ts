import { createClient, createCluster } from 'redis';
import { nodeRedisLibrary } from '../../lib/redis/client/node-redis.js';
import { clientConformance } from './support/conformance.js';
import { type GivenClient } from './support/subject.js';

const ignore = (): void => undefined;

function give(url: string): GivenClient {
  const client = createClient({ url });
  client.on('error', ignore);
  client.connect().catch(ignore);
  // A socket that still waits for its host would live on.
  const end = (): void => {
    client.once('connect', () => client.destroy());
    client.destroy();
  };
  return { client, end };
}

clientConformance({
  name: 'node-redis',
  library: nodeRedisLibrary,
  give,
  giveCluster(port) {
    const client = createCluster({ rootNodes: [{ socket: { host: '127.0.0.1', port } }] });
    client.on('error', ignore);
    client.connect().catch(ignore);
    return { client, end: () => client.destroy() };
  },
});
