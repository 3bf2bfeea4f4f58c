import { type LockHistoryEntry, NO_FACTS } from '../../../lib/core/history/history-entry.js';
import { LockStoreError } from '../../../lib/core/lock.errors.js';
import { type JobOfKey } from '../../../lib/core/store/lock-state.js';
import { type Job } from '../../../lib/interceptor/jobs.js';
import { type BoardQuery, readQuery } from '../../../lib/board/query.js';
import { BoardTopics, OwnLosses } from '../../../lib/board/topics.js';
import { readHolderText } from '../../../lib/core/store/holder-text.js';
import { type LockHolder, type LockState, type LockWaiter } from '../../../lib/core/store/lock-state.js';
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
  readonly lastRun?: (key: string) => Promise<JobOfKey | null>;
  readonly locks?: readonly LockState[];
  readonly own?: readonly LockHistoryEntry[];
}

const ask = (view: string, more: object = {}): BoardQuery => readQuery({ view, ...more }) as BoardQuery;

function setUp({
  hasHistory = true,
  entries = [],
  jobs = [],
  found = [],
  state = {},
  lastRun = async () => null,
  locks = [],
  own = [],
}: Given) {
  const queries: object[] = [];
  const service = {
    lastRun,
    history: async (query: { limit: number; before?: Date }) => {
      queries.push(query);
      if (entries instanceof Error) throw entries;
      return entries.filter(({ at }) => !query.before || at < query.before).slice(0, query.limit);
    },
  };
  const store = {
    checkKey: () => undefined,
    async *list({ limit }: { readonly limit: number }): AsyncGenerator<LockState> {
      yield* locks.slice(0, limit);
    },
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
    lastRun: async () => null,
    async *jobs({ limit }: { readonly limit: number }): AsyncGenerator<JobOfKey> {
      yield* found.slice(0, limit);
    },
  };
  const sources = {
    service: service as never,
    store: store as never,
    hasHistory,
    jobs,
    losses: { all: [...own], instance: 'a:7' },
  };
  const topics = new BoardTopics(sources);
  return { topics, queries };
}

