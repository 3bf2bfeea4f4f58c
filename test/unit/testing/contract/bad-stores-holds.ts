import { MemoryLockStore } from '../../../../lib/testing/index.js';
import { type BadStore, badAcquire, badRelease, badRenew, holderOf, lockOf, misread, mistold } from './bad-stores.js';

/** Stores that are bad at holds: who has one, until when, and by which token. */
export const BAD_HOLDS: readonly BadStore[] = [
  {
    name: 'everybody is a reader',
    store: misread(() => ({ mode: 'read' })),
    noticedBy: 'a write hold excludes writers, including those of the same client',
  },
  {
    name: 'it looks first and takes the lock afterwards',
    store: class extends MemoryLockStore {
      override async acquire(request: Parameters<MemoryLockStore['acquire']>[0]) {
        const [key] = request.keys;
        const isFree = (await this.inspect(key!)).mode === 'free';
        const reply = await super.acquire(request);
        if (!isFree || reply.outcome === 'granted') return reply;
        lockOf(this, key!).holds.clear();
        return super.acquire(request);
      }
    },
    noticedBy: 'at most one of many concurrent writers is granted',
  },
  {
    name: 'writers enter beside readers',
    store: misread(({ mode }) => (mode === 'write' ? { mode: 'read' } : {})),
    noticedBy: 'read holds exclude writers until the last reader releases',
  },
  {
    name: 'one reader too many enters',
    store: misread(({ permits }) => ({ permits: permits > 0 ? permits + 1 : 0 })),
    noticedBy: 'at most `permits` readers share a lock, and each request counts all of them',
  },
  {
    name: 'keys are the same in upper and lower case',
    store: misread(({ keys }) => ({ keys: keys.map((key) => key.toLowerCase()) })),
    noticedBy: 'keys that differ in one character are different locks',
  },
  {
    name: 'fencing tokens repeat',
    store: mistold(({ fencingTokens }) => ({ fencingTokens: fencingTokens.map(() => 7) })),
    noticedBy: 'fencing tokens rise with every grant, across clients and modes',
  },
  {
    name: 'owners mean nothing',
    store: misread(() => ({ owner: undefined })),
    noticedBy: 'an owner that writes re-enters its lock with the same fencing token, on any client',
  },
  {
    name: 'all attempts without an owner have the same one',
    store: misread(({ owner = '-' }) => ({ owner })),
    noticedBy: 'owners that differ in one character are different owners, and so is no owner',
  },
  {
    name: 'an owner that reads may write',
    store: misread(({ mode, owner }) => (owner && mode === 'write' ? { mode: 'read' } : {})),
    noticedBy: 'an owner that reads is refused for writing, and keeps reading',
  },
  {
    name: 'an acquire that is asked again counts twice',
    store: badAcquire(async (ask, request) => {
      const reply = await ask({ ...request, owner: request.attempt });
      return reply.outcome === 'granted'
        ? ask({ ...request, attempt: `${request.attempt}x`, owner: request.attempt })
        : reply;
    }),
    noticedBy: 'an acquire that is sent again returns the same grant, which one release ends',
  },
  {
    name: 'a late acquire of a released attempt is granted',
    store: class extends MemoryLockStore {
      override acquire(request: Parameters<MemoryLockStore['acquire']>[0]) {
        lockOf(this, request.keys[0]!).released.length = 0;
        return super.acquire(request);
      }
    },
    noticedBy: 'an acquire that arrives after the release of its attempt is refused, and locks nothing',
  },
  {
    name: 'the release of a stranger frees the lock',
    store: class extends MemoryLockStore {
      override release(request: Parameters<MemoryLockStore['release']>[0]) {
        const { attempt } = holderOf(this, { ...request, fencingToken: 0 });
        return super.release({ ...request, attempt });
      }
    },
    noticedBy: 'a release by another attempt changes nothing',
  },
  {
    name: 'the minimum of a hold is ignored',
    store: badRelease(() => ({ holdAtLeastMs: 0 })),
    noticedBy: 'a release with `holdAtLeastMs` keeps the lock taken until that long after the grant, and no longer',
  },
  {
    name: 'the minimum counts from the release',
    store: badRelease(({ holdAtLeastMs }) => ({ holdAtLeastMs: holdAtLeastMs > 0 ? holdAtLeastMs + 1_000 : 0 })),
    noticedBy: 'a release after its `holdAtLeastMs` has passed frees the lock at once',
  },
  {
    name: 'leases do not end',
    store: misread(({ leaseMs }) => ({ leaseMs: leaseMs * 1_000 })),
    noticedBy: 'a lock is free when its lease ends, and not before',
  },
  {
    name: 'leases end early',
    store: badAcquire(async (ask, request) => {
      const reply = await ask({ ...request, leaseMs: request.leaseMs / 2 });
      return reply.outcome === 'granted' ? { ...reply, remainingMs: request.leaseMs } : reply;
    }),
    noticedBy: 'a lock is free when its lease ends, and not before',
  },
  {
    name: 'a renewal brings back a hold that has ended',
    store: badRenew(async (asked, store, send) => {
      const [reply] = await send([asked]);
      if (reply!.outcome !== 'lost') return reply!;
      const again = { attempt: `${asked.attempt}x`, keys: [asked.key], waiterLeaseMs: 0, fair: true, permits: 0 };
      await store.acquire({ ...asked, ...again });
      return { outcome: 'renewed', remainingMs: asked.leaseMs };
    }),
    noticedBy: 'a hold whose lease has ended is never brought back',
  },
  {
    name: 'a renewal does nothing',
    store: badRenew(async ({ leaseMs }) => ({ outcome: 'renewed', remainingMs: leaseMs })),
    noticedBy: 'a renewal extends the lease to the requested length',
  },
  {
    name: 'a renewal may shorten the lease',
    store: badRenew(async (asked, store, send) => {
      const hold = lockOf(store, asked.key).holds.get(asked.attempt);
      if (hold) hold.deadline = Math.min(hold.deadline, store.server.clock.wallNow() + asked.leaseMs);
      return (await send([asked]))[0]!;
    }),
    noticedBy: 'a renewal never shortens a lease',
  },
  {
    name: 'a lease lasts for 50 ms at least',
    store: misread(({ leaseMs }) => ({ leaseMs: Math.max(leaseMs, 50) })),
    noticedBy: 'a lease may last for one millisecond',
  },
  {
    name: 'a renewal asks for no token',
    store: badRenew(async (asked, store, send) => {
      const { attempt, fencingToken } = holderOf(store, asked);
      return (await send([attempt === asked.attempt ? { ...asked, fencingToken } : asked]))[0]!;
    }),
    noticedBy: 'a renewal with another fencing token is lost, and changes nothing',
  },
  {
    name: 'renewals are answered in another order',
    store: class extends MemoryLockStore {
      override async renew(requests: Parameters<MemoryLockStore['renew']>[0]) {
        return (await super.renew(requests)).toSorted((a, b) => a.outcome.localeCompare(b.outcome));
      }
    },
    noticedBy: 'renew() returns its replies in the order of its requests',
  },
  {
    name: 'a downgrade does nothing',
    store: class extends MemoryLockStore {
      override async downgrade() {
        return { outcome: 'downgraded' } as const;
      }
    },
    noticedBy: 'a downgrade lets readers in, and keeps writers out',
  },
  {
    name: 'a renewal of what only reads by now leaves a writer',
    store: badRenew(async (asked, _store, send) => (await send([{ ...asked, mode: 'write' }]))[0]!),
    noticedBy: 'a renewal in read mode makes up for a downgrade that did not arrive',
  },
  {
    name: 'a downgrade is a release and another acquire',
    store: class extends MemoryLockStore {
      override async downgrade({ key, attempt }: Parameters<MemoryLockStore['downgrade']>[0]) {
        await this.release({ key, attempt, holdAtLeastMs: 0, leaseMs: 0 });
        return { outcome: 'downgraded' } as const;
      }
    },
    noticedBy: 'a downgraded hold keeps its fencing token and its lease',
  },
];
