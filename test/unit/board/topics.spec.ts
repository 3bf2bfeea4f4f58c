import { type LockHistoryEntry, NO_FACTS } from '../../../lib/core/history/history-entry.js';
import { LockStoreError } from '../../../lib/core/lock.errors.js';
import { type JobOfKey } from '../../../lib/core/store/lock-state.js';
import { type Job } from '../../../lib/interceptor/jobs.js';
import { BoardTopics } from '../../../lib/board/topics.js';
import { rejection } from '../../support/waiting/rejection.js';

const entry = (id: number, facts: Partial<LockHistoryEntry>): LockHistoryEntry => ({
  id: String(id),
  at: new Date(1_000 * id),
  host: 'a',
  pid: 7,
  ...NO_FACTS,
  event: 'acquired',
  key: 'order',
  ...facts,
});

const run = (job: string, key: string): JobOfKey => ({
  job,
  key,
  fire: new Date(1_000),
  instance: 'a:7',
  attempt: 'client.1',
  started: new Date(2_000),
  ended: new Date(2_500),
  outcome: 'done',
});

interface Given {
  readonly hasHistory?: boolean;
  readonly entries?: readonly LockHistoryEntry[] | Error;
  readonly jobs?: readonly Job[];
  readonly found?: readonly JobOfKey[];
  readonly state?: object;
  readonly lastRun?: () => Promise<null>;
}

function setUp({
  hasHistory = true,
  entries = [],
  jobs = [],
  found = [],
  state = {},
  lastRun = async () => null,
}: Given) {
  const queries: object[] = [];
  const service = {
    list: () => {
      throw new Error('not asked for here');
    },
    lastRun,
    inspect: async (key: string) => ({
      key,
      mode: 'free',
      waiters: 0,
      permits: null,
      holders: [],
      queue: [],
      fencingToken: 0,
      ...state,
    }),
    history: async (query: object) => {
      queries.push(query);
      if (entries instanceof Error) throw entries;
      return entries;
    },
  };
  const store = {
    async *jobs({ limit }: { readonly limit: number }): AsyncGenerator<JobOfKey> {
      yield* found.slice(0, limit);
    },
  };
  const topics = new BoardTopics({ service: service as never, store, hasHistory, jobs, losses: { all: [] } });
  return { topics, queries };
}

describe('the topics of the board', () => {
  it('ask for a limited part of the history', async () => {
    const { topics, queries } = setUp({});
    expect(await topics.history()).toEqual({ history: { entries: [], limit: 200 } });
    expect(await topics.lock('order')).toMatchObject({ history: { entries: [], limit: 50 } });
    expect(await topics.losses()).toEqual({ losses: [], limit: 200, searched: 2_000 });
    expect(queries).toEqual([{ limit: 200 }, { key: 'order', limit: 50 }, { limit: 2_000 }]);
  });

  it('have what entries say, and nothing in place of what they do not say', async () => {
    const said = { where: 'Orders.charge', note: 'order 7', ms: 12, reason: 'revoked', fencingToken: 3, by: 'ada' };
    const { topics } = setUp({
      entries: [entry(2, { event: 'lost', ...said }), entry(1, { event: 'dropped', key: '' })],
    });
    const { history } = (await topics.history()) as { history: object };
    const { fencingToken: _fencingToken, ...shown } = said;
    const nothing = { where: '', note: '', ms: null, reason: '', by: '', token: '', count: null };
    expect(history).toEqual({
      entries: [
        { id: '2', at: 2_000, event: 'lost', key: 'order', instance: 'a:7', ...shown, token: '3', count: null },
        { id: '1', at: 1_000, event: 'dropped', key: '', instance: 'a:7', ...nothing },
      ],
      limit: 200,
    });
  });

  it('have at most 200 jobs, and say whether there are more', async () => {
    const own = Array.from({ length: 203 }, (_, i) => ({ name: `Jobs.${i}`, key: `job ${i}`, nextMs: () => null }));
    const found = own.map(({ name, key }) => run(name, key));
    const jobsOf = async (given: Given) => (await setUp(given).topics.jobs()) as { jobs: Job[]; hasMore: boolean };
    for (const given of [{ jobs: own }, { found }, { jobs: own.slice(0, 3), found }]) {
      const { jobs, hasMore } = await jobsOf(given);
      expect([jobs.length, hasMore]).toEqual([200, true]);
    }
    for (const given of [
      { jobs: own.slice(3) },
      { found: found.slice(3) },
      { jobs: own.slice(3), found: found.slice(3) },
    ]) {
      expect(await jobsOf(given)).toMatchObject({ jobs: { length: 200 }, hasMore: false });
    }
  });

  it('have the jobs of other apps behind those of this one, without a next fire', async () => {
    const own = { name: 'Jobs.own', key: 'own', nextMs: () => null };
    const found = [run('Jobs.own', 'own'), run('Jobs.own', 'other'), run('Jobs.a', 'a')];
    const { jobs } = (await setUp({ jobs: [own], found }).topics.jobs()) as { jobs: object[] };
    const last = { fire: 1_000, instance: 'a:7', outcome: 'done', ranMs: 500 };
    expect(jobs).toEqual([
      { name: 'Jobs.own', key: 'own', next: null, nextInMs: null, last: null },
      { name: 'Jobs.a', key: 'a', next: null, nextInMs: null, last },
      { name: 'Jobs.own', key: 'other', next: null, nextInMs: null, last },
    ]);
  });

  it('have a job of this app whose lock cannot be read, with the reason; an outage concerns all', async () => {
    const own = { name: 'Jobs.own', key: 'own', nextMs: () => null };
    const jobsWith = (retryable: boolean) => {
      const error = new LockStoreError('NEWERDATA', { retryable });
      return setUp({ jobs: [own], lastRun: () => Promise.reject(error) }).topics.jobs();
    };
    expect(await jobsWith(false)).toMatchObject({ jobs: [{ key: 'own', problem: 'NEWERDATA' }] });
    expect(await rejection(jobsWith(true))).toMatchObject({ message: 'NEWERDATA' });
  });

  it('have at most 1,000 holders and waiters of one lock, and say how many there are', async () => {
    const queue = Array.from({ length: 1_002 }, (_, i) => ({ attempt: `w${i}`, since: new Date(0), until: null }));
    const holders = Array.from({ length: 1_001 }, (_, i) => ({ attempt: `h${i}`, since: new Date(0) }));
    const { topics } = setUp({ state: { waiters: 1_003, queue, holders } });
    const { lock } = (await topics.lock('order')) as { lock: Record<'holders' | 'queue', object[]> };
    expect([lock.holders.length, lock.queue.length]).toEqual([1_000, 1_000]);
    expect(lock).toMatchObject({ holderCount: 1_001, queueCount: 1_002, waiters: 1_003 });
  });

  it('have at most 200 losses', async () => {
    const entries = Array.from({ length: 300 }, (_, i) => entry(300 - i, { event: 'lost', fencingToken: i }));
    const { losses } = (await setUp({ entries }).topics.losses()) as { losses: { at: number }[] };
    expect([losses.length, losses[0]!.at, losses.at(-1)!.at]).toEqual([200, 300_000, 101_000]);
  });

  it('fail, rather than show an empty history, when Redis cannot be asked', async () => {
    const { topics } = setUp({ entries: new LockStoreError('Redis is away.') });
    for (const read of [topics.history(), topics.lock('order'), topics.losses()]) {
      expect(await rejection(read)).toBeInstanceOf(LockStoreError);
    }
  });
});
