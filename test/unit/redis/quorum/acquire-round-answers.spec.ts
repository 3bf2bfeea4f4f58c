import { describe, expect, it } from '@jest/globals';
import { type AcquireReply } from '../../../../lib/core/lock-store.js';
import { LockConfigurationError, LockStoreError } from '../../../../lib/core/lock.errors.js';
import { AcquireRound } from '../../../../lib/redis/quorum/acquire-round.js';
import { acquireRequest, busy, granted, nodesOf, refused, votesOf } from './fake-nodes.js';

type Answer = AcquireReply | Error | undefined;
const [G, B] = [granted(), busy()];
const [CLAIMED, UPGRADE, RELEASED] = [refused('claimed'), refused('upgrade'), refused('released')];
const AWAY = new LockStoreError('connect ECONNREFUSED 127.0.0.1:1.');

const roundOf = (answers: readonly Answer[], keys = ['k']): AcquireRound => {
  const nodes = nodesOf(answers.length);
  return new AcquireRound(nodes, acquireRequest({ keys }), votesOf(nodes, answers));
};
const errorOf = (answers: readonly Answer[], keys?: string[]): LockStoreError => {
  try {
    roundOf(answers, keys).notWon();
  } catch (error) {
    return error as LockStoreError;
  }
  throw new Error('It did not throw.');
};

describe('a round is refused', () => {
  it.each<[string, Answer[], AcquireReply]>([
    ['by a majority that says the fire is claimed', [CLAIMED, G, CLAIMED], CLAIMED],
    ['by a majority of four', [CLAIMED, CLAIMED, B, CLAIMED], CLAIMED],
    ['by a majority, though the rest is away', [CLAIMED, AWAY, CLAIMED], CLAIMED],
    ['by one that knows an upgrade', [B, UPGRADE, B], UPGRADE],
    ['by one that knows an upgrade, though others granted', [G, UPGRADE, B], UPGRADE],
    ['by one that knows the release', [B, B, RELEASED], RELEASED],
    ['by the only one that answers', [AWAY, RELEASED, AWAY], RELEASED],
    ['by one that knows the release, when few say that it is claimed', [CLAIMED, RELEASED, B], RELEASED],
    ['by the majority first', [RELEASED, CLAIMED, CLAIMED], CLAIMED],
  ])('%s', (_by, answers, refusal) => expect(roundOf(answers).notWon()).toEqual(refusal));

  it.each<[string, Answer[]]>([
    ['by one of three', [CLAIMED, B, B]],
    ['by half of four', [CLAIMED, CLAIMED, B, B]],
    ['by one, while another granted', [CLAIMED, G, AWAY]],
  ])('not as claimed %s', (_by, answers) => {
    expect(roundOf(answers).notWon()).toMatchObject({ outcome: 'busy', isSplit: true });
  });
});

describe('a round without a majority of answers', () => {
  it.each<[number, string, Answer[]]>([
    [0, '3', [AWAY, AWAY, AWAY]],
    [1, '3', [B, AWAY, AWAY]],
    [1, '3', [AWAY, G, AWAY]],
    [2, '4', [G, B, AWAY, AWAY]],
    [1, '3', [CLAIMED, AWAY, AWAY]],
  ])('is unavailable: %d of %s', (answered, count, answers) => {
    const error = errorOf(answers);
    expect(error).toBeInstanceOf(LockStoreError);
    expect(error.message).toContain(
      `Only ${answered} of ${count} masters answered for the lock "k", and a majority is needed. Nodes: n1 `,
    );
  });

  it('tells the keys, each node, and the first cause', () => {
    const silent = new Error('no answer within 60 ms');
    const error = errorOf([busy({ holder: 'host:2' }), AWAY, silent], ['a', 'b']);
    expect(error.message).toBe(
      'Only 1 of 3 masters answered for the lock "a, b", and a majority is needed. Nodes: n1 busy (held by host:2); ' +
        'n2 unreachable (connect ECONNREFUSED 127.0.0.1:1); n3 unreachable (no answer within 60 ms).',
    );
    expect([error.key, error.cause]).toEqual(['a, b', AWAY]);
    expect(error.nodes).toHaveLength(3);
  });

  const HOPELESS = new LockStoreError('WRONGPASS', { retryable: false });
  it.each<[boolean, string, Answer[]]>([
    [true, 'all may come back', [AWAY, AWAY, B]],
    [true, 'one may come back', [HOPELESS, AWAY, B]],
    [true, 'one was silent', [HOPELESS, new Error('no answer within 60 ms'), HOPELESS]],
    [false, 'none will', [HOPELESS, HOPELESS, B]],
    [false, 'none of all will', [HOPELESS, HOPELESS, HOPELESS]],
  ])('may be asked again: %s, when %s', (retryable, _when, answers) => {
    expect(errorOf(answers).retryable).toBe(retryable);
  });

  it('is not one where a majority answered', () => {
    expect(roundOf([B, AWAY, B]).notWon()).toMatchObject({ outcome: 'busy', isSplit: false });
  });

  it.each<[string, (error: Error) => Answer[]]>([
    ['no others answered', (error) => [AWAY, error, AWAY]],
    ['a majority is busy', (error) => [B, B, error]],
    ['one refused', (error) => [UPGRADE, error, B]],
  ])('is set up wrongly when one node says so, though %s', (_when, answersWith) => {
    const error = new LockConfigurationError('The same server.');
    expect(errorOf(answersWith(error))).toBe(error);
  });
});

describe('the answers of a round', () => {
  it('stand in the order of the nodes, whatever that of the votes is', () => {
    const nodes = nodesOf(3);
    const votes = votesOf<AcquireReply>(nodes, [G, B, AWAY]).toReversed();
    const round = new AcquireRound(nodes, acquireRequest(), votes);
    expect(round.answers().map(({ node, answer }) => [node, answer])).toEqual([
      ['n1', 'granted'],
      ['n2', 'busy'],
      ['n3', 'unreachable'],
    ]);
  });

  it.each<[Answer, string, string]>([
    [G, 'granted', ''],
    [busy(), 'busy', ''],
    [busy({ holder: 'host:2 Orders.pay' }), 'busy', 'held by host:2 Orders.pay'],
    [CLAIMED, 'refused', 'claimed'],
    [UPGRADE, 'refused', 'upgrade'],
    [RELEASED, 'refused', 'released'],
    [new Error('connection lost.'), 'unreachable', 'connection lost'],
    [undefined, 'unreachable', 'not waited for'],
  ])('say of %j: %s (%s)', (answer, outcome, detail) => {
    expect(roundOf([answer]).answers()).toEqual([{ node: 'n1', answer: outcome, detail }]);
  });

  it('travel with a busy reply', () => {
    const round = roundOf([G, B, AWAY]);
    expect(round.notWon()).toMatchObject({ nodes: round.answers() });
  });
});
