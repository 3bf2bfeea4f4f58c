import { systemRandomness } from '../../../../lib/core/randomness.js';
import { type AcquireReply } from '../../../../lib/core/store/lock-store.js';
import { LockConfigurationError, LockStoreError } from '../../../../lib/core/lock.errors.js';
import { AcquireRound } from '../../../../lib/redis/quorum/acquire-round.js';
import { acquireRequest, busy, givenBack, granted, nodesOf, refused, votesOf } from './fake-nodes.js';

type Answer = AcquireReply | Error | undefined;
const [G, B] = [granted(), busy()];
const [OF_A, OF_B] = [busy({ owner: 'a' }), busy({ owner: 'b' })];
const [CLAIMED, UPGRADE, RELEASED] = [refused('claimed'), refused('upgrade'), refused('released')];
const [BY_X, BY_Y] = [refused('claimed', 'x.1'), refused('claimed', 'y.1')];
const AWAY = new LockStoreError('connect ECONNREFUSED 127.0.0.1:1.', { wasSent: false });
const HOPELESS = new LockStoreError('WRONGPASS', { retryable: false, wasSent: false });
const LOST = new LockStoreError('The connection was lost.');
const SILENT = new Error('no answer within 60 ms');
const NO_REPLICA = givenBack(new LockStoreError('Only 0 of 1 replicas confirmed.'));
const CLAIM = { job: 'Jobs.run', kind: 'at', ms: 1_000, calledAt: 0, rememberMs: 1_000, rerunOnLoss: false } as const;

function roundOf(answers: readonly Answer[], request = acquireRequest()): AcquireRound {
  const nodes = nodesOf(answers.length);
  return new AcquireRound(nodes, request, votesOf(nodes, answers));
}

/** The reply of a round that is not won. */
const notWon = (answers: readonly Answer[], request?: ReturnType<typeof acquireRequest>): AcquireReply =>
  roundOf(answers, request).notWon(systemRandomness);

/** What it throws, or why it was given back. */
const errorOf = (answers: readonly Answer[], keys = ['k']): LockStoreError => {
  try {
    const reply = notWon(answers, acquireRequest({ keys }));
    if (reply.outcome === 'given-back') return reply.cause;
  } catch (error) {
    return error as LockStoreError;
  }
  throw new Error('It did not throw.');
};

describe('a round', () => {
  it.each<[boolean, string, Answer[]]>([
    [true, 'the only node', [G]],
    [false, 'one of two', [G, B]],
    [true, 'two of three, and the third is away', [G, LOST, G]],
    [true, 'two of three, and the third was not waited for', [G, G, undefined]],
    [false, 'one of three, and the others are away', [G, LOST, LOST]],
    [false, 'two of four: an even split', [G, G, B, B]],
    [true, 'three of five', [G, B, B, G, G]],
    [false, 'two of five', [G, B, B, LOST, G]],
    [true, 'all, though one refuses', [G, G, UPGRADE]],
  ])('is won: %s, by %s', (isWon, _by, answers) => expect(roundOf(answers).isWon).toBe(isWon));

  it.each<[boolean, string, Answer[]]>([
    [false, 'a node knows how its run ended', [G, G, CLAIMED]],
    [true, 'a node knows an attempt that may not run it after all', [G, G, BY_X]],
  ])('with a fire is won: %s, when a majority grants and %s', (isWon, _what, answers) => {
    expect(roundOf(answers, acquireRequest({ claim: CLAIM })).isWon).toBe(isWon);
  });

  it('with a distance from the last run is won by a majority: the clock of one node may be wrong', () => {
    const request = acquireRequest({ claim: { ...CLAIM, kind: 'gap' } });
    expect(roundOf([G, G, CLAIMED], request).isWon).toBe(true);
  });

  it.each<[string, number[], number]>([
    ['a majority has the same: who holds it already', [5, 8, 5], 5],
    ['all differ', [5, 8, 7], 8],
    ['no majority of all nodes has the same', [5, 5, 8, 7, 6], 8],
    ['three of five have the same', [5, 5, 8, 5, 9], 5],
  ])('takes the token that a majority agrees on, or else the greatest: %s', (_why, tokens, token) => {
    expect(roundOf(tokens.map((minted) => granted([minted]))).tokens).toEqual([token]);
  });

  it('also counts the nodes that did not grant in the agreement on a token', () => {
    expect(roundOf([granted([5]), granted([5]), granted([8]), LOST, B]).tokens).toEqual([8]);
  });

  it('lasts as long as the shortest grant when it is won, at the latest time of a server', () => {
    const answers = [
      granted([5], { remainingMs: 2_900, serverTimeMs: 1_010 }),
      granted([8], { remainingMs: 2_990, serverTimeMs: 1_000 }),
      busy({ serverTimeMs: 9_999 }),
    ];
    const reply = { outcome: 'granted', fencingTokens: [8], remainingMs: 2_900, serverTimeMs: 1_010 };
    expect(roundOf(answers).granted()).toStrictEqual(reply);
  });

  it('reports the claimed fire when it is won', () => {
    const answers = [granted([5], { fireMs: 60_000 }), granted([8], { fireMs: 60_000 }), LOST];
    expect(roundOf(answers).granted()).toMatchObject({ outcome: 'granted', fireMs: 60_000 });
  });
});

