import { type FullLockStore } from '../../../../lib/core/store/capabilities.js';
import { LockKeyError } from '../../../../lib/core/lock.errors.js';
import {
  type LockHistoryBatch,
  type LockHistoryEntry,
  type LockHistoryQuery,
} from '../../../../lib/core/history/history-entry.js';
import {
  type AcquireReply,
  type AcquireRequest,
  type AdoptReply,
  type AdoptRequest,
  type HoldRef,
  type LockStore,
  type ReleaseRequest,
  type RenewReply,
  type RenewRequest,
  type WakeUpListener,
} from '../../../../lib/core/store/lock-store.js';
import { lockStoreContract, ManualClock, MemoryLockServer, MemoryLockStore } from '../../../../lib/testing/index.js';

/** Replacements for methods of a store; `good` has the original methods. */
type Change = (good: MemoryLockStore, store: MemoryLockStore) => Partial<FullLockStore>;

function badStore(server: MemoryLockServer, change: Change): LockStore {
  const store = new MemoryLockStore(server);
  const names = Object.getOwnPropertyNames(MemoryLockStore.prototype) as (keyof MemoryLockStore)[];
  const good = Object.fromEntries(names.map((name) => [name, (store[name] as Function).bind(store)]));
  return Object.assign(store, change(good as unknown as MemoryLockStore, store));
}

type Ask = (ask: (request: AcquireRequest) => Promise<AcquireReply>, request: AcquireRequest) => Promise<AcquireReply>;

const badAcquire =
  (acquire: Ask): Change =>
  (good) => ({ acquire: (request) => acquire((asked) => good.acquire(asked), request) });

/** It sends a request that differs from the received one. */
const misread = (change: (request: AcquireRequest) => Partial<AcquireRequest>): Change =>
  badAcquire((ask, request) => ask({ ...request, ...change(request) }));

type Granted = Extract<AcquireReply, { outcome: 'granted' }>;

/** It reports its grants wrongly. */
const mistold = (change: (granted: Granted) => Partial<Granted>): Change =>
  badAcquire(async (ask, request) => {
    const reply = await ask(request);
    return reply.outcome === 'granted' ? { ...reply, ...change(reply) } : reply;
  });

const badRelease =
  (change: (request: ReleaseRequest) => Partial<ReleaseRequest>): Change =>
  (good) => ({ release: (request) => good.release({ ...request, ...change(request) }) });

type Renew = (asked: RenewRequest, store: MemoryLockStore, good: MemoryLockStore) => Promise<RenewReply>;

const badRenew =
  (renew: Renew): Change =>
  (good, store) => ({ renew: (requests) => Promise.all(requests.map((asked) => renew(asked, store, good))) });

type Adopt = (asked: AdoptRequest, store: MemoryLockStore, good: MemoryLockStore) => Promise<AdoptReply>;

const badAdopt =
  (adopt: Adopt): Change =>
  (good, store) => ({ adopt: (asked) => adopt(asked, store, good) });

/** It reads its requests wrongly. */
const badWakeUps =
  (change: (listener: WakeUpListener) => Partial<WakeUpListener>): Change =>
  (good) => ({ listen: (listener) => good.listen({ ...listener, ...change(listener) }) });

type Read = (entries: readonly LockHistoryEntry[], query: LockHistoryQuery) => readonly LockHistoryEntry[];

const badRead =
  (read: Read): Change =>
  (_good, { history }) => ({
    history: { ...history, read: async (query) => read(await history.read({ limit: 10_000 }), query) },
  });

const badAppend =
  (change: (batch: LockHistoryBatch) => Partial<LockHistoryBatch>): Change =>
  (_good, { history }) => ({
    history: { ...history, append: (batch) => history.append({ ...batch, ...change(batch) }) },
  });

/** The lock itself. */
const lockOf = ({ server }: MemoryLockStore, key: string) => server.locks.all.get(`lock:${key}`)!;

/** The attempt that holds a lock, as the hold of another one. */
function holderOf(store: MemoryLockStore, hold: HoldRef): HoldRef {
  const [found] = lockOf(store, hold.key).holds;
  return found ? { ...hold, attempt: found[0], fencingToken: found[1].token } : hold;
}

const isAbout = ({ keys }: LockHistoryEntry, key: string | undefined): boolean =>
  key === undefined || keys.includes(key);

