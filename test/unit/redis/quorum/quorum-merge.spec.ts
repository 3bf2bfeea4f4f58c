import { type LostReply, type ReleaseReply, type RenewReply } from '../../../../lib/core/store/lock-store.js';
import {
  type LastRun,
  type LockHolder,
  type LockState,
  type LockWaiter,
} from '../../../../lib/core/store/lock-state.js';
import {
  checkAnswered,
  mergeReleases,
  mergeRenewals,
  mergeRuns,
  mergeStates,
} from '../../../../lib/redis/quorum/quorum-merge.js';
import { type QuorumNode } from '../../../../lib/redis/quorum/quorum-node.js';
import { type Vote } from '../../../../lib/redis/quorum/votes.js';
import { nodesOf, votesOf } from './fake-nodes.js';

const AWAY = new Error('connection lost.');
const renewed = (remainingMs: number): RenewReply => ({ outcome: 'renewed', remainingMs });
const lost = (lastToken: number, revoked = false): LostReply => ({ outcome: 'lost', lastToken, revoked });
const cause = new Error('too late');
const UNKNOWN: RenewReply = { outcome: 'unknown', cause };
const gone = (outcome: ReleaseReply['outcome'], holds = 0, lastToken = 5): ReleaseReply => ({
  outcome,
  holds,
  lastToken,
});

/** `count` nodes of which the first have answered. */
const merge = <T, R>(
  merger: (nodes: readonly QuorumNode[], votes: readonly Vote<T>[]) => R,
  count: number,
  answers: readonly (T | Error)[],
): R => {
  const nodes = nodesOf(count);
  return merger(nodes, votesOf(nodes, answers));
};

describe('a renewal', () => {
  it.each<[string, number, (RenewReply | Error)[], number]>([
    ['two of three, for the shorter', 3, [renewed(100), AWAY, renewed(90)], 90],
    ['two of three, and the third has lost it', 3, [renewed(100), lost(9), renewed(80)], 80],
    ['two of three, and the third has not answered yet', 3, [renewed(100), renewed(80)], 80],
    ['four of five, for the third', 5, [renewed(1), renewed(4), renewed(3), UNKNOWN, renewed(2)], 2],
    ['the only one', 1, [renewed(50)], 50],
  ])('succeeds by %s', (_by, count, answers, remainingMs) => {
    expect(merge(mergeRenewals, count, answers)).toEqual({ outcome: 'renewed', remainingMs });
  });

  it.each<[string, number, (RenewReply | Error)[], LostReply]>([
    ['two of three', 3, [lost(7), renewed(100), lost(9)], lost(9)],
    ['two of four', 4, [renewed(100), lost(7), lost(8), renewed(100)], lost(8)],
    ['three of five', 5, [lost(1), AWAY, lost(3), UNKNOWN, lost(2)], lost(3)],
    ['two of three, one of them revoked', 3, [lost(7, true), lost(9), AWAY], lost(9, true)],
  ])('is lost by %s', (_by, count, answers, loss) => expect(merge(mergeRenewals, count, answers)).toEqual(loss));

  it.each<[string, number, (RenewReply | Error)[], Error | undefined]>([
    ['one renewed, one lost it, one is away', 3, [renewed(100), lost(9), AWAY], AWAY],
    ['one renewed, one lost it, one does not know', 3, [renewed(100), lost(9), UNKNOWN], cause],
    ['one does not know and one is away', 3, [AWAY, UNKNOWN, renewed(100)], cause],
    ['two of four renewed', 4, [renewed(100), renewed(100), lost(9), AWAY], AWAY],
    ['no node answered yet', 3, [], undefined],
  ])('is unknown when %s', (_when, count, answers, told) => {
    expect(merge(mergeRenewals, count, answers)).toStrictEqual({ outcome: 'unknown', cause: told });
  });
});

describe('a release', () => {
  it.each<[string, number, ReleaseReply['outcome'][], ReleaseReply['outcome']]>([
    ['two of three', 3, ['released', 'unknown', 'released'], 'released'],
    ['two, both before', 3, ['again', 'again'], 'again'],
    ['a majority, one of which only waited', 3, ['cancelled', 'again'], 'again'],
    ['a majority that only waited', 3, ['cancelled', 'cancelled'], 'cancelled'],
  ])('is confirmed by %s', (_by, count, outcomes, outcome) => {
    const answers = outcomes.map((one) => gone(one));
    expect(merge(mergeReleases, count, answers)).toEqual(gone(outcome));
  });

  it.each<[string, number, ReleaseReply['outcome'][], ReleaseReply['outcome']]>([
    ['two of three whose lease ended', 3, ['expired', 'released', 'expired'], 'expired'],
    ['an operator, on one', 3, ['expired', 'revoked', 'released'], 'revoked'],
    ['two that do not have it', 3, ['unknown', 'unknown'], 'unknown'],
    ['two that did not have it when it was first released', 3, ['lost', 'released', 'lost'], 'lost'],
    ['one that did not have it then, and one that does not now', 3, ['lost', 'unknown'], 'unknown'],
    ['one that does not have it and one whose lease ended', 3, ['unknown', 'expired'], 'expired'],
    ['two of four', 4, ['released', 'expired', 'unknown', 'released'], 'expired'],
  ])('is too late by %s', (_by, count, outcomes, outcome) => {
    const answers = outcomes.map((one) => gone(one));
    expect(merge(mergeReleases, count, answers)).toEqual(gone(outcome));
  });

  it.each<[string, number, (ReleaseReply | Error)[]]>([
    ['no node answered', 3, []],
    ['one confirmed and one does not have it', 3, [gone('released'), gone('unknown'), AWAY]],
    ['two of four confirmed', 4, [gone('released'), gone('released'), AWAY, gone('unknown')]],
  ])('is undecided when %s', (_when, count, answers) => {
    expect(merge(mergeReleases, count, answers)).toBeUndefined();
  });

  it.each([
    ['all agree', [2, 2, 2], 2],
    ['a majority has them', [1, 0, 2], 1],
    ['one alone has them', [0, 3, 0], 0],
    ['one has them, and the third has not answered yet', [0, 1], 1],
    ['no node has them, and the third has not answered yet', [0, 0], 0],
  ])('leaves the holds that a majority has: %s', (_when, holds, left) => {
    const answers = holds.map((count, i) => gone('released', count, i));
    expect(merge(mergeReleases, 3, answers)).toEqual(gone('released', left, holds.length - 1));
  });
});

