import { LockConfigurationError } from '../../../core/lock.errors.js';
import { type ClientLibrary, FORMS, type ServerPlace, hasMethod } from '../client-library.js';
import { loadIoredis } from '../optional-peers.cjs';
import { IoredisClients } from './ioredis-clients.js';
import { type Ioredis } from './ioredis-options.js';

/** The methods of a client that the store uses. */
const CLIENT_METHODS = ['evalsha', 'eval', 'duplicate', 'connect', 'disconnect', 'on', 'once', 'off'] as const;

/** ioredis, and iovalkey, which is made from it and has the same classes. */
export const ioredisLibrary: ClientLibrary = {
  name: 'ioredis',

  // node-redis has `duplicate`, too, and names the command `evalSha`.
  isClient: (value): value is Ioredis =>
    hasMethod(value, 'evalsha') || (hasMethod(value, 'duplicate') && !hasMethod(value, 'evalSha')),

  checkClient,
  isCluster: (client) => (client as Ioredis).isCluster === true,
  placeOf: (client) => (client as { readonly options?: ServerPlace }).options ?? {},
  isInstalled: () => loadIoredis() !== null,
  clientsOf: (parts) => new IoredisClients(parts),
};

function checkClient(client: object, name: string): void {
  const missing = CLIENT_METHODS.filter((method) => !hasMethod(client, method));
  if (missing.length > 0) {
    const got = `an object that looks like a client, but lacks ${missing.map((method) => `\`${method}()\``).join(', ')}`;
    throw new LockConfigurationError(
      `Expected ${name} to be ${FORMS}, got ${got}. Pass the ioredis client itself, not a wrapper of some of its methods.`,
    );
  }
  if ((client as { mode?: string }).mode !== 'subscriber') return;
  throw new LockConfigurationError(
    `Expected ${name} to be a client that runs commands, got one in subscriber mode; give the module another client.`,
  );
}