const listeners = new Set<WakeUpListener>();
let tokens = 0;

/** The defects of stores, by the case of the contract that must notice them. */
const HOLDS: Record<string, Record<string, Change>> = {
  'a write hold excludes writers, including those of the same client': {
    'each caller is a reader': misread(() => ({ mode: 'read' })),
  },
  'at most one of many concurrent writers is granted': {
    'it reads first and takes the lock afterwards': (good, store) => ({
      async acquire(request) {
        const [key] = request.keys;
        const isFree = (await store.inspect(key!)).mode === 'free';
        const reply = await good.acquire(request);
        if (!isFree || reply.outcome === 'granted') return reply;
        lockOf(store, key!).holds.clear();
        return good.acquire(request);
      },
    }),
  },
  'read holds exclude writers until the last reader releases': {
    'writers enter next to readers': misread(({ mode }) => (mode === 'write' ? { mode: 'read' } : {})),
  },
  'at most `permits` readers share a lock, and each request counts all of them': {
    'one reader above the limit enters': misread(({ permits }) => ({ permits: permits > 0 ? permits + 1 : 0 })),
  },
  'keys that differ in one character are different locks': {
    'keys are the same in upper and lower case': misread(({ keys }) => ({
      keys: keys.map((key) => key.toLowerCase()),
    })),
  },
  'fencing tokens rise with every grant, across clients and modes': {
    'fencing tokens repeat': mistold(({ fencingTokens }) => ({ fencingTokens: fencingTokens.map(() => 7) })),
  },
  'a grant for writing reserves the tokens after its own, if the store has `reservesTokens`': {
    'tokens are counted one by one': mistold(({ serverTimeMs }) => ({ fencingTokens: [serverTimeMs + (tokens += 1)] })),
  },
  'an owner that got several tokens for reading re-enters with the greatest': {
    'each hold of an owner has only its own token to re-enter': (good, store) => ({
      acquire(request) {
        for (const hold of lockOf(store, request.keys[0]!)?.holds.values() ?? []) hold.entry = hold.token;
        return good.acquire(request);
      },
    }),
  },
  'an owner that writes re-enters its lock with the same fencing token, on any client': {
    'owners mean nothing': misread(() => ({ owner: undefined })),
  },
  'owners that differ in one character are different owners, and differ from a missing owner': {
    'all attempts without an owner have the same one': misread(({ owner = '-' }) => ({ owner })),
  },
  'an owner that reads is refused for writing, and keeps reading': {
    'an owner that reads may write': misread(({ mode, owner }) => (owner && mode === 'write' ? { mode: 'read' } : {})),
  },
  'an acquire that is sent again returns the same grant, which one release ends': {
    'an acquire that is asked again counts twice': badAcquire(async (ask, request) => {
      const asked = { ...request, owner: request.attempt };
      const reply = await ask(asked);
      return reply.outcome === 'granted' ? ask({ ...asked, attempt: `${request.attempt}x` }) : reply;
    }),
  },
  'an acquire that arrives after the release of its attempt is refused, and locks nothing': {
    'a late acquire of a released attempt is granted': (good, store) => ({
      acquire(request) {
        lockOf(store, request.keys[0]!)?.ended.clear();
        return good.acquire(request);
      },
    }),
  },
  'a release by another attempt changes nothing': {
    'the release of another attempt frees the lock': (good, store) => ({
      release: (request) =>
        good.release({ ...request, attempt: holderOf(store, { ...request, fencingToken: 0 }).attempt }),
    }),
  },
  'a release with `holdAtLeastMs` keeps the lock taken until that long after the grant, and no longer': {
    'the minimum of a hold is ignored': badRelease(() => ({ holdAtLeastMs: 0 })),
  },
  'a release after its `holdAtLeastMs` has passed frees the lock at once': {
    'the minimum counts from the release': badRelease(({ holdAtLeastMs: ms }) => ({
      holdAtLeastMs: ms > 0 ? ms + 1_000 : 0,
    })),
  },
  'a lock is free when its lease ends, and not before': {
    'leases do not end': misread(({ leaseMs }) => ({ leaseMs: leaseMs * 1_000 })),
    'leases end early': badAcquire(async (ask, request) => {
      const reply = await ask({ ...request, leaseMs: request.leaseMs / 2 });
      return reply.outcome === 'granted' ? { ...reply, remainingMs: request.leaseMs } : reply;
    }),
  },
  'a hold whose lease has ended is never brought back': {
    'a renewal brings back a hold that has ended': badRenew(async (asked, store, good) => {
      const [reply] = await good.renew([asked]);
      if (reply!.outcome !== 'lost') return reply!;
      const again = { attempt: `${asked.attempt}x`, keys: [asked.key], waiterLeaseMs: 0, fair: true, permits: 0 };
      await store.acquire({ ...asked, ...again });
      return { outcome: 'renewed', remainingMs: asked.leaseMs };
    }),
  },
  'a renewal extends the lease to the requested length': {
    'a renewal does nothing': badRenew(async ({ leaseMs }) => ({ outcome: 'renewed', remainingMs: leaseMs })),
  },
  'a renewal never shortens a lease': {
    'a renewal may shorten the lease': badRenew(async (asked, store, good) => {
      const hold = lockOf(store, asked.key).holds.get(asked.attempt);
      if (hold) hold.until = Math.min(hold.until, store.server.clock.wallNow() + asked.leaseMs);
      return (await good.renew([asked]))[0]!;
    }),
  },
  'a lease may last for one millisecond': {
    'a lease lasts for 50 ms at least': misread(({ leaseMs }) => ({ leaseMs: Math.max(leaseMs, 50) })),
  },
  'a renewal with another fencing token is lost, and changes nothing': {
    'a renewal asks for no token': badRenew(async (asked, store, good) => {
      const { attempt, fencingToken } = holderOf(store, asked);
      return (await good.renew([attempt === asked.attempt ? { ...asked, fencingToken } : asked]))[0]!;
    }),
  },
  'renew() returns its replies in the order of its requests': {
    'renewals are answered in another order': (good) => ({
      renew: async (requests) => (await good.renew(requests)).toSorted((a, b) => a.outcome.localeCompare(b.outcome)),
    }),
  },
  'a downgrade lets readers in, and keeps writers out': {
    'a renewal that leaves the lease as it is does nothing': badRenew(async (asked, _store, good) =>
      asked.leaseMs === 0 ? { outcome: 'renewed', remainingMs: 30_000 } : (await good.renew([asked]))[0]!,
    ),
  },
  'a renewal in read mode makes up for a downgrade that did not arrive': {
    'a renewal of what only reads by now leaves a writer': badRenew(
      async (asked, _store, good) => (await good.renew([{ ...asked, mode: 'write' }]))[0]!,
    ),
  },
  'a downgraded hold keeps its fencing token and its lease': {
    'a downgrade is a release and another acquire': badRenew(async ({ key, attempt }, _store, good) => {
      await good.release({ key, attempt, holdAtLeastMs: 0, leaseMs: 0 });
      return { outcome: 'renewed', remainingMs: 30_000 };
    }),
  },
};