describe('a round that no node grants', () => {
  it('is busy until a majority of the nodes may be free', () => {
    const reply = notWon([busy({ retryMs: 300 }), busy({ retryMs: 100 }), busy({ retryMs: 200 })]);
    expect(reply).toMatchObject({ outcome: 'busy', retryMs: 200, ahead: 0, isSplit: false });
  });

  it('reports the first holder that a node knows, and the latest time of a server', () => {
    const answers = [
      busy({ serverTimeMs: 5 }),
      busy({ holder: 'host:2', serverTimeMs: 9 }),
      busy({ holder: 'host:3', serverTimeMs: 7 }),
    ];
    expect(notWon(answers)).toMatchObject({ holder: 'host:2', serverTimeMs: 9 });
    expect(notWon([B, B, LOST])).toMatchObject({ holder: undefined });
  });
});

describe('a round that splits the votes', () => {
  it.each<[string, boolean, Answer[]]>([
    ['one of three grants, and the others name two owners', true, [G, OF_A, OF_B]],
    ['one of three grants, and the others name an owner and readers', true, [G, OF_A, B]],
    ['half of four grant', true, [G, G, B, B]],
    ['one grants and one is away', true, [G, B, LOST]],
    ['no node grants, and a minority says that an attempt claims the fire', false, [BY_X, OF_A, OF_B]],
    ['no node grants, and two attempts claim the fire', false, [BY_X, BY_Y, B]],
  ])('is busy, and is retried within 1 to 60 ms: %s', (_when, isSpent, answers) => {
    const retries = Array.from({ length: 400 }, () => {
      const reply = notWon(answers);
      expect(reply).toMatchObject({ outcome: 'busy', isSplit: true, isSpent });
      return (reply as { retryMs: number }).retryMs;
    });
    expect(retries.every((ms) => Number.isInteger(ms) && ms >= 1 && ms <= 60)).toBe(true);
    expect(new Set(retries).size).toBeGreaterThan(20);
  });

  it('is a split even when a majority granted and it is not won', () => {
    const reply = { outcome: 'busy', isSplit: true, isSpent: true, serverTimeMs: 0 };
    expect(notWon([G, G, G])).toMatchObject(reply);
  });

  it.each<[string, boolean, number, Answer[]]>([
    ['one grants, and a majority names one owner', true, 100, [G, OF_A, OF_A]],
    ['one grants, and a majority names readers', true, 100, [B, G, B]],
    ['one claims the fire, and a majority names one owner', false, 100, [OF_A, BY_X, OF_A]],
    ['no node grants, and each names another owner', false, 100, [OF_A, OF_B, busy({ owner: 'c' })]],
    ['a majority is busy, and the third has given its grant back', true, 100, [B, NO_REPLICA, B]],
    ['no node grants, and one is away, which may grant it yet', true, 100, [OF_A, OF_B, LOST]],
  ])('is not a split when %s', (_when, isSpent, retryMs, answers) => {
    expect(notWon(answers)).toMatchObject({
      outcome: 'busy',
      isSplit: false,
      isSpent,
      retryMs,
    });
  });
});

