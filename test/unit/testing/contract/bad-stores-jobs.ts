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
    noticedBy: 'the fire of a time is granted once, and the next fire is another one',
  },
  {
    name: 'fires are known by their time only',
    store: misread(({ claim }) => ({ claim: claim && { ...claim, job: 'Reports.noon' } })),
    noticedBy: 'each job has its own fires under one key, and the run of one is not that of another',
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
    noticedBy: 'a claim that is given back as `void` leaves the fire of another job claimed',
  },
  {
    name: 'the last run of any job is told for each',
    store: class extends MemoryLockStore {
      override lastRun(key: string) {
        return super.lastRun(key);
      }
    },
    noticedBy: 'the last run of each job is told, and without a job the one that began last',
  },
  {
    name: 'it is not told who claimed a fire',
    store: badAcquire(async (ask, request) => {
      const reply = await ask(request);
      return reply.outcome === 'refused' ? { ...reply, claimedBy: undefined } : reply;
    }),
    noticedBy: 'a fire that is being run is refused, with who claimed it, and nobody waits for it',
  },
  {
    name: 'a lost run is repeated unasked',
    store: misread(({ claim }) => ({ claim: claim && { ...claim, rerunOnLoss: true } })),
    noticedBy: 'a fire whose run ended without an outcome is granted again where that is asked, and only there',
  },
  {
    name: 'a claim that is given back stays claimed',
    store: badRelease(({ runOutcome }) => ({ runOutcome: runOutcome === 'void' ? undefined : runOutcome })),
    noticedBy: 'a claim that is given back as `void` leaves its fire to others',
  },
  {
    name: 'a slot is that in which the store is asked',
    store: class extends MemoryLockStore {
      override acquire({ claim, ...request }: Parameters<MemoryLockStore['acquire']>[0]) {
        return super.acquire({ ...request, claim: claim && { ...claim, calledAt: this.server.clock.now() } });
      }
    },
    noticedBy: 'a call belongs to the slot in which it was made, however late it asks',
  },
  {
    name: 'a gap is taken for a slot',
    store: misread(({ claim }) => ({ claim: claim?.kind === 'gap' ? { ...claim, kind: 'slot' } : claim })),
    noticedBy: 'a gap is refused until so long after the last fire, and granted then',
  },
  {
    name: 'runs are told as done when they are lost',
    store: class extends MemoryLockStore {
      override async lastRun(key: string, job?: string) {
        const run = await super.lastRun(key, job);
        return run?.outcome === 'lost' ? { ...run, outcome: 'done' as const } : run;
      }
    },
    noticedBy: 'a run whose lease ended without an outcome is told as `lost`',
  },
  {
    name: 'no run is told',
    store: class extends MemoryLockStore {
      override async lastRun(): Promise<null> {
        return null;
      }
    },
    noticedBy: 'a run is told with its fire, its instance, its attempt and its times, from its begin to its end',
  },
  {
    name: 'inspect tells only one holder',
    store: class extends MemoryLockStore {
      override async inspect(key: string) {
        const { holders, ...state } = await super.inspect(key);
        return { ...state, holders: holders.slice(0, 1) };
      }
    },
    noticedBy: 'inspect tells all readers, by owner or attempt',
  },
  {
    name: 'inspect mixes up the instance and the context of a holder',
    store: misread(({ holder }) => ({ holder: holder.split(' ').toReversed().join(' ') })),
    noticedBy: 'inspect tells who writes, since when and for how long',
  },
  {
    name: 'list ignores the prefix',
    store: class extends MemoryLockStore {
      override list({ limit }: Parameters<MemoryLockStore['list']>[0]) {
        return super.list({ prefix: '', limit });
      }
    },
    noticedBy: 'list tells the locks whose key begins with the prefix, each once, and no free ones',
  },
  {
    name: 'list ignores the limit',
    store: class extends MemoryLockStore {
      override list({ prefix }: Parameters<MemoryLockStore['list']>[0]) {
        return super.list({ prefix, limit: 1_000 });
      }
    },
    noticedBy: 'list tells at most `limit` locks',
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
    noticedBy: 'commands after the close come to an end, and do no harm to others',
  },
];
