import { type Cluster, type Redis } from 'ioredis';
import { type ClientLibrary } from '../../../lib/redis/client/client-library.js';
import { type GivenClient, type Subject } from './subject.js';

/** The classes of ioredis, or of what was made from it. */
interface Classes {
  readonly Redis: new (url: string, options?: object) => object;
  readonly Cluster: new (nodes: { host: string; port: number }[], options?: object) => object;
}

const ignore = (): void => undefined;

/** The two seconds of ioredis would keep the process alive after the tests when the server is gone. */
const SOON_CLOSED = { disconnectTimeout: 100 };

function given(made: object): GivenClient {
  const client = made as Redis;
  client.on('error', ignore);
  return { client, end: () => client.disconnect() };
}

/** A library with the classes of ioredis. */
export const likeIoredis = (name: string, library: ClientLibrary, { Redis, Cluster }: Classes): Subject => ({
  name,
  library,
  give: (url) => given(new Redis(url, SOON_CLOSED)),
  giveCluster(port) {
    const client = new Cluster([{ host: '127.0.0.1', port }], { redisOptions: SOON_CLOSED }) as Cluster;
    client.on('error', ignore);
    return { client, end: () => client.disconnect() };
  },
});
