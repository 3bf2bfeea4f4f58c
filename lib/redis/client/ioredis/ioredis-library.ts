import { LockConfigurationError } from '../../../core/lock.errors.js';
import { type ClientLibrary, FORMS, type ServerPlace, hasMethod } from '../client-library.js';
import { loadIoredis, loadIovalkey } from '../optional-peers.cjs';
import { IoredisClients } from './ioredis-clients.js';
import { type Ioredis } from './ioredis-options.js';

/** The methods of a client that the store uses. */
const CLIENT_METHODS = ['evalsha', 'eval', 'duplicate', 'connect', 'disconnect', 'on', 'once', 'off'] as const;

/** A library with the classes of ioredis. Each takes the clients of the other: it uses what the client itself has. */
const libraryLike = (name: string, load: typeof loadIoredis): ClientLibrary => ({
  name,

  // node-redis has `duplicate`, too, and names the command `evalSha`.
  isClient: (value): value is Ioredis =>
    hasMethod(value, 'evalsha') || (hasMethod(value, 'duplicate') && !hasMethod(value, 'evalSha')),

  checkClient,
  isCluster: (client) => (client as { readonly isCluster?: boolean }).isCluster === true,
  placeOf: (client) => (client as { readonly options?: ServerPlace }).options ?? {},
  // ioredis 4 exports the class alone.
  isInstalled: () => load()?.Redis !== undefined,
  clientsOf: (parts) => new IoredisClients(parts, load),
});

export const ioredisLibrary = libraryLike('ioredis', loadIoredis);
export const iovalkeyLibrary = libraryLike('iovalkey', loadIovalkey);

function checkClient(client: object, name: string): void {
  const missing = CLIENT_METHODS.filter((method) => !hasMethod(client, method));
  if (missing.length === 0) return;
  const got = `an object that looks like a client, but lacks ${missing.map((method) => `\`${method}()\``).join(', ')}`;
  throw new LockConfigurationError(
    `Expected ${name} to be ${FORMS}, got ${got}. Pass the ioredis client itself, not a wrapper of some of its methods.`,
  );
}
