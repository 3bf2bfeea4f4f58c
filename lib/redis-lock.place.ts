import { LockConfigurationError } from './core/lock.errors.js';
import { type Reporter } from './core/reporter.js';
import { checkStore } from './core/store/given-store.js';
import { checkConnection } from './redis/client/check-connection.js';

/** The `connection` of locks in the memory of the process. */
export const MEMORY = 'memory';

/** The Redis of a module without a `connection`. */
const LOCAL = 'redis://127.0.0.1:6379';

/**
 * The connection of a module without a `connection`: a Redis on this machine, except in production, where each machine would have its own.
 * @throws LockConfigurationError
 */
export function localConnection(reporter: Reporter): string {
  if (process.env['NODE_ENV'] === 'production') {
    throw new LockConfigurationError(
      `Expected \`connection\` to be set where NODE_ENV is \`production\`, got none (is its environment variable set?). ` +
        `Write it, even if it is '${LOCAL}'.`,
    );
  }
  reporter.warn(`Locks on ${LOCAL.slice('redis://'.length)}, because no connection was given.`);
  return LOCAL;
}

const OF_REDIS = ['minReplicas', 'replicaTimeoutMs', 'durable', 'hashTag'] as const;

/** The options that a module passes to the factory of its store. */
const OF_FACTORY = ['keyPrefix', 'keepMs'] as const;

/** The options of the module that this concerns, unchecked. */
type PlaceOptions = {
  readonly [
    option in 'connection' | 'store' | 'memoryInProduction' | (typeof OF_REDIS)[number] | (typeof OF_FACTORY)[number]
  ]?: unknown;
};

/**
 * Checks the options that name the place of the locks, and whether the others apply there. Options that are left out are
 * undefined.
 */
export function checkPlace(options: PlaceOptions): void {
  const { connection, store } = options;
  if (store !== undefined) checkGiven(options);
  else if (connection === MEMORY) checkMemory(options);
  else if (connection !== undefined) checkConnection(connection);
}

function checkGiven(options: PlaceOptions): void {
  const { connection, store } = options;
  if (connection !== undefined) {
    throw new LockConfigurationError(
      'Expected either `store` or `connection`, got both: a module keeps its locks in one place. Leave one of them out.',
    );
  }
  refuseAny(options, OF_REDIS, 'your own `store`, which has its own options');
  if (typeof store === 'function') return;
  checkStore(store);
  refuseAny(options, OF_FACTORY, 'an existing `store`: pass a factory, which receives it');
}

function checkMemory(options: PlaceOptions): void {
  refuseAny(options, OF_REDIS, "`connection: 'memory'`");
  if (options.memoryInProduction || process.env['NODE_ENV'] !== 'production') return;
  throw new LockConfigurationError(
    "Expected `connection` to lead to a Redis where NODE_ENV is `production`, got 'memory': other processes do not see locks in " +
      'the memory of this one. If the app will only ever run as one process, set `memoryInProduction: true`.',
  );
}

function refuseAny(options: PlaceOptions, names: readonly (keyof PlaceOptions)[], at: string): void {
  const given = names.find((name) => options[name] !== undefined);
  if (given === undefined) return;
  throw new LockConfigurationError(`Expected \`${given}\` to be left out, because it has no effect with ${at}.`);
}
