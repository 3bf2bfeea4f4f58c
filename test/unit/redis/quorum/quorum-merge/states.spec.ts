import {
  type LastRun,
  type LockHolder,
  type LockState,
  type LockWaiter,
} from '../../../../../lib/core/store/lock-state.js';
import { mergeRuns, mergeStates } from '../../../../../lib/redis/quorum/quorum-merge.js';
import { nodesOf } from '../fake-nodes.js';

const holder = (attempt: string, rest: Partial<LockHolder> = {}): LockHolder => ({
  owner: attempt,
  attempt,
  mode: 'write',
  take: 1,
  host: 'host',
  pid: 1,
  where: '',
  note: '',
  since: new Date(1_000),
  remainingMs: 3_000,
  fencingToken: 7,
  ...rest,
});
const reader = (attempt: string, rest: Partial<LockHolder> = {}): LockHolder =>
  holder(attempt, { mode: 'read', ...rest });

const state = (holders: readonly LockHolder[] = [], rest: Partial<LockState> = {}): LockState => ({
  key: 'k',
  mode: holders[0]?.mode ?? 'free',
  holders,
  waiters: 0,
  queue: [],
  permits: null,
  fencingToken: Math.max(0, ...holders.map(({ fencingToken }) => fencingToken)),
  ...rest,
});
/** Of `count` nodes, those that answered. */
const merged = (count: number, ...states: LockState[]): LockState => mergeStates('k', nodesOf(count), states);
const attempts = ({ holders }: LockState): string[] => holders.map(({ attempt }) => attempt);

const [A, B, C] = [holder('a'), holder('b'), holder('c')];
const [R, S, T] = [reader('r'), reader('s'), reader('t')];

