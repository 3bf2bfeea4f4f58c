import { type LostReply, type ReleaseReply, type RenewReply } from '../../../../../lib/core/store/lock-store.js';
import { LockStoreError } from '../../../../../lib/core/lock.errors.js';
import {
  checkAnswered,
  mayAnswerOnRetry,
  mergeDowngrades,
  mergeLosses,
  mergeReleases,
  mergeRenewals,
  tooFew,
  valuesOf,
} from '../../../../../lib/redis/quorum/quorum-merge.js';
import { type QuorumNode } from '../../../../../lib/redis/quorum/quorum-node.js';
import { type Vote, rulesOutMajority } from '../../../../../lib/redis/quorum/votes.js';
import { nodesOf, votesOf } from '../fake-nodes.js';

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

describe('the number of losses that rules out a majority', () => {
  it.each([
    [1, 1],
    [2, 1],
    [3, 2],
    [4, 2],
    [5, 3],
    [6, 3],
    [7, 4],
  ])('of %d nodes begins with %d losses', (count, losses) => {
    expect([rulesOutMajority(nodesOf(count), losses - 1), rulesOutMajority(nodesOf(count), losses)]).toEqual([
      false,
      true,
    ]);
  });
});

describe('a renewal', () => {
  it.each<[string, number, (RenewReply | Error)[], number]>([
    ['two of three, for the shorter', 3, [renewed(100), AWAY, renewed(90)], 90],
    ['all of three, for the second', 3, [renewed(70), renewed(100), renewed(90)], 90],
    ['two of three, and the third has lost it', 3, [renewed(100), lost(9), renewed(80)], 80],
    ['two of three, and the third was revoked', 3, [renewed(100), lost(9, true), renewed(80)], 80],
    ['two of three, and the third is not heard yet', 3, [renewed(100), renewed(80)], 80],
    ['four of five, for the third', 5, [renewed(1), renewed(4), renewed(3), UNKNOWN, renewed(2)], 2],
    ['all of four, for the third', 4, [renewed(1), renewed(4), renewed(3), renewed(2)], 2],
    ['the only one', 1, [renewed(50)], 50],
  ])('succeeds by %s', (_by, count, answers, remainingMs) => {
    expect(merge(mergeRenewals, count, answers)).toEqual({ outcome: 'renewed', remainingMs });
  });

  it.each<[string, number, (RenewReply | Error)[], LostReply]>([
    ['two of three', 3, [lost(7), renewed(100), lost(9)], lost(9)],
    ['two of three, before the third is heard', 3, [lost(7), lost(6)], lost(7)],
    ['two of four', 4, [renewed(100), lost(7), lost(8), renewed(100)], lost(8)],
    ['three of five', 5, [lost(1), AWAY, lost(3), UNKNOWN, lost(2)], lost(3)],
    ['two of three, one of them revoked', 3, [lost(7, true), lost(9), AWAY], lost(9, true)],
  ])('is lost by %s', (_by, count, answers, loss) => expect(merge(mergeRenewals, count, answers)).toEqual(loss));

  it.each<[string, number, (RenewReply | Error)[], Error | undefined]>([
    ['one renewed, one lost it, one is away', 3, [renewed(100), lost(9), AWAY], AWAY],
    ['one renewed, one lost it, one does not know', 3, [renewed(100), lost(9), UNKNOWN], cause],
    ['one does not know and one is away', 3, [AWAY, UNKNOWN, renewed(100)], cause],
    ['all are away', 3, [AWAY, AWAY, AWAY], AWAY],
    ['two of four renewed', 4, [renewed(100), renewed(100), lost(9), AWAY], AWAY],
    ['one was revoked', 3, [renewed(100), lost(9, true), AWAY], AWAY],
    ['nobody was heard yet', 3, [], undefined],
  ])('is unknown when %s', (_when, count, answers, told) => {
    expect(merge(mergeRenewals, count, answers)).toStrictEqual({ outcome: 'unknown', cause: told });
  });

  it('reports the last token of all when it is lost, and whether any was revoked', () => {
    expect(mergeLosses([lost(3), lost(9, true), lost(5)])).toEqual(lost(9, true));
    expect(mergeLosses([lost(3), lost(2)])).toEqual(lost(3));
  });
});