describe('the topics of the board', () => {
  it('ask for a limited part of the history', async () => {
    const { topics, queries } = setUp({});
    const none = { entries: [], searched: null, older: null };
    expect(await topics.read(ask('history'))).toEqual({ history: { ...none, limit: 200 } });
    expect(await topics.read(ask('lock', { key: 'order' }))).toMatchObject({ history: { ...none, limit: 50 } });
    expect(await topics.read(ask('losses'))).toMatchObject({ history: { ...none, limit: 200, searched: 2_000 } });
    expect(queries).toEqual([{ limit: 201 }, { key: 'order', limit: 51 }, { limit: 2_000 }]);
  });

  it('have the fields of entries, and nothing for missing ones', async () => {
    const said = { where: 'Orders.charge', note: 'order 7', ms: 12, reason: 'revoked', fencingToken: 3, by: 'ada' };
    const { topics } = setUp({
      entries: [entry(2, { event: 'lost', ...said }), entry(1, { event: 'dropped', key: '' })],
    });
    const { history } = (await topics.read(ask('history'))) as { history: object };
    const { fencingToken: _fencingToken, ...shown } = said;
    const nothing = { where: '', note: '', mode: '', ms: null, reason: '', by: '', token: '', count: null };
    const first = { id: '2', at: 2_000, event: 'lost', key: 'order', instance: 'a:7', mode: '', ...shown };
    expect(history).toMatchObject({
      entries: [
        { ...first, token: '3', count: null },
        { id: '1', at: 1_000, event: 'dropped', key: '', instance: 'a:7', ...nothing },
      ],
    });
  });

  it('have all entries of the history on pages, each once, also where many happened at one time', async () => {
    const entries = Array.from({ length: 1_450 }, (_, i) =>
      entry(1_450 - i, { key: `k${i}`, at: new Date(i < 1_300 ? 9_000 : 1_000) }),
    );
    const { topics } = setUp({ entries });
    const seen: string[] = [];
    for (let before: string | null = ''; before !== null;) {
      const { history } = (await topics.read(ask('history', before === '' ? {} : { before }))) as any;
      seen.push(...history.entries.map(({ key }: { key: string }) => key));
      before = history.older;
    }
    expect(seen).toEqual(entries.map(({ key }) => key));
  });

  it('find entries by key, instance, method or user, and event, 2,000 at a time, and continue where they stopped', async () => {
    const rare = { event: 'forced', key: 'order:7', by: 'Ada', host: 'B' } as const;
    const entries = Array.from({ length: 5_000 }, (_, i) => entry(5_000 - i, i % 1_500 === 0 ? rare : {}));
    const { topics } = setUp({ entries });
    const search = { q: 'der:7', holder: 'ada', instance: 'b:7', event: 'forced' };
    const pages: number[] = [];
    for (let before: string | null = ''; before !== null;) {
      const { history } = (await topics.read(ask('history', before === '' ? search : { ...search, before }))) as any;
      pages.push(history.entries.length);
      before = history.older;
    }
    expect(pages).toEqual([2, 1, 1]);
  });

  it('have at most 200 jobs, and report whether there are more', async () => {
    const own = Array.from({ length: 203 }, (_, i) => ({
      name: `Jobs.${i}`,
      key: `job ${i}`,
      nextMs: () => null,
      run: async () => undefined,
    }));
    const found = own.map(({ name, key }) => run(name, key));
    const jobsOf = async (given: Given) =>
      (await setUp(given).topics.read(ask('jobs'))) as { jobs: Job[]; hasMore: boolean };
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
    const own = { name: 'Jobs.own', key: 'own', nextMs: () => null, run: async () => undefined };
    const found = [run('Jobs.own', 'own'), run('Jobs.own', 'other'), run('Jobs.a', 'a')];
    const { jobs } = (await setUp({ jobs: [own], found }).topics.read(ask('jobs'))) as { jobs: object[] };
    const last = { fire: 1_000, instance: 'a:7', outcome: 'done', ranMs: 500 };
    expect(jobs).toEqual([
      { name: 'Jobs.own', key: 'own', isOwn: true, next: null, nextInMs: null, last: null },
      { name: 'Jobs.a', key: 'a', isOwn: false, next: null, nextInMs: null, last },
      { name: 'Jobs.own', key: 'other', isOwn: false, next: null, nextInMs: null, last },
    ]);
  });

  it('have the jobs in the order in the address, also those of other apps', async () => {
    const job = (name: string, nextInMs: number | null) => ({
      name,
      key: name,
      nextMs: (nowMs: number) => nextInMs && nowMs + nextInMs,
      run: async () => undefined,
    });
    const ran = (name: string, fire: number, ranMs: number, outcome: 'done' | 'failed') => ({
      ...run(name, name),
      fire: new Date(fire),
      ended: new Date(2_000 + ranMs),
      outcome,
    });
    const found = [ran('b', 3_000, 10, 'done'), ran('a', 1_000, 30, 'failed'), ran('d', 2_000, 20, 'done')];
    const lastRun = async (name: string) => found.find((one) => one.job === name) ?? null;
    const { topics } = setUp({ jobs: [job('c', 500), job('a', null), job('b', 900)], found, lastRun });
    const namesOf = async (sort: string) => {
      const { jobs } = (await topics.read(ask('jobs', { sort }))) as { jobs: { name: string }[] };
      return jobs.map(({ name }) => name).join('');
    };
    const sorts = ['', 'name', '-name', 'fire', 'next', 'ran', 'outcome'];
    const sorted = await Promise.all(sorts.map(namesOf));
    expect(sorted).toEqual(['cabd', 'abcd', 'dcba', 'bdac', 'cbad', 'adbc', 'abdc']);
  });

  it('have a job of this app whose lock cannot be read, with the reason; an outage concerns all', async () => {
    const own = { name: 'Jobs.own', key: 'own', nextMs: () => null, run: async () => undefined };
    const jobsWith = (retryable: boolean) => {
      const error = new LockStoreError('NEWERDATA', { retryable });
      return setUp({ jobs: [own], lastRun: () => Promise.reject(error) }).topics.read(ask('jobs'));
    };
    expect(await jobsWith(false)).toMatchObject({ jobs: [{ key: 'own', problem: 'NEWERDATA' }] });
    expect(await rejection(jobsWith(true))).toMatchObject({ message: 'NEWERDATA' });
  });

  it('have at most 1,000 holders and waiters of one lock, and report the total', async () => {
    const queue = Array.from({ length: 1_002 }, (_, i) => ({ attempt: `w${i}`, since: new Date(0), until: null }));
    const holders = Array.from({ length: 1_001 }, (_, i) => ({ attempt: `h${i}`, since: new Date(0) }));
    const { topics } = setUp({ state: { waiters: 1_003, queue, holders } });
    const { lock } = (await topics.read(ask('lock', { key: 'order' }))) as {
      lock: Record<'holders' | 'queue', object[]>;
    };
    expect([lock.holders.length, lock.queue.length]).toEqual([1_000, 1_000]);
    expect(lock).toMatchObject({ holderCount: 1_001, queueCount: 1_002, waiters: 1_003 });
  });

  it('have the losses of this instance as entries where no history exists', async () => {
    const own = [entry(2, { event: 'lost', key: 'b' }), entry(1, { event: 'lost', key: 'a' })];
    const { topics } = setUp({ hasHistory: false, own });
    expect(await topics.read(ask('losses', { q: 'a' }))).toMatchObject({
      ofInstance: 'a:7',
      history: { entries: [{ key: 'a' }] },
    });
  });

  it('remember the last 200 losses of an instance', () => {
    let lose: (event: object) => void = () => undefined;
    const events = { on: (_event: string, listener: typeof lose) => ((lose = listener), () => undefined) };
    const losses = new OwnLosses(events as never, readHolderText('a:7'));
    for (let i = 0; i < 300; i += 1)
      lose({ key: `k${i}`, where: 'Orders.pay', note: 'A-1', heldMs: 5, reason: 'expired', fencingToken: i });
    expect(losses.all).toHaveLength(200);
    expect(losses.all[0]).toMatchObject({ key: 'k299', event: 'lost', ms: 5, host: 'a', pid: 7 });
    expect(losses.all[0]).toMatchObject({ where: 'Orders.pay', note: 'A-1' });
  });

  it('fail, rather than show an empty history, when Redis cannot be asked', async () => {
    const { topics } = setUp({ entries: new LockStoreError('Redis is away.') });
    for (const query of [ask('history'), ask('lock', { key: 'order' }), ask('losses')]) {
      expect(await rejection(topics.read(query))).toBeInstanceOf(LockStoreError);
    }
  });

  it('count the ages by the clock of the store, not by that of the process', async () => {
    const now = Date.now() - 3_600_000;
    const [holders, queue] = [
      [caller('h', { since: new Date(now - 5_000) })],
      [waiter('w', { since: new Date(now - 2_000) })],
    ];
    const { topics } = setUp({ locks: [lock('order', { readAt: new Date(now), holders, queue, waiters: 1 })] });
    const { locks } = (await topics.read(ask('locks'))) as any;
    expect(locks).toMatchObject([{ holders: [{ heldMs: 5_000 }], queue: [{ waitedMs: 2_000 }] }]);
    const running: JobOfKey = {
      ...run('Jobs.own', 'own'),
      started: new Date(now - 7_000),
      ended: null,
      outcome: 'running',
    };
    const state = { readAt: new Date(now) };
    const jobs = [{ name: 'Jobs.own', key: 'own', nextMs: () => null, run: async () => undefined }];
    const shown = await setUp({ jobs, state, lastRun: async () => running }).topics.read(ask('jobs'));
    expect(shown).toMatchObject({ jobs: [{ last: { ranMs: 7_000 } }] });
  });
});

