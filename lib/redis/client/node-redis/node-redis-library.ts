import { LockConfigurationError } from '../../../core/lock.errors.js';
import { type ClientLibrary, FORMS, type ServerPlace, hasMethod } from '../client-library.js';
import { loadNodeRedis } from '../optional-peers.cjs';
import { addressOf, optionsOf } from './given-options.js';
import { type Kind, NodeRedisClients } from './node-redis-clients.js';
import { type CreateClient, type NodeRedis } from './node-redis-types.js';

/** The methods of a client that the store uses. */
const CLIENT_METHODS = ['sendCommand', 'duplicate', 'connect', 'destroy', 'on', 'off'] as const;

/** node-redis 5 and 6. */
export const nodeRedisLibrary: ClientLibrary = {
  name: 'node-redis',
  isClient: (value): value is object => hasMethod(value, 'evalSha'),
  checkClient,
  isCluster: (client) => kindOf(client) === 'cluster',
  placeOf,
  // redis 4 has no sentinels.
  isInstalled: () => loadNodeRedis()?.createSentinel !== undefined,
  clientsOf: (parts) => new NodeRedisClients(parts, kindOf, loadModel),
};

let model: NodeRedis | undefined;

/**
 * A client that is never connected; those of our own connections are its duplicates. `createClient` builds a class with all commands of
 * Redis whenever its options change, which takes a process tens of milliseconds: too long for each try to connect.
 */
function loadModel(): NodeRedis {
  if (model) return model;
  const redis = loadNodeRedis();
  if (redis) return (model = (redis.createClient as unknown as CreateClient)({ maintNotifications: 'disabled' }));
  throw new LockConfigurationError('Expected the package `redis` to be installed. Install it: npm install redis.');
}

function kindOf(client: object): Kind {
  if (hasMethod(client, 'getRandomNode')) return 'cluster';
  return hasMethod(client, 'getSentinelNode') ? 'sentinels' : 'single';
}

function checkClient(client: object, name: string): void {
  if (hasMethod(client, 'execute')) {
    throw new LockConfigurationError(
      `Expected ${name} to be one client of node-redis, got a pool; pass what \`createClient\` returns.`,
    );
  }
  const missing = CLIENT_METHODS.filter((method) => !hasMethod(client, method));
  if (missing.length === 0) return;
  const got = `an object that looks like a client, but lacks ${missing.map((method) => `\`${method}()\``).join(', ')}`;
  throw new LockConfigurationError(
    `Expected ${name} to be ${FORMS}, got ${got}. Pass the client of node-redis itself, not a wrapper of some of its methods.`,
  );
}

function placeOf(client: object): ServerPlace {
  if (kindOf(client) === 'sentinels') {
    const { name, sentinelRootNodes } = optionsOf(client);
    return { name, sentinels: sentinelRootNodes.map((node) => addressOf(node, 26_379)) };
  }
  const { host, port, path } = (client as NodeRedis).options?.socket ?? {};
  return { host, port, path };
}
