import { systemRandomness } from '../../../../../lib/core/randomness.js';
import { type AcquireReply } from '../../../../../lib/core/store/lock-store.js';
import { LockConfigurationError, LockStoreError } from '../../../../../lib/core/lock.errors.js';
import { AcquireRound } from '../../../../../lib/redis/quorum/acquire-round.js';
import { acquireRequest, busy, givenBack, granted, nodesOf, refused, votesOf } from '../fake-nodes.js';

type Answer = AcquireReply | Error | undefined;
const [G, B] = [granted(), busy()];
const [CLAIMED, UPGRADE, RELEASED] = [refused('claimed'), refused('upgrade'), refused('released')];
const [BY_X, BY_Y] = [refused('claimed', 'x.1'), refused('claimed', 'y.1')];
const AWAY = new LockStoreError('connect ECONNREFUSED 127.0.0.1:1.', { wasSent: false });
const HOPELESS = new LockStoreError('WRONGPASS', { retryable: false, wasSent: false });
const LOST = new LockStoreError('The connection was lost.');
const SILENT = new Error('no answer within 60 ms');
const NO_REPLICA = givenBack(new LockStoreError('Only 0 of 1 replicas confirmed.'));

const roundOf = (answers: readonly Answer[], keys = ['k']): AcquireRound => {
  const nodes = nodesOf(answers.length);
  return new AcquireRound(nodes, acquireRequest({ keys }), votesOf(nodes, answers));
};
/** What it throws, or why it was given back. */
const errorOf = (answers: readonly Answer[], keys?: string[]): LockStoreError => {
  try {
    const reply = roundOf(answers, keys).notWon(systemRandomness);
    if (reply.outcome === 'given-back') return reply.cause;
  } catch (error) {
    return error as LockStoreError;
  }
  throw new Error('It did not throw.');
};

describe('the refusal of a round', () => {
  it.each<[string, Answer[], AcquireReply]>([
    ['by a majority that says the fire was run', [CLAIMED, G, CLAIMED], CLAIMED],
    ['by a majority of four', [CLAIMED, CLAIMED, B, CLAIMED], CLAIMED],
    ['by a majority, though the rest is away', [CLAIMED, AWAY, CLAIMED], CLAIMED],
    ['by one of three that says the fire was run', [B, CLAIMED, B], CLAIMED],
    ['by half of four', [CLAIMED, CLAIMED, B, B], CLAIMED],
    ['by one that says the fire was run, while another granted', [CLAIMED, G, AWAY], CLAIMED],
    ['by one that says the fire was run, though others name its attempt', [BY_X, CLAIMED, BY_X], CLAIMED],
    ['by the only one that answers and says the fire was run', [CLAIMED, AWAY, AWAY], CLAIMED],
    ['by a majority that names one attempt', [BY_X, B, BY_X], BY_X],
    ['by a majority that names one attempt, though another granted', [G, BY_X, BY_X], BY_X],
    ['by a majority that names one attempt, though the rest is away', [BY_X, AWAY, BY_X], BY_X],
    ['by three of five that name one attempt', [BY_X, BY_Y, BY_X, BY_Y, BY_X], BY_X],
    ['by a majority that knows an upgrade', [UPGRADE, B, UPGRADE], UPGRADE],
    ['by so many that know an upgrade that every majority has one', [UPGRADE, G, B, UPGRADE], UPGRADE],
    ['by those that know an upgrade, though the rest is away', [UPGRADE, AWAY, UPGRADE], UPGRADE],
    ['by those that know an upgrade, before a claim', [CLAIMED, UPGRADE, UPGRADE], UPGRADE],
    ['by one that knows the release', [B, B, RELEASED], RELEASED],
    ['by one that knows the release, though others granted', [G, RELEASED, B], RELEASED],
    ['by the only one that answers', [AWAY, RELEASED, AWAY], RELEASED],
    ['by one that knows the release, when few say that it is claimed', [CLAIMED, RELEASED, B], RELEASED],
    ['by one that knows the release before all else', [CLAIMED, CLAIMED, RELEASED], RELEASED],
    ['by one that knows the release before an upgrade', [UPGRADE, UPGRADE, RELEASED], RELEASED],
  ])('comes %s', (_by, answers, refusal) => expect(roundOf(answers).notWon(systemRandomness)).toEqual(refusal));

  it.each<[string, Answer[]]>([
    ['one knows that it was run, and another an attempt', [BY_X, CLAIMED, B]],
    ['each knows something else', [BY_X, BY_Y, CLAIMED]],
  ])('is `claimed` when %s', (_when, answers) => {
    expect(roundOf(answers).notWon(systemRandomness)).toMatchObject({ outcome: 'refused', reason: 'claimed' });
  });

  it.each<[string, Answer[]]>([
    ['one of three names an attempt', [BY_X, busy({ owner: 'a' }), busy({ owner: 'b' })]],
    ['one of three names an attempt, while another granted', [BY_X, G, AWAY]],
    ['two of three name two attempts', [BY_X, BY_Y, B]],
    ['half of four name one attempt, and half another', [BY_X, BY_X, BY_Y, BY_Y]],
    ['two of five name one attempt', [BY_X, BY_X, BY_Y, BY_Y, B]],
  ])('is not `claimed` when %s: the votes are split', (_when, answers) => {
    expect(roundOf(answers).notWon(systemRandomness)).toMatchObject({ outcome: 'busy', isSplit: true });
  });

  it('is not `claimed` when one names an attempt, and a majority holds it: it is busy', () => {
    const held = busy({ owner: 'x.1' });
    expect(roundOf([BY_X, held, held]).notWon(systemRandomness)).toMatchObject({
      outcome: 'busy',
      isSplit: false,
      isSpent: false,
    });
  });

  it.each<[string, Answer[], boolean]>([
    ['one of three knows one', [B, UPGRADE, B], false],
    ['one of three knows one, and another granted', [G, UPGRADE, busy({ owner: 'a' })], true],
    ['one of four knows one', [B, B, UPGRADE, B], false],
    ['two of five know one', [UPGRADE, B, UPGRADE, B, B], false],
  ])('is not `upgrade` when %s', (_when, answers, isSplit) => {
    expect(roundOf(answers).notWon(systemRandomness)).toMatchObject({ outcome: 'busy', isSplit });
  });
});