const WAITING: typeof HOLDS = {
  'an acquire that finds the lock busy joins the queue, and reports how many are ahead': {
    'no caller queues': misread(() => ({ waiterLeaseMs: 0 })),
  },
  'a request with a waiter lease of 0 does not join the queue': {
    'each caller queues': misread(({ waiterLeaseMs }) => ({ waiterLeaseMs: Math.max(waiterLeaseMs, 1_000) })),
  },
  'waiters are served first in, first out, however often they send their request': {
    'the last waiter is served first': (good, store) => ({
      release(request) {
        const lock = lockOf(store, request.key);
        const waiters = [...lock.waiters].toReversed();
        lock.waiters.clear();
        for (const [attempt, waiter] of waiters) lock.waiters.set(attempt, waiter);
        return good.release(request);
      },
    }),
    'a caller that asks again goes to the end of the queue': (good, store) => ({
      acquire(request) {
        lockOf(store, request.keys[0]!)?.waiters.delete(request.attempt);
        return good.acquire(request);
      },
    }),
  },
  'a waiting writer holds back later readers': {
    'readers ignore a waiting writer': misread(({ mode, fair }) => ({ fair: fair && mode === 'write' })),
  },
  'waiters do not hold back a request that is not fair': {
    'an unfair request waits for its turn': misread(() => ({ fair: true })),
  },
  'a waiter that died holds others back for its waiter lease, and no longer': {
    'dead waiters keep their places': misread(({ waiterLeaseMs }) => ({ waiterLeaseMs: waiterLeaseMs * 1_000 })),
  },
  'a cancelled waiter lets those behind it pass': {
    'a caller that stops waiting keeps its place': (good, store) => ({
      async release(request) {
        if (!lockOf(store, request.key).waiters.has(request.attempt)) return good.release(request);
        return { outcome: 'cancelled', holds: 1, lastToken: 1 };
      },
    }),
  },
  'a release wakes a waiter, which has the lock then or on its next request': {
    'a release hands nothing over': (good, store) => ({
      release(request) {
        lockOf(store, request.key).waiters.clear();
        return good.release(request);
      },
    }),
  },
  'a pushed grant is a hold: its token renews it to the full lease, and releases it': {
    'a pushed grant has a wrong token': badWakeUps((listener) => ({
      onWakeUp: (attempt, told) =>
        listener.onWakeUp(attempt, told.kind === 'granted' ? { ...told, fencingToken: told.fencingToken + 1 } : told),
    })),
  },
  'wake-ups reach only the client of their attempt': {
    'each listener gets every notice': badWakeUps((listener) => {
      listeners.add(listener);
      return { onWakeUp: (...told) => listeners.forEach((one) => one.onWakeUp(...told)) };
    }),
  },
  'a client hears nothing before open(), which can be called twice': {
    'a listener gets no confirmation': badWakeUps(() => ({ onListening: () => undefined })),
  },
  'a waiter for several keys holds none of them, and is granted when all are free': {
    'the first of several keys is held while the second is waited for': badAcquire(async (ask, request) => {
      const reply = await ask(request);
      const [first] = request.keys;
      if (reply.outcome === 'busy' && request.keys.length > 1) await ask({ ...request, keys: [first!] });
      return reply;
    }),
  },
  'a waiter for several keys is woken each time when the one that it waits for becomes free': {
    'a waiter is woken once only': badWakeUps((listener) => {
      const woken = new Set<string>();
      return { onWakeUp: (attempt, told) => woken.size < woken.add(attempt).size && listener.onWakeUp(attempt, told) };
    }),
  },
  'a waiter for several keys holds back no callers of the keys after the first busy one': {
    'a waiter for several keys takes those that are free': badAcquire(async (ask, request) => {
      const reply = await ask(request);
      if (reply.outcome === 'busy') for (const key of request.keys.slice(1)) await ask({ ...request, keys: [key] });
      return reply;
    }),
  },
  'the fencing tokens of several keys are in the order of the keys': {
    'the tokens of several keys have another order': mistold(({ fencingTokens }) => ({
      fencingTokens: fencingTokens.toReversed(),
    })),
  },
  'groups() orders keys the same way for every client': {
    'keys are acquired in the order in which they are named': () => ({ groups: (keys) => [keys] }),
  },
  'keys that are empty, ill-formed or too long throw a LockKeyError': {
    'any value is a key': () => ({ checkKey: () => undefined }),
  },
  'any other text is a key': {
    'only short keys are keys': (good) => ({
      checkKey(key) {
        if (Buffer.byteLength(key) > 512) throw new LockKeyError('Too long.', { key });
        good.checkKey(key);
      },
    }),
  },
  'a revocation sends `revoked` to each holder': {
    'a revocation notifies no caller': badWakeUps((listener) => ({
      onWakeUp: (attempt, told) => told.kind !== 'revoked' && listener.onWakeUp(attempt, told),
    })),
  },
  'waiters keep waiting after a revocation, and the next one is served': {
    'a revocation also sends those away who wait': (good, store) => ({
      async forceRelease(key) {
        const { waiters } = lockOf(store, key);
        for (const attempt of waiters.keys()) await good.release({ key, attempt, holdAtLeastMs: 0, leaseMs: 0 });
        return good.forceRelease(key);
      },
    }),
  },
  'a revocation ends all holds, and reports whether there were any': {
    'a revocation always reports that there were holders': (good) => ({
      forceRelease: (key) => good.forceRelease(key).then(() => true),
    }),
  },
  'a revocation up to a token spares later holders': {
    'a revocation ignores the token': (good) => ({ forceRelease: (key) => good.forceRelease(key) }),
  },
};

