import { type WakeUpListener } from '../../../../lib/core/store/lock-store.js';
import { MemoryQueue } from '../../../../lib/testing/memory/memory-queue.js';
import { MemoryLockStore } from '../../../../lib/testing/index.js';
import { type BadStore, badAcquire, badListener, lockOf, misread, mistold } from './bad-stores.js';

const listeners = new Set<WakeUpListener>();

/** Stores that are bad at waiting, at messages, and at several keys. */
export const BAD_WAITING: readonly BadStore[] = [
  {
    name: 'nobody queues',
    store: misread(() => ({ waiterLeaseMs: 0 })),
    noticedBy: 'an acquire that finds the lock busy takes a place in the queue, and tells how many are ahead',
  },
  {
    name: 'everybody queues',
    store: misread(({ waiterLeaseMs }) => ({ waiterLeaseMs: Math.max(waiterLeaseMs, 1_000) })),
    noticedBy: 'who asks with a waiter lease of 0 takes no place',
  },
  {
    name: 'the last waiter is served first',
    store: class extends MemoryLockStore {
      override release(request: Parameters<MemoryLockStore['release']>[0]) {
        const lock = lockOf(this, request.key);
        const waiters = lock.queue.waiters.toReversed();
        lock.queue = new MemoryQueue();
        lock.queue.setTime(lock.now);
        for (const waiter of waiters) lock.queue.join(waiter);
        return super.release(request);
      }
    },
    noticedBy: 'waiters are served first in, first out, however often they ask',
  },
  {
    name: 'who asks again goes to the end of the queue',
    store: class extends MemoryLockStore {
      override acquire(request: Parameters<MemoryLockStore['acquire']>[0]) {
        lockOf(this, request.keys[0]!).queue.leave(request.attempt);
        return super.acquire(request);
      }
    },
    noticedBy: 'waiters are served first in, first out, however often they ask',
  },
  {
    name: 'readers do not care about a waiting writer',
    store: misread(({ mode, fair }) => ({ fair: fair && mode === 'write' })),
    noticedBy: 'a waiting writer holds back readers that come later',
  },
  {
    name: 'who is not fair has to wait for its turn',
    store: misread(() => ({ fair: true })),
    noticedBy: 'who does not ask for its turn is not held back by those who wait',
  },
  {
    name: 'dead waiters keep their places',
    store: misread(({ waiterLeaseMs }) => ({ waiterLeaseMs: waiterLeaseMs * 1_000 })),
    noticedBy: 'a waiter that asks no more holds others back for its waiter lease, and no longer',
  },
  {
    name: 'who gives up waiting keeps its place',
    store: class extends MemoryLockStore {
      override async release(request: Parameters<MemoryLockStore['release']>[0]) {
        if (!lockOf(this, request.key).queue.of(request.attempt)) return super.release(request);
        return { outcome: 'cancelled', holds: 1, lastToken: 1 } as const;
      }
    },
    noticedBy: 'who gives up waiting lets those behind it pass',
  },
  {
    name: 'a release hands nothing over',
    store: class extends MemoryLockStore {
      override release(request: Parameters<MemoryLockStore['release']>[0]) {
        lockOf(this, request.key).queue = new MemoryQueue();
        return super.release(request);
      }
    },
    noticedBy: 'a release tells a waiter, who has the lock then, or when it asks',
  },
  {
    name: 'a pushed grant tells a wrong token',
    store: badListener((listener) => ({
      ...listener,
      onWakeUp: (attempt, wakeUp) =>
        listener.onWakeUp(
          attempt,
          wakeUp.kind === 'granted' ? { ...wakeUp, fencingToken: wakeUp.fencingToken + 1 } : wakeUp,
        ),
    })),
    noticedBy: 'a pushed grant is a hold: its token renews it to the full lease, and releases it',
  },
  {
    name: 'everybody hears everything',
    store: class extends MemoryLockStore {
      override listen(listener: WakeUpListener): void {
        listeners.add(listener);
        const onWakeUp: WakeUpListener['onWakeUp'] = (attempt, wakeUp) => {
          for (const one of listeners) one.onWakeUp(attempt, wakeUp);
        };
        super.listen({ ...listener, onWakeUp });
      }
    },
    noticedBy: 'only the client of an attempt hears of it',
  },
  {
    name: 'nobody is told that it listens',
    store: badListener((listener) => ({ ...listener, onListening: () => undefined })),
    noticedBy: 'a client hears nothing before it listens, and `open` may be repeated',
  },
  {
    name: 'the first of several keys is held while the second is waited for',
    store: badAcquire(async (ask, request) => {
      const reply = await ask(request);
      const [first] = request.keys;
      if (reply.outcome === 'busy' && request.keys.length > 1) await ask({ ...request, keys: [first!] });
      return reply;
    }),
    noticedBy: 'who waits for several keys holds none of them, and gets them when all are free',
  },
  {
    name: 'the tokens of several keys are in another order',
    store: mistold(({ fencingTokens }) => ({ fencingTokens: fencingTokens.toReversed() })),
    noticedBy: 'the fencing tokens of several keys are in the order of the keys',
  },
  {
    name: 'keys are acquired in the order in which they are named',
    store: class extends MemoryLockStore {
      override groups(keys: readonly string[]) {
        return [keys];
      }
    },
    noticedBy: 'the groups of some keys, and the keys in them, have the same order for everybody',
  },
  {
    name: 'any value is a key',
    store: class extends MemoryLockStore {
      override checkKey(): void {}
    },
    noticedBy: 'keys that are empty, ill-formed or too long are refused with LockKeyError',
  },
  {
    name: 'a revocation tells nobody',
    store: badListener((listener) => ({
      ...listener,
      onWakeUp: (attempt, wakeUp) => wakeUp.kind !== 'revoked' && listener.onWakeUp(attempt, wakeUp),
    })),
    noticedBy: 'a revocation tells each holder `revoked`',
  },
  {
    name: 'a revocation also sends those away who wait',
    store: class extends MemoryLockStore {
      override async forceRelease(key: string): Promise<boolean> {
        const { queue } = lockOf(this, key);
        for (const { attempt } of queue.waiters) await this.release({ key, attempt, holdAtLeastMs: 0, leaseMs: 0 });
        return super.forceRelease(key);
      }
    },
    noticedBy: 'after a revocation those who wait go on waiting, and the next is served',
  },
  {
    name: 'a revocation always tells that there were holders',
    store: class extends MemoryLockStore {
      override async forceRelease(key: string): Promise<boolean> {
        await super.forceRelease(key);
        return true;
      }
    },
    noticedBy: 'a revocation ends all holds, and tells whether there were any',
  },
];
