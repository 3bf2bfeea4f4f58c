import { MemoryLockStore } from '../../../../lib/testing/index.js';
import { type BadStore, badAcquire, badRelease, misread } from './bad-stores.js';

/** Stores that are bad at claims, at what is told of locks, and at the close. */
export const BAD_JOBS: readonly BadStore[] = [
  {
    name: 'a fire is granted twice',
    store: badAcquire(async (ask, request) => {
      const reply = await ask(request);
      return reply.outcome === 'refused' && reply.reason === 'claimed' ? ask({ ...request, claim: undefined }) : reply;
    }),
    noticedBy: 'a fire at a given time is granted once, and the next fire is a new one',
  },
  {
    name: 'fires are known by their time only',
    store: misread(({ claim }) => ({ claim: claim && { ...claim, job: 'Reports.noon' } })),
    noticedBy: 'jobs that share a key have fires and runs of their own',
  },
  {
    name: 'a claim that is given back gives back those of all jobs',
    store: class extends MemoryLockStore {
      override async release(request: Parameters<MemoryLockStore['release']>[0]) {
        const reply = await super.release(request);
        if (request.runOutcome === 'void') this.server.locks.lock(`lock:${request.key}`).jobs.clear();
        return reply;
      }
    },
    noticedBy: 'a `void` claim leaves the fire of another job claimed',
  },
  {
    name: 'the last run of any job is told for each',
    store: class extends MemoryLockStore {
      override lastRun(key: string) {
        return super.lastRun(key);
      }
    },
    noticedBy: 'lastRun() reports the last run of a job, and without a job the one that began last',
  },
  {
    name: 'it is not told who claimed a fire',
    store: badAcquire(async (ask, request) => {
      const reply = await ask(request);
      return reply.outcome === 'refused' ? { ...reply, claimedBy: undefined } : reply;
    }),
    noticedBy: 'a fire that is running is refused with the attempt that claimed it, and nobody waits for it',
  },
  {
    name: 'a lost run is repeated unasked',
    store: misread(({ claim }) => ({ claim: claim && { ...claim, rerunOnLoss: true } })),
    noticedBy: 'a fire whose run ended without an outcome is granted again only with `rerunOnLoss`',
  },
  {
    name: 'a claim that is given back stays claimed',
    store: badRelease(({ runOutcome }) => ({ runOutcome: runOutcome === 'void' ? undefined : runOutcome })),
    noticedBy: 'a `void` claim frees its fire',
  },
  {
    name: 'a slot is that in which the store is asked',
    store: class extends MemoryLockStore {
      override acquire({ claim, ...request }: Parameters<MemoryLockStore['acquire']>[0]) {
        return super.acquire({ ...request, claim: claim && { ...claim, calledAt: this.server.clock.now() } });
      }
    },
    noticedBy: 'a call belongs to the slot in which it was made, however late its request arrives',
  },
  {
    name: 'a gap is taken for a slot',
    store: misread(({ claim }) => ({ claim: claim?.kind === 'gap' ? { ...claim, kind: 'slot' } : claim })),
    noticedBy: 'a gap is refused until its time after the last fire has passed, and then granted',
  },
  {
    name: 'runs are told as done when they are lost',
    store: class extends MemoryLockStore {
      override async lastRun(key: string, job?: string) {
        const run = await super.lastRun(key, job);
        return run?.outcome === 'lost' ? { ...run, outcome: 'done' as const } : run;
      }
    },
    noticedBy: 'a run whose lease ended without an outcome is reported as `lost`',
  },
  {
    name: 'no run is told',
    store: class extends MemoryLockStore {
      override async lastRun(): Promise<null> {
        return null;
      }
    },
    noticedBy: 'lastRun() reports the fire, instance, attempt and times of a run while it runs and after it ended',
  },
  {
    name: 'inspect tells only one holder',
    store: class extends MemoryLockStore {
      override async inspect(key: string) {
        const { holders, ...state } = await super.inspect(key);
        return { ...state, holders: holders.slice(0, 1) };
      }
    },
    noticedBy: 'inspect() reports all readers, by owner or attempt',
  },
  {
    name: 'inspect mixes up the instance and the context of a holder',
    store: misread(({ holder }) => ({ holder: holder.split(' ').toReversed().join(' ') })),
    noticedBy: 'inspect() reports the writer, since when it holds the lock and for how long',
  },
  {
    name: 'list ignores the prefix',
    store: class extends MemoryLockStore {
      override list({ limit }: Parameters<MemoryLockStore['list']>[0]) {
        return super.list({ prefix: '', limit });
      }
    },
    noticedBy: 'list() yields each lock whose key begins with the prefix once, and no free ones',
  },
  {
    name: 'list ignores the limit',
    store: class extends MemoryLockStore {
      override list({ prefix }: Parameters<MemoryLockStore['list']>[0]) {
        return super.list({ prefix, limit: 1_000 });
      }
    },
    noticedBy: 'list() yields at most `limit` locks',
  },
  {
    name: 'the close frees all locks',
    store: class extends MemoryLockStore {
      override async close(): Promise<void> {
        for await (const { key } of this.list({ prefix: '', limit: 1_000 })) await this.forceRelease(key);
        await super.close();
      }
    },
    noticedBy: 'closing a client frees nothing',
  },
  {
    name: 'a command after the close never ends',
    deadlineMs: 100,
    store: class extends MemoryLockStore {
      #isClosed = false;

      override acquire(request: Parameters<MemoryLockStore['acquire']>[0]) {
        return this.#isClosed ? new Promise<never>(() => undefined) : super.acquire(request);
      }

      override async close(): Promise<void> {
        this.#isClosed = true;
        await super.close();
      }
    },
    noticedBy: 'commands after close() settle, and leave other clients alone',
  },
];
