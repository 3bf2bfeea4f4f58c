import type { LockStoreContext, LockStoreFactory } from '../../lib/core/store/given-store.js';
import type { LockStore } from '../../lib/core/store/lock-store.js';
import type { RedisLockModuleOptions } from '../../lib/redis-lock.options.js';

/** What the module must accept and refuse as its store. */
declare function place(options: RedisLockModuleOptions): void;

declare class MyStore implements LockStore {
  constructor(options?: Partial<LockStoreContext>);
  readonly clientId: string;
  readonly listen: LockStore['listen'];
  readonly acquire: LockStore['acquire'];
  readonly renew: LockStore['renew'];
  readonly release: LockStore['release'];
  readonly close: LockStore['close'];
}

export function accepted(url: string | undefined, factory: LockStoreFactory): void {
  place({ connection: 'memory' });
  place({ connection: url ?? 'memory', memoryInProduction: true });
  place({ store: new MyStore() });
  place({ store: () => new MyStore(), keyPrefix: 'jobs:' });
  place({ store: ({ keyPrefix, keepMs, clock }) => new MyStore({ keyPrefix, keepMs: keepMs + clock.now() }) });
  place({ store: factory });
}

export function refused(): void {
  // @ts-expect-error A class makes no store by itself.
  place({ store: MyStore });
  // @ts-expect-error A promise is awaited first, in forRootAsync.
  place({ store: async () => new MyStore() });
  // @ts-expect-error It lacks the other methods.
  place({ store: { clientId: 'a', open: () => undefined } });
  // @ts-expect-error
  place({ store: 'memory' });
  // @ts-expect-error
  place({ connection: 'memory', memoryInProduction: 'yes' });
}