const ADOPTIONS: typeof HOLDS = {
  'a hold can be adopted once': {
    'an adoption only renews what the first attempt holds': badAdopt(async ({ from, ...asked }, store) => {
      const lease = { mode: 'write', owner: undefined, timeoutMs: 1_000 } as const;
      const [reply] = await store.renew([{ ...asked, ...lease, attempt: from }]);
      return reply!.outcome === 'renewed' ? { outcome: 'adopted', remainingMs: reply!.remainingMs } : (reply as never);
    }),
  },
  'an adopted hold keeps its fencing token, its owner, its mode and the time of its grant': {
    'an adoption is a new grant': badAdopt(async (asked, store, good) => {
      const reply = await good.adopt(asked);
      const hold = lockOf(store, asked.key).holds.get(asked.attempt);
      if (hold) Object.assign(hold, { token: hold.token + 1 });
      return reply;
    }),
  },
  'an adopted hold names its new holder': {
    'an adopted hold still names its first holder': badAdopt((asked, _store, good) =>
      good.adopt({ ...asked, holder: 'host-1:4711 Orders.pay' }),
    ),
  },
  'an adoption extends the lease, and never shortens it': {
    'an adoption shortens the lease': badAdopt(async (asked, store, good) => {
      const reply = await good.adopt(asked);
      const hold = lockOf(store, asked.key).holds.get(asked.attempt);
      return hold ? { outcome: 'adopted', remainingMs: (hold.until = asked.leaseMs) } : reply;
    }),
  },
  'an adoption that is sent again returns the same reply, and counts once': {
    'an adoption that is sent again is lost': badAdopt(async (asked, store, good) => {
      const isAgain = lockOf(store, asked.key).holds.has(asked.attempt);
      return isAgain ? { outcome: 'lost', lastToken: asked.fencingToken, revoked: false } : good.adopt(asked);
    }),
  },
  'commands of the first attempt after the adoption change nothing': {
    'the first attempt is forgotten': badAdopt(async (asked, store, good) => {
      const reply = await good.adopt(asked);
      lockOf(store, asked.key).ended.clear();
      return reply;
    }),
  },
  'a hold that has ended, or with another token, cannot be adopted': {
    'tokens are not compared': badAdopt((asked, store, good) => {
      const hold = lockOf(store, asked.key).holds.get(asked.from);
      return good.adopt(hold ? { ...asked, fencingToken: hold.token } : asked);
    }),
  },
  'an attempt that was given back adopts nothing': {
    'a caller that gave up gets the hold': badAdopt((asked, store, good) => {
      lockOf(store, asked.key).ended.delete(asked.attempt);
      return good.adopt(asked);
    }),
  },
  'an acquire of the first attempt without an answer is refused long after the adoption': {
    'commands that may still come are forgotten soon': (good, store) => ({
      async release(request) {
        const reply = await good.release(request);
        const { ended } = lockOf(store, request.key);
        if (ended.size > 7) ended.delete(ended.keys().next().value!);
        return reply;
      },
    }),
  },
  'a hold that an operator revokes cannot be adopted': {
    'a revoked hold is only gone': badAdopt(async (asked, _store, good) => {
      const reply = await good.adopt(asked);
      return reply.outcome === 'lost' ? { ...reply, revoked: false } : reply;
    }),
  },
  'waiters continue to wait while a hold is adopted, and are served when it is released': {
    'an adoption lets the next one in': badAdopt(async (asked, store, good) => {
      const reply = await good.adopt(asked);
      await store.release({ key: asked.key, attempt: asked.attempt, holdAtLeastMs: 0, leaseMs: 0 });
      return reply;
    }),
  },
};

