import { Socket } from 'node:net';
import { type Redis } from 'ioredis';
import { systemClock } from '../../../lib/core/clock.js';
import { systemRandomness } from '../../../lib/core/randomness.js';
import { type ClientLibrary } from '../../../lib/redis/client/client-library.js';
import { type ClusterClient } from '../../../lib/redis/client/cluster.js';
import { type ClientEvents, type SingleClient } from '../../../lib/redis/client/redis-client.js';
import { type RedisAddress } from '../../../lib/redis/client/redis-connection.js';
import { closeLater } from '../../support/apps/lock-app.js';
import { FakeReporter } from '../../support/core/fake-store.js';
import { eventually } from '../../support/waiting/eventually.js';

/** A client that an application made. */
export interface GivenClient {
  readonly client: object;
  /** Ends it at once; it does not reconnect. */
  end(): void;
}

/** The number of writes of this process to a socket until `work` has ended. */
export async function writesDuring(work: () => Promise<unknown>): Promise<number> {
  const { prototype } = Socket as unknown as { readonly prototype: Required<Pick<Socket, '_write' | '_writev'>> };
  const spies = [jest.spyOn(prototype, '_write'), jest.spyOn(prototype, '_writev')];
  try {
    await work();
    return spies.reduce((sum, { mock }) => sum + mock.calls.length, 0);
  } finally {
    for (const spy of spies) spy.mockRestore();
  }
}

/** A library that must keep the promises of the port. */
export interface Subject {
  readonly name: string;
  readonly library: ClientLibrary;
  /** Opens a client as an application does: with the defaults of the library, and connected as soon as the server is. */
  give(url: string): GivenClient;
  giveCluster(port: number): GivenClient;
}

/** The clients of one store. */
export class SubjectClients {
  readonly #parts = { clock: systemClock, random: systemRandomness, reporter: new FakeReporter() };

  constructor(private readonly subject: Subject) {}

  /** Opens our own connection, which the test has to connect. */
  open(address: Exclude<RedisAddress, { cluster: unknown }>): SingleClient {
    return closeLater(this.subject.library.open(address, this.#parts)) as SingleClient;
  }

  openCluster(port: number, natMap?: Record<string, { host: string; port: number }>): ClusterClient {
    const connection = { cluster: [{ host: '127.0.0.1', port }], natMap };
    return closeLater(this.subject.library.open(connection, this.#parts)) as ClusterClient;
  }

  /** Opens our own connection, and waits until it is ready. */
  async connected(address: Exclude<RedisAddress, { cluster: unknown }>): Promise<SingleClient> {
    const client = this.open(address);
    await client.connect();
    await untilReady(client);
    return client;
  }

  async connectedCluster(port: number): Promise<ClusterClient> {
    const client = this.openCluster(port);
    await client.connect();
    await untilReady(client);
    // A cluster sends nothing to a node that is not ready yet: its caller waits for that.
    await eventually(() => client.nodes('master').every(({ isWritable }) => isWritable));
    return client;
  }

  /** A duplicate of a client that an application has. */
  given(url: string): Promise<SingleClient> {
    return this.#copyOf(this.subject.give(url));
  }

  /** Our own connection, or a duplicate of a client of the application. */
  one(whose: string, url: string): Promise<SingleClient> {
    return whose === 'our own' ? this.connected(url) : this.given(url);
  }

  oneCluster(whose: string, port: number): Promise<ClusterClient> {
    return whose === 'our own' ? this.connectedCluster(port) : this.#copyOf(this.subject.giveCluster(port));
  }

  async #copyOf<T extends SingleClient | ClusterClient>(app: GivenClient): Promise<T> {
    closeLater({ close: async () => app.end() });
    const client = closeLater(this.subject.library.copyOf(app.client, this.#parts)) as T;
    await client.connect();
    await untilReady(client);
    return client;
  }
}

export const untilReady = (client: SingleClient | ClusterClient): Promise<unknown> =>
  eventually(() => client.isWritable && client.status === 'ready', { message: 'The client was not ready' });

/** What a client reports from now on, in order. */
export function recordOf(client: SingleClient | ClusterClient): (keyof ClientEvents)[] {
  const record: (keyof ClientEvents)[] = [];
  for (const event of ['connecting', 'connected', 'ready', 'closed', 'ended'] as const) {
    client.on(event, () => record.push(event));
  }
  return record;
}

/** The number of connections of a server, without that of the test. */
export async function connectionsBesides(admin: Redis): Promise<number> {
  const lines = String(await admin.call('CLIENT', 'LIST'))
    .trim()
    .split('\n');
  return lines.length - 1;
}