describe('the state of a lock', () => {
  it.each<[string, LockState, string, string[]]>([
    ['a majority has', merged(3, state([A]), state([A]), state()), 'write', ['a']],
    ['all have', merged(3, state([A]), state([A]), state([A])), 'write', ['a']],
    ['a majority has while another tries', merged(3, state([B]), state([A]), state([A])), 'write', ['a']],
    ['a majority of readers has', merged(3, state([R, S]), state([S]), state([R, S])), 'read', ['r', 's']],
    ['one of two that answer has', merged(3, state([A]), state()), 'write', ['a']],
    ['one of three of five that answer has', merged(5, state([A]), state(), state()), 'write', ['a']],
    ['the only node has', merged(1, state([A])), 'write', ['a']],
  ])('has the holders that %s', (_who, { mode, holders }, expectedMode, expected) => {
    expect([mode, holders.map(({ attempt }) => attempt).sort()]).toEqual([expectedMode, expected]);
  });

  it.each<[string, LockState]>([
    ['one of three', merged(3, state([A]), state(), state())],
    ['two of four', merged(4, state([A]), state([A]), state(), state())],
    ['two of five', merged(5, state([A]), state([A]), state([B]), state([B]), state([C]))],
    ['one reader on each', merged(3, state([R]), state([S]), state([T]))],
    ['one of four of five that answer', merged(5, state([A]), state(), state(), state())],
    ['nobody', merged(3, state(), state(), state())],
  ])('omits what only %s has', (_who, { mode, holders }) => {
    expect([mode, holders]).toEqual(['free', []]);
  });

  it('has at most one writer, the one that most nodes report', () => {
    expect(attempts(merged(5, state([A]), state([B]), state([B])))).toEqual(['b']);
    expect(attempts(merged(3, state([A]), state([B])))).toHaveLength(1);
  });

  it('has no writer beside readers that more nodes report', () => {
    const { mode, holders } = merged(5, state([A]), state([R, S]), state([R]));
    expect([mode, holders.map(({ attempt }) => attempt)]).toEqual(['read', ['r', 's']]);
  });

  it('has all holds of the owner that writes', () => {
    const [first, again, other] = [holder('a', { owner: 'ann' }), holder('b', { owner: 'ann' }), B];
    const { mode, holders } = merged(3, state([first, again]), state([again, first]), state([other]));
    expect([mode, holders.map(({ attempt }) => attempt).sort()]).toEqual(['write', ['a', 'b']]);
    // What only a minority has is no re-entry.
    expect(attempts(merged(3, state([first, again]), state([first]), state([first])))).toEqual(['a']);
  });

  it('has the read holds of the owner that writes, too', () => {
    const holds = [holder('a', { owner: 'ann' }), reader('b', { owner: 'ann' })];
    const { mode, holders } = merged(3, state(holds), state(holds), state());
    expect([mode, holders.map(({ attempt }) => attempt).sort()]).toEqual(['write', ['a', 'b']]);
  });

  it('has no holds of another owner beside those of the writer that most nodes report', () => {
    // As far as two of five can tell, one is enough.
    const [first, other] = [holder('a', { owner: 'ann' }), holder('b', { owner: 'bob' })];
    const readers = reader('r', { owner: 'rob' });
    expect(attempts(merged(5, state([first]), state([first]), state([other, readers])))).toEqual(['a']);
  });

  it.each([
    ['write', 3, ['write', 'write', 'read']],
    ['read', 3, ['write', 'read', 'read']],
    ['read', 3, ['read', 'read', 'write']],
    ['read', 5, ['write', 'write', 'read', 'read', 'read']],
    ['read', 4, ['read', 'read', 'write', 'write']],
    // One of two that answer may be of the majority.
    ['write', 3, ['read', 'write']],
  ] as const)('is held for %sing when of %d nodes some may have missed the downgrade', (expected, count, modes) => {
    const { mode, holders } = merged(count, ...modes.map((mode) => state([holder('a', { mode })])));
    expect([mode, holders.map((one) => one.mode)]).toEqual([expected, [expected]]);
  });

  it.each([
    ['the most common', [7, 9, 7], 7],
    ['the most common, though the least', [7, 5, 5], 5],
    ['the greatest of those that are equally common', [7, 9, 8], 9],
    ['the greatest of the most common', [7, 9, 7, 9, 30], 9],
  ])('reports a hold with token %s', (_which, tokens, fencingToken) => {
    const states = tokens.map((token) => state([holder('a', { fencingToken: token })]));
    const { holders, fencingToken: last } = merged(tokens.length, ...states);
    expect([holders.map((one) => one.fencingToken), last]).toEqual([[fencingToken], fencingToken]);
  });

  it('reports for how long a majority has a hold', () => {
    const holds = [3_000, 1_000, 2_000].map((remainingMs) => state([holder('a', { remainingMs })]));
    expect(merged(3, ...holds).holders).toEqual([holder('a', { remainingMs: 2_000 })]);
    // One of those that answer is enough.
    expect(merged(3, ...holds.slice(1)).holders).toEqual([holder('a', { remainingMs: 2_000 })]);
  });

  it('has the most common token when it is free, and of equally common ones the greatest', () => {
    const tokensOf = (...tokens: number[]) =>
      merged(tokens.length, ...tokens.map((fencingToken) => state([], { fencingToken }))).fencingToken;
    expect([tokensOf(7, 9, 7), tokensOf(0, 0, 5), tokensOf(3, 2, 1)]).toEqual([7, 0, 3]);
  });

  it('has the greatest token, and the waiters that a majority reports', () => {
    const states = [
      state([], { fencingToken: 5, waiters: 0 }),
      state([], { fencingToken: 9, waiters: 3 }),
      state([], { fencingToken: 0, waiters: 1 }),
    ];
    expect(merged(3, ...states)).toEqual({
      key: 'k',
      mode: 'free',
      holders: [],
      waiters: 1,
      queue: [],
      permits: null,
      fencingToken: 9,
    });
  });

  it('names those who wait on a majority, by the time since when they do', () => {
    const waiter = (attempt: string, place: number, since: number): LockWaiter => {
      const { remainingMs: _ms, fencingToken: _token, ...caller } = holder(attempt);
      return { ...caller, place, since: new Date(since), until: null };
    };
    const states = [
      state([], { queue: [waiter('b', 1, 2_001), waiter('a', 2, 2_000)] }),
      state([], { queue: [waiter('a', 1, 2_000), waiter('c', 2, 1_000)] }),
      state([], { queue: [waiter('b', 1, 2_002)] }),
    ];
    expect(merged(3, ...states).queue).toEqual([waiter('a', 1, 2_000), waiter('b', 2, 2_001)]);
  });

  it('has the last token of the lock, with no holders, while its only hold is parked', () => {
    const parked = state([holder('a', { fencingToken: 0 })], { fencingToken: 7 });
    expect(merged(3, parked, parked, parked).fencingToken).toBe(7);
  });

  it('has the last token of the lock, not the one that most holds have', () => {
    const holds = [reader('a', { owner: 'ann' }), reader('b', { owner: 'ann' }), reader('c', { fencingToken: 9 })];
    expect(merged(3, state(holds), state(holds), state(holds)).fencingToken).toBe(9);
  });

  it('has the writer whose owner reads, too, on one node more', () => {
    const [write, read] = [holder('a', { owner: 'ann' }), reader('b', { owner: 'ann' })];
    const { mode, holders } = merged(3, state([write, read]), state([write, read]), state([read]));
    expect([mode, holders.map(({ attempt }) => attempt).sort()]).toEqual(['write', ['a', 'b']]);
  });
});