describe('a round without a majority of answers', () => {
  it.each<[number, string, Answer[]]>([
    [0, '3', [AWAY, AWAY, AWAY]],
    [1, '3', [B, AWAY, AWAY]],
    [2, '4', [B, B, AWAY, AWAY]],
    [1, '3', [BY_X, AWAY, AWAY]],
    [1, '3', [UPGRADE, AWAY, AWAY]],
  ])('is unavailable when it left nothing: %d of %s', (answered, count, answers) => {
    expect(() => roundOf(answers).notWon(systemRandomness)).toThrow(LockStoreError);
    expect(errorOf(answers).message).toContain(
      `Only ${answered} of ${count} masters answered for the lock "k", and a majority is needed. Nodes: n1 `,
    );
  });

  it.each<[number, string, Answer[]]>([
    [1, '3', [AWAY, G, AWAY]],
    [2, '4', [G, B, AWAY, AWAY]],
    [1, '3', [NO_REPLICA, G, NO_REPLICA]],
    [1, '3', [B, NO_REPLICA, NO_REPLICA]],
    [1, '3', [NO_REPLICA, AWAY, B]],
    [2, '5', [G, AWAY, AWAY, G, AWAY]],
    // Sent, and never answered: a call that does not wait gives it back.
    [1, '3', [B, AWAY, LOST]],
    [0, '3', [AWAY, SILENT, AWAY]],
    [2, '5', [B, AWAY, AWAY, undefined, B]],
    [1, '3', [BY_X, AWAY, LOST]],
  ])('is unavailable, and gives back what it granted or may have granted: %d of %s', (answered, count, answers) => {
    const reply = roundOf(answers).notWon(systemRandomness);
    expect(reply).toStrictEqual({ outcome: 'given-back', cause: expect.any(LockStoreError) });
    const { cause } = reply as { cause: LockStoreError };
    expect(cause.message).toContain(`Only ${answered} of ${count} masters answered for the lock "k", and a majority`);
    expect(cause.nodes).toEqual(roundOf(answers).answers());
    expect(cause.retryable).toBe(true);
  });

  it('reports the keys, each node, and the first cause', () => {
    const error = errorOf([busy({ holder: 'host:2' }), AWAY, SILENT], ['a', 'b']);
    expect(error.message).toBe(
      'Only 1 of 3 masters answered for the lock "a, b", and a majority is needed. Nodes: n1 busy (held by host:2); ' +
        'n2 unreachable (connect ECONNREFUSED 127.0.0.1:1); n3 unreachable (no answer within 60 ms).',
    );
    expect([error.key, error.cause]).toEqual(['a, b', AWAY]);
    expect(error.nodes).toHaveLength(3);
  });

  it('reports why a node gave its grant back', () => {
    const { cause: error } = roundOf([NO_REPLICA, B, AWAY]).notWon(systemRandomness) as { cause: LockStoreError };
    expect(error.message).toContain('n1 unreachable (Only 0 of 1 replicas confirmed); n2 busy; n3 unreachable');
    expect(error.cause).toBe((NO_REPLICA as { cause?: unknown }).cause);
  });

  const RETRIES: [boolean, string, Answer[]][] = [
    [true, 'all may come back', [AWAY, AWAY, B]],
    [true, 'one may come back', [HOPELESS, AWAY, B]],
    [true, 'two of three may', [HOPELESS, SILENT, AWAY]],
    [false, 'one was silent, and the others will not', [HOPELESS, SILENT, HOPELESS]],
    [false, 'none will', [HOPELESS, HOPELESS, B]],
    [false, 'none of all will', [HOPELESS, HOPELESS, HOPELESS]],
    [true, 'three of four may', [HOPELESS, AWAY, AWAY, B]],
    [false, 'only half of four may', [HOPELESS, HOPELESS, AWAY, B]],
    [true, 'three of five may', [HOPELESS, HOPELESS, AWAY, AWAY, AWAY]],
    [false, 'two of five may', [HOPELESS, HOPELESS, HOPELESS, AWAY, B]],
  ];
  it.each(RETRIES)('may be retried: %s, when %s', (retryable, _when, answers) => {
    expect(errorOf(answers).retryable).toBe(retryable);
  });

  it.each<[boolean, Answer[]]>([
    [true, [G, HOPELESS, AWAY]],
    [false, [G, HOPELESS, HOPELESS]],
    [false, [HOPELESS, givenBack(HOPELESS), B]],
  ])('may be retried after it was given back: %s', (retryable, answers) => {
    expect(roundOf(answers).notWon(systemRandomness)).toMatchObject({ outcome: 'given-back', cause: { retryable } });
  });

  it('does not occur when a majority answered', () => {
    expect(roundOf([B, AWAY, B]).notWon(systemRandomness)).toMatchObject({
      outcome: 'busy',
      isSplit: false,
      isSpent: false,
    });
    expect(roundOf([B, NO_REPLICA, B]).notWon(systemRandomness)).toMatchObject({
      outcome: 'busy',
      isSplit: false,
      isSpent: true,
    });
  });

  it('keeps the places of a waiting attempt: nothing is given back, and the same attempt asks again', () => {
    const nodes = nodesOf(3);
    const request = acquireRequest({ waiterLeaseMs: 3_000 });
    const round = new AcquireRound(nodes, request, votesOf<AcquireReply>(nodes, [B, LOST, SILENT]));
    expect(round.isSpent).toBe(false);
    expect(() => round.notWon(systemRandomness)).toThrow(LockStoreError);
  });

  it.each<[string, (error: Error) => Answer[]]>([
    ['no others answered', (error) => [AWAY, error, AWAY]],
    ['a majority is busy', (error) => [B, B, error]],
    ['one refused', (error) => [RELEASED, error, B]],
    ['one granted', (error) => [G, error, AWAY]],
  ])('is misconfigured when one node says so, though %s', (_what, answersWith) => {
    const error = new LockConfigurationError('The same server.');
    expect(errorOf(answersWith(error))).toBe(error);
  });
});

describe('the answers of a round', () => {
  it('are in the order of the nodes, whatever the order of the votes', () => {
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
    [BY_X, 'refused', 'claimed'],
    [NO_REPLICA, 'unreachable', 'Only 0 of 1 replicas confirmed'],
    [UPGRADE, 'refused', 'upgrade'],
    [RELEASED, 'refused', 'released'],
    [new Error('connection lost.'), 'unreachable', 'connection lost'],
    [undefined, 'unreachable', 'not waited for'],
  ])('describe %j: %s (%s)', (answer, outcome, detail) => {
    expect(roundOf([answer]).answers()).toEqual([{ node: 'n1', answer: outcome, detail }]);
  });

  it('travel with a busy reply', () => {
    const round = roundOf([G, B, AWAY]);
    expect(round.notWon(systemRandomness)).toMatchObject({ nodes: round.answers() });
  });
});