describe('the end of a round', () => {
  const names = (answers: readonly Answer[], waiterLeaseMs = 0): string[] =>
    roundOf(answers, acquireRequest({ waiterLeaseMs }))
      .toGiveBack()
      .map((node) => node.name);
  const ALL = ['n1', 'n2', 'n3'];

  it.each<[string, Answer[], string[]]>([
    ['all, when some granted', [B, G, LOST], ALL],
    ['all, when some refused as released', [B, RELEASED, B], ALL],
    ['nothing, when some refused as claimed', [B, CLAIMED, B], []],
    ['to the silent ones, when another refused as claimed', [B, BY_X, LOST], ['n3']],
    ['nothing, when all are busy', [B, B, B], []],
    ['to those that may have granted unheard', [B, LOST, LOST], ['n2', 'n3']],
    ['nothing to those that were sent nothing', [B, AWAY, LOST], ['n3']],
    ['nothing to a node that did it by itself', [B, NO_REPLICA, B], []],
    ['to a node that did it by itself without an answer', [B, { ...NO_REPLICA, unanswered: true }, B], ['n2']],
  ])('gives back, without waiting: %s', (_what, answers, given) => expect(names(answers)).toEqual(given));

  it.each<[string, Answer[], string[]]>([
    ['all, when some granted', [B, G, LOST], ALL],
    ['what was granted, when a majority names an owner: it waits in the queues of the others', [B, G, B], ['n2']],
    ['all, when some refused as released', [B, RELEASED, B], ALL],
    ['nothing, when some refused as claimed', [B, BY_X, B], []],
    ['its places, when a run of the fire is known: the call ends', [B, CLAIMED, LOST], ['n1', 'n3']],
    ['its places, when no majority is left for an upgrade', [UPGRADE, B, UPGRADE], ['n2']],
    ['nothing, when all are busy: it waits in their queues', [B, B, B], []],
    ['nothing, when some are away: it also waits there as soon as it can', [B, B, LOST], []],
  ])('gives back, while waiting: %s', (_what, answers, given) => expect(names(answers, 6_000)).toEqual(given));
});

describe('the refusal of a round', () => {
  it.each<[string, Answer[], AcquireReply]>([
    ['by a majority that says the fire was run', [CLAIMED, G, CLAIMED], CLAIMED],
    ['by one of three that says the fire was run', [B, CLAIMED, B], CLAIMED],
    ['by one that says the fire was run, while another granted', [CLAIMED, G, AWAY], CLAIMED],
    ['by one that says the fire was run, though others name its attempt', [BY_X, CLAIMED, BY_X], CLAIMED],
    ['by a majority that names one attempt', [BY_X, B, BY_X], BY_X],
    ['by a majority that names one attempt, though another granted', [G, BY_X, BY_X], BY_X],
    ['by three of five that name one attempt', [BY_X, BY_Y, BY_X, BY_Y, BY_X], BY_X],
    ['by a majority that knows an upgrade', [UPGRADE, B, UPGRADE], UPGRADE],
    ['by enough nodes with an upgrade that each majority has one', [UPGRADE, G, B, UPGRADE], UPGRADE],
    ['by those that know an upgrade, before a claim', [CLAIMED, UPGRADE, UPGRADE], UPGRADE],
    ['by one that knows the release', [B, B, RELEASED], RELEASED],
    ['by one that knows the release, though others granted', [G, RELEASED, B], RELEASED],
    ['by the only one that answers', [AWAY, RELEASED, AWAY], RELEASED],
    ['by one that knows the release before all else', [CLAIMED, CLAIMED, RELEASED], RELEASED],
    ['by one that knows the release before an upgrade', [UPGRADE, UPGRADE, RELEASED], RELEASED],
  ])('comes %s', (_by, answers, refusal) => expect(notWon(answers)).toEqual(refusal));

  it.each<[string, Answer[]]>([
    ['one of three names an attempt', [BY_X, OF_A, OF_B]],
    ['two of three name two attempts', [BY_X, BY_Y, B]],
    ['half of four name one attempt, and half another', [BY_X, BY_X, BY_Y, BY_Y]],
  ])('is not `claimed` when %s: the votes are split', (_when, answers) => {
    expect(notWon(answers)).toMatchObject({ outcome: 'busy', isSplit: true });
  });

  it('is not `claimed` when one names an attempt, and a majority holds it: it is busy', () => {
    const held = busy({ owner: 'x.1' });
    expect(notWon([BY_X, held, held])).toMatchObject({
      outcome: 'busy',
      isSplit: false,
      isSpent: false,
    });
  });

  it.each<[string, Answer[], boolean]>([
    ['one of three knows one', [B, UPGRADE, B], false],
    ['one of three knows one, and another granted', [G, UPGRADE, OF_A], true],
    ['two of five know one', [UPGRADE, B, UPGRADE, B, B], false],
  ])('is not `upgrade` when %s', (_when, answers, isSplit) => {
    expect(notWon(answers)).toMatchObject({ outcome: 'busy', isSplit });
  });
});