const SEMAPHORES: typeof HOLDS = {
  'a request takes its number of permits, all of them or none, until its hold ends': {
    'each request takes one permit': misread(() => ({ take: 1 })),
  },
  'a waiter for many permits is not overtaken by waiters for few': {
    'those who need few permits overtake those who need many': misread(() => ({ fair: false })),
  },
  'the permits of an operator apply to all requests, until the operator removes them': {
    'the permits of an operator do not count': () => ({ setPermits: async () => undefined }),
    'the permits of an operator stay forever': (good) => ({
      setPermits: async (key, permits) => (permits === null ? undefined : good.setPermits(key, permits)),
    }),
  },
  'a request that takes more permits than an operator has set is refused, also when it waits': {
    'a request that takes too many permits waits': (good) => ({
      setPermits: (key, permits) => good.setPermits(key, permits === null ? null : Math.max(permits, 5)),
    }),
  },
  'more permits wake waiters': {
    'no waiter is notified of more permits': badWakeUps(() => ({ onWakeUp: () => undefined })),
  },
  'more permits admit waiters': {
    'permits are only lowered': (good, store) => ({
      async setPermits(key, permits) {
        const { permits: before = Infinity } = lockOf(store, key) ?? {};
        if (permits !== null && permits < before) await good.setPermits(key, permits);
      },
    }),
  },
  'the state of a semaphore reports the used and the free permits': {
    'the number of permits is missing': (good) => ({
      inspect: async (key) => ({ ...(await good.inspect(key)), permits: null }),
    }),
  },
};