describe('too few answers', () => {
  const nodes = nodesOf(3);
  const check = (answers: readonly (number | Error)[]): unknown => {
    try {
      return checkAnswered('k', nodes, votesOf(nodes, answers));
    } catch (error) {
      return error;
    }
  };

  it('are fewer than a majority', () => {
    expect(check([1, AWAY, 3])).toBeUndefined();
    expect(check([1, AWAY, AWAY])).toMatchObject({
      message:
        'Only 1 of 3 masters answered for the lock "k", and a majority of 2 is needed. Nodes: n2 unreachable ' +
        '(connection lost); n3 unreachable (connection lost).',
      key: 'k',
      cause: AWAY,
      retryable: true,
    });
  });
});

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
    ['a majority has while another tries', merged(3, state([B]), state([A]), state([A])), 'write', ['a']],
    ['a majority of readers has', merged(3, state([R, S]), state([S]), state([R, S])), 'read', ['r', 's']],
    ['one of two that answer has', merged(3, state([A]), state()), 'write', ['a']],
    ['one of three of five that answer has', merged(5, state([A]), state(), state()), 'write', ['a']],
  ])('has the holders that %s', (_who, { mode, holders }, expectedMode, expected) => {
    expect([mode, holders.map(({ attempt }) => attempt).sort()]).toEqual([expectedMode, expected]);
  });

  it.each<[string, LockState]>([
    ['one of three', merged(3, state([A]), state(), state())],
    ['two of four', merged(4, state([A]), state([A]), state(), state())],
    ['two of five', merged(5, state([A]), state([A]), state([B]), state([B]), state([C]))],
    ['one reader on each', merged(3, state([R]), state([S]), state([T]))],
  ])('omits what only %s has', (_who, { mode, holders }) => {
    expect([mode, holders]).toEqual(['free', []]);
  });

  it('has at most one writer, the one that most nodes report', () => {
    expect(attempts(merged(5, state([A]), state([B]), state([B])))).toEqual(['b']);
    expect(attempts(merged(3, state([A]), state([B])))).toHaveLength(1);
  });

  it('has no writer next to readers that more nodes report', () => {
    const { mode, holders } = merged(5, state([A]), state([R, S]), state([R]));
    expect([mode, holders.map(({ attempt }) => attempt)]).toEqual(['read', ['r', 's']]);
  });

  it('has all holds of the owner that writes', () => {
    const [first, again, other] = [holder('a', { owner: 'ann' }), holder('b', { owner: 'ann' }), B];
    const { mode, holders } = merged(3, state([first, again]), state([again, first]), state([other]));
    expect([mode, holders.map(({ attempt }) => attempt).sort()]).toEqual(['write', ['a', 'b']]);
    // A hold of a minority is not a re-entry.
    expect(attempts(merged(3, state([first, again]), state([first]), state([first])))).toEqual(['a']);
  });

  it.each([
    ['write', 3, ['write', 'write', 'read']],
    ['read', 3, ['write', 'read', 'read']],
    ['read', 3, ['read', 'read', 'write']],
    ['read', 5, ['write', 'write', 'read', 'read', 'read']],
    ['read', 4, ['read', 'read', 'write', 'write']],
    // One of two that answer may belong to the majority.
    ['write', 3, ['read', 'write']],
  ] as const)('is held for %sing when of %d nodes some may have missed the downgrade', (expected, count, modes) => {
    const { mode, holders } = merged(count, ...modes.map((mode) => state([holder('a', { mode })])));
    expect([mode, holders.map((one) => one.mode)]).toEqual([expected, [expected]]);
  });

  it.each([
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

  it('has the writer whose owner also reads on one node more', () => {
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

  /** Of nodes that all have answered. */
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
    ['is that of the only node that remembers one', [null, run(1_000), null], run(1_000)],
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
      'is lost when no majority has its lock any longer',
      [run(1_000), run(1_000, LOST), run(1_000, LOST)],
      run(1_000, LOST),
    ],
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
    // Each node reports the last run of each job.
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
});