const caller = (attempt: string, facts: Partial<LockHolder> = {}): LockHolder => ({
  owner: attempt,
  attempt,
  mode: 'write',
  take: 1,
  host: 'a',
  pid: 7,
  where: '',
  note: '',
  since: new Date(0),
  remainingMs: 1_000,
  fencingToken: 1,
  ...facts,
});

const waiter = (attempt: string, facts: Partial<LockWaiter> = {}): LockWaiter => ({
  owner: attempt,
  attempt,
  mode: 'write',
  take: 1,
  host: 'a',
  pid: 7,
  where: '',
  note: '',
  place: 1,
  since: new Date(0),
  until: null,
  ...facts,
});

const lock = (key: string, facts: Partial<LockState> = {}): LockState => ({
  key,
  mode: 'write',
  holders: [caller(`${key}-h`)],
  waiters: 0,
  queue: [],
  permits: null,
  fencingToken: 1,
  ...facts,
});

describe('the locks of the board', () => {
  const locksOf = async (locks: readonly LockState[], search: object): Promise<any> =>
    setUp({ locks }).topics.read(ask('locks', search));
  const keysOf = async (locks: readonly LockState[], search: object): Promise<string[]> =>
    (await locksOf(locks, search)).locks.map(({ key }: LockState) => key);

  it('are found by key, owner, method, note, instance and mode', async () => {
    const locks = [
      lock('order:1', { holders: [caller('a', { owner: 'Job 7', where: 'Orders.charge' })] }),
      lock('order:2', { mode: 'read', holders: [caller('b', { host: 'B', note: 'parcel' })] }),
      lock('stock', { waiters: 1, queue: [waiter('c', { host: 'c', where: 'Stock.count' })] }),
    ];
    const found = await Promise.all(
      [
        { q: 'der' },
        { holder: 'job' },
        { holder: 'count' },
        { holder: 'PARCEL' },
        { instance: 'b:7' },
        { mode: 'read' },
        { mode: 'waited' },
      ].map((search) => keysOf(locks, search)),
    );
    expect(found).toEqual([
      ['order:1', 'order:2'],
      ['order:1'],
      ['stock'],
      ['order:2'],
      ['order:2'],
      ['order:2'],
      ['stock'],
    ]);
  });

  it('are sorted by the order in the address', async () => {
    const at = (ms: number, remainingMs: number, waiters: number) => ({
      holders: [caller(`${ms}`, { since: new Date(ms), remainingMs })],
      readAt: new Date(9_000),
      waiters,
    });
    const locks = [lock('b', at(2, 30, 1)), lock('a', at(3, 10, 5)), lock('c', at(1, 20, 0))];
    const sorts = ['key', '-key', 'held', '-held', 'lease', 'waiting'];
    const sorted = await Promise.all(sorts.map(async (sort) => (await keysOf(locks, { sort })).join('')));
    expect(sorted).toEqual(['abc', 'cba', 'cba', 'abc', 'acb', 'abc']);
  });

  it('come on pages of 500, each once, and are counted in all', async () => {
    const locks = Array.from({ length: 1_200 }, (_, i) =>
      lock(`k ${i} `.padEnd(1_024, 'x'), { holders: [caller(`h${i}`, { since: new Date(i % 7) })] }),
    );
    for (const sort of ['key', 'held', '-held']) {
      const seen: string[] = [];
      for (let after: string | null = ''; after !== null;) {
        const page = await locksOf(locks, after === '' ? { sort } : { sort, after });
        expect(page).toMatchObject({ total: 1_200, held: 1_200, waiting: 0, hasMore: false });
        seen.push(...page.locks.map(({ key }: LockState) => key));
        after = page.next;
      }
      expect(seen.length).toBe(1_200);
      expect(new Set(seen).size).toBe(1_200);
    }
  });

  it('are read up to a limit, and the answer says that there are more', async () => {
    const locks = Array.from({ length: 10_001 }, (_, i) => lock(`k${i}`));
    expect(await locksOf(locks, {})).toMatchObject({ total: 10_000, hasMore: true, limit: 10_000 });
  });

  it('are counted by instance', async () => {
    const at = { readAt: new Date(9_000) };
    const locks = [
      lock('x', {
        ...at,
        holders: [caller('h', { since: new Date(8_000) })],
        queue: [waiter('w', { host: 'b', since: new Date(8_500) })],
      }),
      lock('y', { ...at, holders: [caller('i', { since: new Date(5_000) })] }),
    ];
    expect(await setUp({ locks }).topics.read(ask('instances'))).toMatchObject({
      instances: [
        { instance: 'a:7', holds: 2, waits: 0, heldMs: 4_000, keys: ['x', 'y'], keyCount: 2 },
        { instance: 'b:7', holds: 0, waits: 1, waitedMs: 500, keys: ['x'], keyCount: 1 },
      ],
    });
  });
});