const JOBS: typeof HOLDS = {
  'a fire at a given time is granted once, and the next fire is a new one': {
    'a fire is granted twice': badAcquire(async (ask, request) => {
      const reply = await ask(request);
      return reply.outcome === 'refused' && reply.reason === 'claimed' ? ask({ ...request, claim: undefined }) : reply;
    }),
  },
  'a claim that waits is granted when it asks in its turn, and refused if another one has run its fire': {
    'a claim that waits hears nothing': badWakeUps(() => ({ onWakeUp: () => undefined })),
  },
  'a fire that is older than all remembered fires is refused': {
    'fires are forgotten soon': (good, store) => ({
      acquire(request) {
        for (const job of lockOf(store, request.keys[0]!)?.jobs.values() ?? []) job.fires = job.fires.slice(-3);
        return good.acquire(request);
      },
    }),
  },
  '`rerunOnLoss` repeats the lost run, and no other': {
    'a rerun gets any fire': badAcquire(async (ask, request) => {
      const reply = await ask(request);
      return request.claim?.rerunOnLoss && reply.outcome === 'refused' ? ask({ ...request, claim: undefined }) : reply;
    }),
  },
  'jobs that share a key have separate fires and runs': {
    'fires are known by their time only': misread(({ claim }) => ({
      claim: claim && { ...claim, job: 'Reports.noon' },
    })),
  },
  'a `void` claim leaves the fire of another job claimed': {
    'a claim that is given back gives back those of all jobs': (good, store) => ({
      async release(request) {
        const reply = await good.release(request);
        if (request.runOutcome === 'void') lockOf(store, request.key).jobs.clear();
        return reply;
      },
    }),
  },
  'lastRun() reports the last run of a job, and without a job the one that began last': {
    'the last run of any job is reported for each': (good) => ({ lastRun: (key) => good.lastRun(key) }),
  },
  'a fire that is running is refused with the attempt that claimed it, and no claim waits for it': {
    'the attempt that claimed a fire is missing': badAcquire(async (ask, request) => {
      const reply = await ask(request);
      return reply.outcome === 'refused' ? { ...reply, claimedBy: undefined } : reply;
    }),
  },
  'a fire whose run ended without an outcome is granted again only with `rerunOnLoss`': {
    'a lost run is repeated without a request': misread(({ claim }) => ({
      claim: claim && { ...claim, rerunOnLoss: true },
    })),
  },
  'a `void` claim frees its fire': {
    'a claim that is given back stays claimed': badRelease(({ runOutcome }) => ({
      runOutcome: runOutcome === 'void' ? undefined : runOutcome,
    })),
  },
  'a call belongs to the slot in which it was made, however late its request arrives': {
    'a slot is that in which the store is asked': (good, { server }) => ({
      acquire: ({ claim, ...rest }) =>
        good.acquire({ ...rest, claim: claim && { ...claim, calledAt: server.clock.now() } }),
    }),
  },
  'a gap is refused until its time after the last fire has passed, and then granted': {
    'a gap is taken for a slot': misread(({ claim }) => ({
      claim: claim?.kind === 'gap' ? { ...claim, kind: 'slot' } : claim,
    })),
  },
  'a run whose lease ended without an outcome is reported as `lost`': {
    'runs are reported as done when they are lost': (good) => ({
      async lastRun(key, job) {
        const run = await good.lastRun(key, job);
        return run?.outcome === 'lost' ? { ...run, outcome: 'done' } : run;
      },
    }),
  },
  'lastRun() reports the fire, instance, attempt and times of a run while it runs and after it ended': {
    'no run is reported': () => ({ lastRun: async () => null }),
  },
  'inspect() reports all readers, by owner or attempt': {
    'inspect reports only one holder': (good) => ({
      async inspect(key) {
        const { holders, ...state } = await good.inspect(key);
        return { ...state, holders: holders.slice(0, 1) };
      },
    }),
  },
  'inspect() reports the writer, the start of its hold and the rest of its lease': {
    'inspect mixes up the instance and the context of a holder': misread(({ holder }) => ({
      holder: holder.split(' ').toReversed().join(' '),
    })),
  },
  'list() yields each lock whose key begins with the prefix once, and no free ones': {
    'list ignores the prefix': (good) => ({ list: ({ limit }) => good.list({ prefix: '', limit }) }),
  },
  'list() yields at most `limit` locks': {
    'list ignores the limit': (good) => ({ list: ({ prefix }) => good.list({ prefix, limit: 1_000 }) }),
  },
  'list() yields the locks whose key contains a text, taken literally': {
    'list ignores the text': (good) => ({ list: ({ prefix, limit }) => good.list({ prefix, limit }) }),
  },
  'closing a client frees no lock': {
    'the close frees all locks': (good) => ({
      async close() {
        for await (const { key } of good.list({ prefix: '', limit: 1_000 })) await good.forceRelease(key);
        await good.close();
      },
    }),
  },
};

