import { LockConfigurationError } from '../../../core/lock.errors.js';
import { type ClientParts, type Clients } from '../client-library.js';
import { readPlainOptions } from '../plain-options.js';
import { type RedisClient } from '../redis-client.js';
import { type RedisAddress } from '../redis-connection.js';
import { addressText } from '../server-address.js';
import { GivenConnection } from './given-connection.js';
import { connectTimeoutOf, optionsFrom, ownOptions } from './node-redis-options.js';
import { type CreateClient, type NodeRedis } from './node-redis-types.js';
import { OwnConnection } from './own-connection.js';

/** The clients of one store, behind which node-redis works. */
export class NodeRedisClients implements Clients {
  readonly #clients = new WeakMap<object, RedisClient>();

  constructor(
    private readonly parts: ClientParts,
    private readonly createClient: () => CreateClient,
  ) {}

  of(client: object): RedisClient {
    let known = this.#clients.get(client);
    if (!known) {
      known = new GivenConnection(client as NodeRedis, this.parts);
      this.#clients.set(client, known);
    }
    return known;
  }

  open(connection: RedisAddress): RedisClient {
    const plain = readPlainOptions(connection, 'node-redis');
    const { at } = plain;
    const options = optionsFrom(plain);
    if ('nodes' in at || 'sentinels' in at) throw new LockConfigurationError('Not yet.');
    const createClient = this.createClient();
    const make = (cut: AbortSignal): NodeRedis => createClient(ownOptions(options, at, cut));
    const isSocket = 'path' in at;
    const plan = {
      address: isSocket ? at.path : addressText(at),
      database: plain.db,
      keyPrefix: '',
      endsForGood: false,
      connectTimeout: connectTimeoutOf(options),
      target: { make, peer: isSocket ? null : at },
    };
    return new OwnConnection(plan, this.parts);
  }
}
