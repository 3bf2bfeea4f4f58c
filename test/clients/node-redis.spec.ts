import { createClient } from 'redis';
import { nodeRedisLibrary } from '../../lib/redis/client/node-redis/node-redis-library.js';
import { commandConformance } from './support/commands.js';
import { connectionConformance } from './support/connections.js';
import { faultConformance } from './support/faults.js';
import { type GivenClient, type Subject } from './support/subject.js';

const ignore = (): void => undefined;

function give(url: string, keyPrefix?: string): GivenClient {
  const client = createClient({ url, ...(keyPrefix && { keyPrefix }) });
  client.on('error', ignore);
  client.connect().catch(ignore);
  // A socket that still waits for its host would live on.
  const end = (): void => {
    client.once('connect', () => client.destroy());
    client.destroy();
  };
  return { client, end };
}

const subject: Subject = {
  name: 'node-redis',
  library: nodeRedisLibrary,
  isSilentAboutSelect: true,
  give,
  giveWithPrefix: give,
  giveCluster: () => ({ client: {}, end: ignore }),
};

describe('node-redis', () => {
  connectionConformance(subject);
  commandConformance(subject);
  faultConformance(subject);
});