describe('the last run', () => {
  const run = (startedMs: number, rest: Partial<LastRun> = {}): LastRun => ({
    job: 'Jobs.run',
    fire: new Date(0),
    instance: 'host:1',
    attempt: 'x.1',
    started: new Date(startedMs),
    ended: null,
    outcome: 'running',
    ...rest,
  });

  /** Of as many nodes as there are, of which all have answered. */
  const merge = (told: readonly (readonly LastRun[])[], job?: string) => mergeRuns(nodesOf(told.length), told, job);

  const at = (fireMs: number, startedMs: number, rest: Partial<LastRun> = {}): LastRun =>
    run(startedMs, { fire: new Date(fireMs), ...rest });
  const DONE = { ended: new Date(9_000), outcome: 'done' } as const;
  const FAILED = { ended: new Date(9_000), outcome: 'failed' } as const;
  const LOST = { outcome: 'lost' } as const;
  const OTHER = { instance: 'host:2', attempt: 'y.1' };
  const AGAIN = { attempt: 'x.2' };

  it.each<[string, (LastRun | null)[], LastRun | null]>([
    ['began when the first node granted it', [run(1_001), run(1_002), run(1_000)], run(1_000)],
    ['is the latest that a node remembers', [run(1_000), run(3_000, AGAIN), run(2_000, OTHER)], run(3_000, AGAIN)],
    ['is that of the only node that remembers one', [null, run(1_000), null], run(1_000)],
    ['is none when no node remembers one', [null, null, null], null],
    [
      'is one that a majority knows, before a later fire that one node remembers',
      [at(60_000, 1_000), at(120_000, 2_000, OTHER), at(60_000, 1_001)],
      at(60_000, 1_000),
    ],
    [
      'is one that a majority knows, before the same fire by another instance',
      [at(0, 9_000, OTHER), at(0, 1_000), at(0, 1_000)],
      at(0, 1_000),
    ],
    [
      'is of the later fire, when no majority knows one',
      [at(0, 5_000), at(60_000, 1_000, AGAIN), null],
      at(60_000, 1_000, AGAIN),
    ],
    [
      'is of the later fire, when half of those that answer know each',
      [at(0, 5_000), at(0, 5_000), at(60_000, 1_000, AGAIN), at(60_000, 1_000, AGAIN)],
      at(60_000, 1_000, AGAIN),
    ],
    ['is of the later fire, when two of three know of none', [null, at(0, 1_000), null], at(0, 1_000)],
    [
      'is of the later fire, when the earlier is known by half of those that answer',
      [at(0, 5_000), at(0, 5_000), at(60_000, 1_000, AGAIN), null],
      at(60_000, 1_000, AGAIN),
    ],
    [
      'is of the later fire, when the earlier is known by most of those that know one, and by no majority',
      [at(0, 5_000), at(0, 5_000), at(60_000, 1_000, AGAIN), null, null],
      at(60_000, 1_000, AGAIN),
    ],
    [
      'is one with an outcome, before one that still runs as far as another node knows',
      [run(1_001), run(1_000, DONE), run(1_002)],
      run(1_000, DONE),
    ],
    [
      'is one that failed, before one that is lost',
      [run(2_000, { outcome: 'lost', ...OTHER }), run(1_000, FAILED)],
      run(1_000, FAILED),
    ],
    ['runs as long as a majority may have its lock', [run(1_000, LOST), run(1_000), run(1_000)], run(1_000)],
    [
      'is lost when no majority has its lock any more',
      [run(1_000), run(1_000, LOST), run(1_000, LOST)],
      run(1_000, LOST),
    ],
    ['runs when the only node that knows it has its lock', [null, run(1_000), null], run(1_000)],
    [
      'is the one that started later, of two with an outcome',
      [run(1_000, DONE), run(2_000, { ...FAILED, ...AGAIN })],
      run(2_000, { ...FAILED, ...AGAIN }),
    ],
    [
      'is of the later fire, though only the earlier one has an outcome',
      [at(0, 1_000, DONE), at(60_000, 2_000, AGAIN), at(60_000, 2_000, AGAIN)],
      at(60_000, 2_000, AGAIN),
    ],
  ])('%s', (_what, runs, expected) => {
    // Each node tells the last run of each job.
    const nodes = runs.map((one) => (one ? [one] : []));
    for (const told of [nodes, nodes.toReversed()]) {
      expect([merge(told), merge(told, 'Jobs.run')]).toEqual([expected, expected]);
    }
  });

  it('is merged for each job separately, and without a job it is the one that began last', () => {
    const other = (startedMs: number) => run(startedMs, { job: 'Jobs.other', attempt: 'z.1', fire: new Date(90_000) });
    const nodes = [[at(60_000, 3_000), other(2_000)], [other(2_001), at(60_000, 3_001)], [at(30_000, 1_000, AGAIN)]];
    for (const told of [nodes, nodes.toReversed()]) {
      expect(merge(told, 'Jobs.run')).toEqual(at(60_000, 3_000));
      expect(merge(told, 'Jobs.other')).toEqual(other(2_000));
      expect(merge(told, 'Jobs.none')).toBeNull();
      expect(merge(told)).toEqual(at(60_000, 3_000));
    }
  });

  it('of all jobs is one that a majority knows, before a later one that other nodes had cancelled', () => {
    const other = run(9_000, { job: 'Jobs.other', attempt: 'z.1' });
    expect(merge([[run(1_000), other], [run(1_000)], []])).toEqual(run(1_000));
    expect(merge([[run(1_000), other], [], []])).toEqual(other);
  });

  it.each([
    ['one node of three', 3, 1],
    ['two nodes of four', 4, 2],
  ])(
    'is one that a majority of five may know, though of those that answer only %s know it',
    (_what, answered, count) => {
      const told = Array.from({ length: answered }, (_, i) => [i < count ? at(60_000, 2_000, AGAIN) : at(0, 1_000)]);
      expect(mergeRuns(nodesOf(5), told)).toEqual(at(60_000, 2_000, AGAIN));
    },
  );

  it('is never one that a majority of five cannot know', () => {
    const told = [[at(60_000, 2_000, AGAIN)], [at(0, 1_000)], [at(0, 1_000)], [at(0, 1_000)]];
    expect(mergeRuns(nodesOf(5), told)).toEqual(at(0, 1_000));
  });

  it('does not change its input', () => {
    const runs = [[run(1_000)], [], [run(3_000)]];
    merge(runs);
    expect(runs).toEqual([[run(1_000)], [], [run(3_000)]]);
  });
});
