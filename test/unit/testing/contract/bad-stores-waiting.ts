import { LockKeyError } from '../../../../lib/core/lock.errors.js';
import { type WakeUpListener } from '../../../../lib/core/store/lock-store.js';
import { MemoryQueue } from '../../../../lib/memory/memory-queue.js';
import { MemoryLockStore } from '../../../../lib/testing/index.js';
import { type BadStore, badAcquire, badListener, lockOf, misread, mistold } from './bad-stores.js';

const listeners = new Set<WakeUpListener>();

/** Stores that are bad at waiting, at messages, and at several keys. */
export const BAD_WAITING: readonly BadStore[] = [
  {
    name: 'nobody queues',
    store: misread(() => ({ waiterLeaseMs: 0 })),
    noticedBy: 'an acquire that finds the lock busy joins the queue, and reports how many are ahead',
  },
  {
    name: 'everybody queues',
    store: misread(({ waiterLeaseMs }) => ({ waiterLeaseMs: Math.max(waiterLeaseMs, 1_000) })),
    noticedBy: 'a request with a waiter lease of 0 does not join the queue',
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
    noticedBy: 'waiters are served first in, first out, however often they send their request',
  },
  {
    name: 'who asks again goes to the end of the queue',
    store: class extends MemoryLockStore {
      override acquire(request: Parameters<MemoryLockStore['acquire']>[0]) {
        lockOf(this, request.keys[0]!).queue.leave(request.attempt);
        return super.acquire(request);
      }
    },
    noticedBy: 'waiters are served first in, first out, however often they send their request',
  },
  {
    name: 'readers do not care about a waiting writer',
    store: misread(({ mode, fair }) => ({ fair: fair && mode === 'write' })),
    noticedBy: 'a waiting writer holds back later readers',
  },
  {
    name: 'who is not fair has to wait for its turn',
    store: misread(() => ({ fair: true })),
    noticedBy: 'waiters do not hold back a request that is not fair',
  },
  {
    name: 'dead waiters keep their places',
    store: misread(({ waiterLeaseMs }) => ({ waiterLeaseMs: waiterLeaseMs * 1_000 })),
    noticedBy: 'a waiter that died holds others back for its waiter lease, and no longer',
  },
  {
    name: 'who gives up waiting keeps its place',
    store: class extends MemoryLockStore {
      override async release(request: Parameters<MemoryLockStore['release']>[0]) {
        if (!lockOf(this, request.key).queue.of(request.attempt)) return super.release(request);
        return { outcome: 'cancelled', holds: 1, lastToken: 1 } as const;
      }
    },
    noticedBy: 'a cancelled waiter lets those behind it pass',
  },
  {
    name: 'a release hands nothing over',
    store: class extends MemoryLockStore {
      override release(request: Parameters<MemoryLockStore['release']>[0]) {
        lockOf(this, request.key).queue = new MemoryQueue();
        return super.release(request);
      }
    },
    noticedBy: 'a release wakes a waiter, which has the lock then or on its next request',
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
    noticedBy: 'wake-ups reach only the client of their attempt',
  },
  {
    name: 'nobody is told that it listens',
    store: badListener((listener) => ({ ...listener, onListening: () => undefined })),
    noticedBy: 'a client hears nothing before open(), which can be called twice',
  },
  {
    name: 'the first of several keys is held while the second is waited for',
    store: badAcquire(async (ask, request) => {
      const reply = await ask(request);
      const [first] = request.keys;
      if (reply.outcome === 'busy' && request.keys.length > 1) await ask({ ...request, keys: [first!] });
      return reply;
    }),
    noticedBy: 'a waiter for several keys holds none of them, and is granted when all are free',
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
    noticedBy: 'groups() orders keys the same way for every client',
  },
  {
    name: 'any value is a key',
    store: class extends MemoryLockStore {
      override checkKey(): void {}
    },
    noticedBy: 'keys that are empty, ill-formed or too long throw a LockKeyError',
  },
  {
    name: 'only short keys are keys',
    store: class extends MemoryLockStore {
      override checkKey(key: string): void {
        if (Buffer.byteLength(key) > 512) throw new LockKeyError('Too long.', { key });
        super.checkKey(key);
      }
    },
    noticedBy: 'any other text is a key',
  },
  {
    name: 'a revocation tells nobody',
    store: badListener((listener) => ({
      ...listener,
      onWakeUp: (attempt, wakeUp) => wakeUp.kind !== 'revoked' && listener.onWakeUp(attempt, wakeUp),
    })),
    noticedBy: 'a revocation sends `revoked` to each holder',
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
    noticedBy: 'waiters keep waiting after a revocation, and the next one is served',
  },
  {
    name: 'a revocation always tells that there were holders',
    store: class extends MemoryLockStore {
      override async forceRelease(key: string): Promise<boolean> {
        await super.forceRelease(key);
        return true;
      }
    },
    noticedBy: 'a revocation ends all holds, and reports whether there were any',
  },
];