describe('a round without a majority of answers', () => {
  it.each<[number, string, Answer[]]>([
    [1, '3', [AWAY, G, AWAY]],
    [2, '4', [G, B, AWAY, AWAY]],
    [1, '3', [NO_REPLICA, G, NO_REPLICA]],
    [1, '3', [B, NO_REPLICA, NO_REPLICA]],
    // Sent, and never answered: a call that does not wait gives it back.
    [1, '3', [B, AWAY, LOST]],
    [0, '3', [AWAY, SILENT, AWAY]],
    [2, '5', [B, AWAY, AWAY, undefined, B]],
    [1, '3', [BY_X, AWAY, LOST]],
  ])('is unavailable, and gives back what it granted or may have granted: %d of %s', (answered, count, answers) => {
    const reply = notWon(answers);
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
    const { cause: error } = notWon([NO_REPLICA, B, AWAY]) as { cause: LockStoreError };
    expect(error.message).toContain('n1 unreachable (Only 0 of 1 replicas confirmed); n2 busy; n3 unreachable');
    expect(error.cause).toBe((NO_REPLICA as { cause?: unknown }).cause);
  });

  const RETRIES: [boolean, string, Answer[]][] = [
    [true, 'all may come back', [AWAY, AWAY, B]],
    [true, 'one may come back', [HOPELESS, AWAY, B]],
    [false, 'one was silent, and the others will not', [HOPELESS, SILENT, HOPELESS]],
    [false, 'none of all will', [HOPELESS, HOPELESS, HOPELESS]],
    [false, 'only half of four may', [HOPELESS, HOPELESS, AWAY, B]],
    [false, 'two of five may', [HOPELESS, HOPELESS, HOPELESS, AWAY, B]],
  ];
  it.each(RETRIES)('may be retried: %s, when %s', (retryable, _when, answers) => {
    expect(errorOf(answers).retryable).toBe(retryable);
  });

  it.each<[boolean, string, Answer[]]>([
    [false, 'all are known to be away', [AWAY, AWAY, AWAY]],
    [true, 'one answered', [B, AWAY, AWAY]],
    [true, 'one may have it', [AWAY, LOST, AWAY]],
  ])('was sent: %s, when %s', (wasSent, _when, answers) => expect(errorOf(answers).wasSent).toBe(wasSent));

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
    ['one granted', (error) => [G, error, AWAY]],
  ])('is misconfigured when one node reports it, though %s', (_what, answersWith) => {
    const error = new LockConfigurationError('The same server.');
    expect(errorOf(answersWith(error))).toBe(error);
  });
});

describe('the answers of a round', () => {
  it.each<[Answer, string, string]>([
    [G, 'granted', ''],
    [busy(), 'busy', ''],
    [busy({ holder: 'host:2 Orders.pay' }), 'busy', 'held by host:2 Orders.pay'],
    [BY_X, 'refused', 'claimed'],
    [NO_REPLICA, 'unreachable', 'Only 0 of 1 replicas confirmed'],
    [UPGRADE, 'refused', 'upgrade'],
    [RELEASED, 'refused', 'released'],
    [new Error('connection lost.'), 'unreachable', 'connection lost'],
    [undefined, 'unreachable', 'not waited for'],
  ])('describe %j: %s (%s)', (answer, outcome, detail) => {
    expect(roundOf([answer]).answers()).toEqual([{ node: 'n1', answer: outcome, detail }]);
  });
});