describe('the tree of who blocks whom', () => {
  const rootsOf = async (locks: readonly LockState[]): Promise<any[]> => {
    const { roots } = (await setUp({ locks }).topics.read(ask('blocking'))) as { roots: any[] };
    return roots;
  };
  const held = (key: string, by: Partial<LockHolder>, ...queue: LockWaiter[]): LockState =>
    lock(key, { holders: [caller(`${key}-h`, by)], queue, waiters: queue.length });

  it('has below a waiter the locks of its owner for which others wait', async () => {
    const roots = await rootsOf([
      held('b', { owner: 'job', host: 'x' }, waiter('w2', { host: 'z' })),
      held('a', { host: 'y' }, waiter('w1', { owner: 'job', host: 'x2' })),
      held('alone', { host: 'q' }),
    ]);
    expect(roots).toMatchObject([
      {
        key: 'a',
        holders: [{ instance: 'y:7' }],
        waiters: [{ owner: 'job', holdsUp: [{ key: 'b', waiters: [{ instance: 'z:7' }] }] }],
      },
    ]);
  });

  it('has below the first waiter of an instance the locks of that instance', async () => {
    const roots = await rootsOf([
      held('a', { host: 'y' }, waiter('w1', { host: 'x' }), waiter('w2', { host: 'x' })),
      held('b', { host: 'x' }, waiter('w3', { host: 'z' })),
    ]);
    expect(roots.map(({ key }) => key)).toEqual(['a']);
    expect(roots[0].waiters).toMatchObject([{ holdsUp: [{ key: 'b' }] }, { holdsUp: [] }]);
  });

  it('grows with the number of locks, also where each instance waits for the locks of all', async () => {
    const hosts = ['x', 'y', 'z'];
    const locks = Array.from({ length: 900 }, (_, i) =>
      held(`k${i}`, { host: hosts[i % 3]! }, ...hosts.map((host) => waiter(`w${i}${host}`, { host }))),
    );
    const seen: string[] = [];
    let [nodes, deepest] = [0, 0];
    const visit = ({ key, isElsewhere, waiters }: any, depth: number): void => {
      nodes += 1;
      deepest = Math.max(deepest, depth);
      if (!isElsewhere) seen.push(key);
      for (const { holdsUp } of waiters) for (const one of holdsUp) visit(one, depth + 1);
    };
    for (const root of await rootsOf(locks)) visit(root, 1);
    expect(seen.length).toBe(900);
    expect(new Set(seen).size).toBe(900);
    // Of those elsewhere, a lock mentions at most 20 for each of its waiting instances.
    expect(nodes).toBeLessThanOrEqual(900 * 62);
    // A root, one level for each instance, and what is elsewhere.
    expect(deepest).toBeLessThanOrEqual(5);
  });

  it('continues as another tree where it would be too deep to send', async () => {
    const [count, seen] = [5_000, new Set<string>()];
    const locks = Array.from({ length: count }, (_, i) =>
      held(`k${i}`, { host: `h${i}` }, waiter(`w${i}`, { host: `h${i + 1}` })),
    );
    let deepest = 0;
    const visit = ({ key, isElsewhere, waiters }: any, depth: number): void => {
      deepest = Math.max(deepest, depth);
      if (!isElsewhere) seen.add(key);
      for (const { holdsUp } of waiters) for (const one of holdsUp) visit(one, depth + 1);
    };
    for (const root of await rootsOf(locks)) visit(root, 1);
    expect([seen.size, deepest]).toEqual([count, 51]);
  });

  it('ends where callers block each other, and has each lock once', async () => {
    const roots = await rootsOf([
      held('a', { owner: 'one', host: 'x' }, waiter('w1', { owner: 'two', host: 'y' })),
      held('b', { owner: 'two', host: 'y' }, waiter('w2', { owner: 'one', host: 'x' })),
    ]);
    expect(roots).toMatchObject([
      {
        key: 'a',
        waiters: [{ holdsUp: [{ key: 'b', waiters: [{ holdsUp: [{ key: 'a', isElsewhere: true, waiters: [] }] }] }] }],
      },
    ]);
  });
});

describe('a question of a page', () => {
  it.each<[string, object, RegExp]>([
    ['without a view', {}, /no such view: expected one of locks/],
    ['of two texts', { view: 'locks', q: ['a', 'b'] }, /`q` to be one text/],
    ['with a long text', { view: 'locks', q: 'a'.repeat(1_025) }, /at most 1024 characters/],
    ['of a lock without a key', { view: 'lock' }, /needs its `key`/],
    [
      'with an unknown order',
      { view: 'locks', sort: 'constructor' },
      /`sort` to be one of key, held, lease, waiting, waited, got `constructor`/,
    ],
    ['with an unknown mode', { view: 'locks', mode: 'odd' }, /`mode` to be one of read/],
    ['with an unknown event', { view: 'history', event: 'odd' }, /no event `odd`/],
    ['with a place that does not exist', { view: 'history', before: 'odd' }, /`before` to be those of a link/],
  ])('%s is refused', (_what, given, text) => {
    expect(readQuery(given as Record<string, unknown>)).toMatch(text);
  });
});
