import { MemoryLockStore } from '../../../../lib/testing/index.js';
import { type BadStore, lockOf, misread } from './bad-stores.js';

/** Stores that are bad at semaphores whose requests take several permits, and whose permits an operator sets. */
export const BAD_SEMAPHORES: readonly BadStore[] = [
  {
    name: 'each request takes one permit',
    store: misread(() => ({ take: 1 })),
    noticedBy: 'a request takes as many permits as it says, all of them or none, until its hold ends',
  },
  {
    name: 'those who need few permits overtake those who need many',
    store: misread(() => ({ fair: false })),
    noticedBy: 'a waiter for many permits is not overtaken by those who need few',
  },
  {
    name: 'the permits of an operator do not count',
    store: class extends MemoryLockStore {
      override async setPermits(): Promise<void> {}
    },
    noticedBy: 'the permits of an operator count for all requests, until there are none of them any more',
  },
  {
    name: 'the permits of an operator stay for ever',
    store: class extends MemoryLockStore {
      override async setPermits(key: string, permits: number | null): Promise<void> {
        if (permits !== null) await super.setPermits(key, permits);
      }
    },
    noticedBy: 'the permits of an operator count for all requests, until there are none of them any more',
  },
  {
    name: 'a request that takes too many permits waits',
    store: class extends MemoryLockStore {
      override async setPermits(key: string, permits: number | null): Promise<void> {
        await super.setPermits(key, permits === null ? null : Math.max(permits, 5));
      }
    },
    noticedBy: 'a request that takes more permits than an operator has set is refused, also when it waits',
  },
  {
    name: 'permits are only lowered',
    store: class extends MemoryLockStore {
      override async setPermits(key: string, permits: number | null): Promise<void> {
        const { permits: before = Infinity } = lockOf(this, key);
        if (permits !== null && permits < before) await super.setPermits(key, permits);
      }
    },
    noticedBy: 'more permits let in those who wait',
  },
  {
    name: 'nobody knows how many permits there are',
    store: class extends MemoryLockStore {
      override async inspect(key: string) {
        return { ...(await super.inspect(key)), permits: null };
      }
    },
    noticedBy: 'the state of a semaphore tells how many permits are used and free',
  },
];
