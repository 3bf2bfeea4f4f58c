import { LockConfigurationError } from '../../../core/lock.errors.js';
import { type ClientLibrary, FORMS, type ServerPlace, hasMethod } from '../client-library.js';
import { loadNodeRedis } from '../optional-peers.cjs';
import { NodeRedisClients } from './node-redis-clients.js';
import { type CreateClient, type NodeRedis } from './node-redis-types.js';

/** The methods of a client that the store uses. */
const CLIENT_METHODS = ['sendCommand', 'duplicate', 'connect', 'destroy', 'on', 'off'] as const;

/** node-redis 5 and 6. */
export const nodeRedisLibrary: ClientLibrary = {
  name: 'node-redis',
  isClient: (value): value is object => hasMethod(value, 'evalSha'),
  checkClient,
  isCluster: (client) => hasMethod(client, 'getRandomNode'),
  placeOf: (client) => placeOf(client as NodeRedis),
  isInstalled: () => loadNodeRedis() !== null,
  clientsOf: (parts) => new NodeRedisClients(parts, createClient),
};

function createClient(): CreateClient {
  const redis = loadNodeRedis();
  if (redis) return redis.createClient as unknown as CreateClient;
  throw new LockConfigurationError('Expected the package `redis` to be installed. Install it: npm install redis.');
}

function checkClient(client: object, name: string): void {
  if (hasMethod(client, 'execute')) {
    throw new LockConfigurationError(
      `Expected ${name} to be one client of node-redis, got a pool; pass what \`createClient\` returns.`,
    );
  }
  const missing = CLIENT_METHODS.filter((method) => !hasMethod(client, method));
  if (missing.length > 0) {
    const got = `an object that looks like a client, but lacks ${missing.map((method) => `\`${method}()\``).join(', ')}`;
    throw new LockConfigurationError(
      `Expected ${name} to be ${FORMS}, got ${got}. Pass the client of node-redis itself, not a wrapper of some of its methods.`,
    );
  }
  const { isPubSubActive, options } = client as NodeRedis;
  if (!isPubSubActive || options?.RESP !== 2) return;
  throw new LockConfigurationError(
    `Expected ${name} to be a client that runs commands, got one in subscriber mode; give the module another client.`,
  );
}

function placeOf({ options }: NodeRedis): ServerPlace {
  const { host, port, path } = options?.socket ?? {};
  return { host, port, path };
}
