import { describe, expect, it } from '@jest/globals';
import { type LastRun, type LockHolder, type LockState } from '../../../../lib/core/lock-store.js';
import { mergeRuns, mergeStates } from '../../../../lib/redis/quorum/quorum-merge.js';
import { nodesOf } from './fake-nodes.js';

const holder = (attempt: string, rest: Partial<LockHolder> = {}): LockHolder => ({
  owner: attempt,
  attempt,
  mode: 'write',
  host: 'host',
  pid: 1,
  context: '',
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
  ])('leaves out what only %s has', (_who, { mode, holders }) => {
    expect([mode, holders]).toEqual(['free', []]);
  });

  it('has one writer at most, the one that most nodes have', () => {
    expect(attempts(merged(5, state([A]), state([B]), state([B])))).toEqual(['b']);
    expect(attempts(merged(3, state([A]), state([B])))).toHaveLength(1);
  });

  it('has no writer beside readers that more nodes have', () => {
    const { mode, holders } = merged(5, state([A]), state([R, S]), state([R]));
    expect([mode, holders.map(({ attempt }) => attempt)]).toEqual(['read', ['r', 's']]);
  });

  it('tells of a hold the greatest token, and for how long a majority has it', () => {
    const holds = [
      [7, 3_000],
      [9, 1_000],
      [8, 2_000],
    ].map(([fencingToken, remainingMs]) =>
      state([holder('a', { fencingToken: fencingToken!, remainingMs: remainingMs! })]),
    );
    expect(merged(3, ...holds).holders).toEqual([holder('a', { fencingToken: 9, remainingMs: 2_000 })]);
    // One of those that answer is enough.
    expect(merged(3, ...holds.slice(1)).holders).toEqual([holder('a', { fencingToken: 9, remainingMs: 2_000 })]);
  });

  it('tells the greatest token and the most waiters of any node', () => {
    const states = [
      state([], { fencingToken: 5, waiters: 0 }),
      state([], { fencingToken: 9, waiters: 3 }),
      state([], { fencingToken: 0, waiters: 1 }),
    ];
    expect(merged(3, ...states)).toEqual({ key: 'k', mode: 'free', holders: [], waiters: 3, fencingToken: 9 });
  });
});

describe('the last run', () => {
  const run = (startedMs: number, rest: Partial<LastRun> = {}): LastRun => ({
    fire: new Date(0),
    instance: 'host:1',
    started: new Date(startedMs),
    ended: null,
    outcome: 'running',
    ...rest,
  });

  it.each<[string, (LastRun | null)[], LastRun | null]>([
    ['is the latest that a node remembers', [run(1_000), run(3_000), run(2_000)], run(3_000)],
    ['is that of the only node that remembers one', [null, run(1_000), null], run(1_000)],
    ['is none where no node remembers one', [null, null, null], null],
  ])('%s', (_what, runs, expected) => expect(mergeRuns(runs)).toEqual(expected));
});
