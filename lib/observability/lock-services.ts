import { EventListeners } from '../core/event-listeners.js';
import { type LockEvents } from '../core/lock.events.js';
import { type ModuleRef, type ModulesContainer } from '@nestjs/core';
import { LockConfigurationError } from '../core/lock.errors.js';
import type { RedisLockService } from '../redis-lock.service.js';
import { getLockServiceToken } from '../redis-lock.tokens.js';

/** Returns the lock service of a connection, from anywhere in the app. */
export function findLockService(moduleRef: ModuleRef, connection: string | undefined, where: string): RedisLockService {
  try {
    return moduleRef.get<RedisLockService>(getLockServiceToken(connection), { strict: false });
  } catch (cause) {
    const which = connection === undefined ? 'the default connection' : `the connection "${connection}"`;
    const options = connection === undefined ? '' : `{ name: '${connection}' }`;
    const advice = `Import RedisLockModule.forRoot(${options}), or name the connections of the app.`;
    throw new LockConfigurationError(`${where} found no lock service of ${which}. ${advice}`, { cause });
  }
}

const NAME = 'RedisLockService';

/** Returns the lock services of all connections of an app, each once. */
export function lockServicesIn(modules: ModulesContainer): Set<RedisLockService> {
  const services = new Set<RedisLockService>();
  for (const { providers } of modules.values()) {
    for (const [token, { instance }] of providers) {
      // Other providers may have no `connection` to read.
      if (typeof token !== 'symbol' || !token.description?.startsWith(NAME) || !instance) continue;
      const locks = instance as RedisLockService;
      if (token === getLockServiceToken(locks.connection)) services.add(locks);
    }
  }
  return services;
}

const MINUTE_MS = 60_000;

export class RecentLosses {
  readonly #times: number[] = [];
  readonly #listeners: EventListeners;

  /** `now`: a monotonic clock in milliseconds. */
  constructor(
    events: LockEvents,
    private readonly now: () => number = () => performance.now(),
  ) {
    this.#listeners = new EventListeners(events).on('lost', () => {
      this.#forget();
      this.#times.push(this.now());
    });
  }

  get count(): number {
    this.#forget();
    return this.#times.length;
  }

  stop(): void {
    this.#listeners.stop();
  }

  #forget(): void {
    const from = this.now() - MINUTE_MS;
    while (this.#times.length > 0 && this.#times[0]! <= from) this.#times.shift();
  }
}