describe('a downgrade', () => {
  const DONE = { outcome: 'downgraded' } as const;
  type Reply = typeof DONE | LostReply;

  it.each<[string, number, (Reply | Error)[]]>([
    ['two of three', 3, [DONE, AWAY, DONE]],
    ['two of three, before the third is heard', 3, [DONE, DONE]],
    ['two of three, and the third has lost it', 3, [DONE, lost(9, true), DONE]],
    ['three of four', 4, [DONE, DONE, lost(9), DONE]],
    ['three of five', 5, [DONE, lost(1), lost(2), DONE, DONE]],
    ['the only one', 1, [DONE]],
  ])('is confirmed by %s', (_by, count, answers) => {
    expect(merge(mergeDowngrades, count, answers)).toEqual(DONE);
  });

  it.each<[string, number, (Reply | Error)[], LostReply]>([
    ['two of three', 3, [lost(7), DONE, lost(9)], lost(9)],
    ['two of three, before the third is heard', 3, [lost(7), lost(6, true)], lost(7, true)],
    ['two of four', 4, [DONE, lost(7), lost(8), DONE], lost(8)],
    ['three of five', 5, [lost(1), AWAY, lost(3), DONE, lost(2)], lost(3)],
  ])('is lost by %s', (_by, count, answers, loss) => expect(merge(mergeDowngrades, count, answers)).toEqual(loss));

  it.each<[string, number, (Reply | Error)[]]>([
    ['nobody was heard', 3, []],
    ['one of three confirmed', 3, [DONE, AWAY, AWAY]],
    ['one confirmed and one has lost it', 3, [DONE, lost(9), AWAY]],
    ['two of four confirmed', 4, [DONE, DONE, AWAY, lost(9)]],
    ['two of five have lost it', 5, [lost(9), DONE, DONE, lost(9), AWAY]],
  ])('is undecided when %s', (_when, count, answers) => {
    expect(merge(mergeDowngrades, count, answers)).toBeUndefined();
  });
});

describe('a release', () => {
  it.each<[string, number, ReleaseReply['outcome'][], ReleaseReply['outcome']]>([
    ['two of three', 3, ['released', 'unknown', 'released'], 'released'],
    ['two of three, one of them before', 3, ['again', 'expired', 'released'], 'released'],
    ['two, both before', 3, ['again', 'again'], 'again'],
    ['a majority, one of which only waited', 3, ['cancelled', 'again'], 'again'],
    ['a majority that only waited', 3, ['cancelled', 'cancelled'], 'cancelled'],
    ['three of four', 4, ['released', 'unknown', 'released', 'released'], 'released'],
  ])('is confirmed by %s', (_by, count, outcomes, outcome) => {
    const answers = outcomes.map((one) => gone(one));
    expect(merge(mergeReleases, count, answers)).toEqual(gone(outcome));
  });

  it.each<[string, number, ReleaseReply['outcome'][], ReleaseReply['outcome']]>([
    ['two of three whose lease ended', 3, ['expired', 'released', 'expired'], 'expired'],
    ['an operator, on one', 3, ['expired', 'revoked', 'released'], 'revoked'],
    ['two that know nothing of it', 3, ['unknown', 'unknown'], 'unknown'],
    ['one that knows nothing and one whose lease ended', 3, ['unknown', 'expired'], 'expired'],
    ['two of four', 4, ['released', 'expired', 'unknown', 'released'], 'expired'],
  ])('is too late by %s', (_by, count, outcomes, outcome) => {
    const answers = outcomes.map((one) => gone(one));
    expect(merge(mergeReleases, count, answers)).toEqual(gone(outcome));
  });

  it.each<[string, number, (ReleaseReply | Error)[]]>([
    ['nobody was heard', 3, []],
    ['one of three confirmed', 3, [gone('released'), AWAY, AWAY]],
    ['one confirmed and one knows nothing', 3, [gone('released'), gone('unknown'), AWAY]],
    ['two of four confirmed', 4, [gone('released'), gone('released'), AWAY, gone('unknown')]],
  ])('is undecided when %s', (_when, count, answers) => {
    expect(merge(mergeReleases, count, answers)).toBeUndefined();
  });

  it.each([
    ['all agree', [2, 2, 2], 2],
    ['a majority has them', [1, 0, 2], 1],
    ['one alone has them', [0, 3, 0], 0],
    ['one has them, and the third is not heard yet', [0, 1], 1],
    ['nobody has them, and the third is not heard yet', [0, 0], 0],
  ])('leaves the holds that a majority has: %s', (_when, holds, left) => {
    const answers = holds.map((count, i) => gone('released', count, i));
    expect(merge(mergeReleases, 3, answers)).toEqual(gone('released', left, holds.length - 1));
  });
});

describe('too few answers', () => {
  const nodes = nodesOf(3);
  const hopeless = new LockStoreError('WRONGPASS', { retryable: false });
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

  it.each([
    [true, [AWAY, hopeless, 1]],
    [false, [hopeless, hopeless, 1]],
    [true, [1]],
  ])('may be retried: %s', (retryable, answers) => {
    expect(tooFew('k', nodes, votesOf(nodes, answers), 'Only 1')).toMatchObject({ retryable });
  });

  it.each([
    [true, 3, 0],
    [true, 3, 1],
    [false, 3, 2],
    [true, 4, 1],
    [false, 4, 2],
    [true, 5, 2],
    [false, 5, 3],
    [false, 1, 1],
  ])('may become enough: %s, of %d nodes when %d are hopeless', (may, count, gone) => {
    const failures = [
      ...Array.from({ length: gone }, () => hopeless),
      ...Array.from({ length: count - gone }, () => AWAY),
    ];
    expect(mayAnswerOnRetry(nodesOf(count), failures)).toBe(may);
  });

  it('may become enough when any number of failed nodes may come back', () => {
    expect(mayAnswerOnRetry(nodes, [AWAY, new LockStoreError('down'), undefined])).toBe(true);
  });

  it('include a value that is false or null', () => {
    expect(valuesOf(votesOf(nodes, [false, null, AWAY]))).toEqual([false, null]);
  });
});