const HISTORY: typeof HOLDS = {
  'history.read() returns every entry that any client has added, as it was, the newest first': {
    'the history begins with the oldest entry': badRead((all) => all.toReversed()),
    'the history forgets the notes': badAppend(({ records }) => ({
      records: records.map((one) => ({ ...one, note: undefined })),
    })),
  },
  'an entry has the time at which it happened, by the clock of the store, in the order of its process': {
    'the entries have the time at which they were written': badAppend(({ records, now }) => ({
      records: records.map((one) => ({ ...one, at: now })),
    })),
  },
  'a batch that is sent twice is read once, and read() returns at most the requested number of entries': {
    'a batch that comes twice is there twice': badAppend(({ id }) => ({ id: `${id}-${Math.random()}` })),
    'the history has no limit': badRead((all, { key }) => all.filter((entry) => isAbout(entry, key))),
  },
  'history.read() of a key returns the entries of that key, also among several keys, and no entries of keys that contain its text':
    {
      'a key with a comma counts as several': badRead((all, { key = '', limit }) =>
        all.filter((entry) => `, ${entry.key}, `.includes(key === '' ? '' : `, ${key}, `)).slice(0, limit),
      ),
      'the history of a key lacks the locks of several keys': badRead((all, { key, limit }) =>
        all.filter((entry) => !key || entry.key === key).slice(0, limit),
      ),
    },
  'history.read() returns the entries before a time, up to the limit': {
    'the history ignores the time': badRead((all, { limit }) => all.slice(0, limit)),
  },
};

/** Runs the case of that name on such stores. `deadlineMs`: how long it waits in real time for one that is stuck. */
async function expectNoticed(noticedBy: string, change: Change, limits: { readonly deadlineMs?: number } = {}) {
  const clock = new ManualClock();
  const server = new MemoryLockServer({ clock });
  const found = lockStoreContract({ open: () => badStore(server, change), clock, ...limits }).find(
    ({ name }) => name === noticedBy,
  );
  expect(found).toBeDefined();
  await expect(found!.run()).rejects.toThrow(`The store does not keep the promise that ${noticedBy}: Expected `);
}

describe('the contract of a store notices one of which', () => {
  const rows = Object.entries({ ...HOLDS, ...WAITING, ...ADOPTIONS, ...SEMAPHORES, ...JOBS, ...HISTORY }).flatMap(
    ([noticedBy, stores]) => Object.entries(stores).map(([name, change]) => ({ name, noticedBy, change })),
  );

  it.each(rows)('$name', ({ noticedBy, change }) => expectNoticed(noticedBy, change));

  it('a command after the close never ends', async () => {
    const stuckAfterClose: Change = (good) => {
      let isClosed = false;
      return {
        acquire: (request) => (isClosed ? new Promise<never>(() => undefined) : good.acquire(request)),
        close: () => ((isClosed = true), good.close()),
      };
    };
    await expectNoticed('commands after close() settle, and leave other clients alone', stuckAfterClose, {
      deadlineMs: 100,
    });
  });
});
