import { systemRandomness } from '../../../../../lib/core/randomness.js';
import { type AcquireReply } from '../../../../../lib/core/store/lock-store.js';
import { LockStoreError } from '../../../../../lib/core/lock.errors.js';
import { AcquireRound } from '../../../../../lib/redis/quorum/acquire-round.js';
import { acquireRequest, busy, givenBack, granted, nodesOf, refused, votesOf } from '../fake-nodes.js';

type Answer = AcquireReply | Error | undefined;
const AWAY = new Error('connect ECONNREFUSED.');
const UNSENT = new LockStoreError('connect ECONNREFUSED.', { wasSent: false });

function roundOf(answers: readonly Answer[], request = acquireRequest()) {
  const nodes = nodesOf(answers.length);
  return new AcquireRound(nodes, request, votesOf(nodes, answers));
}
const G = granted();
const B = busy();
const CLAIM = { job: 'Jobs.run', kind: 'at', ms: 1_000, calledAt: 0, rememberMs: 1_000, rerunOnLoss: false } as const;

describe('a round', () => {
  it.each<[boolean, string, Answer[]]>([
    [true, 'the only node', [G]],
    [false, 'one of two', [G, B]],
    [true, 'both of two', [G, G]],
    [true, 'two of three', [G, B, G]],
    [true, 'two of three, and the third is away', [G, AWAY, G]],
    [true, 'two of three, and the third was not waited for', [G, G, undefined]],
    [false, 'one of three, and the others are away', [G, AWAY, AWAY]],
    [false, 'two of four: an even split', [G, G, B, B]],
    [true, 'three of four', [G, G, B, G]],
    [true, 'three of five', [G, B, B, G, G]],
    [false, 'two of five', [G, B, B, AWAY, G]],
    [true, 'all, though one refuses', [G, G, refused('upgrade')]],
    [false, 'none', [B, B, B]],
  ])('is won: %s, by %s', (isWon, _by, answers) => expect(roundOf(answers).isWon).toBe(isWon));

  it.each<[boolean, string, Answer[]]>([
    [false, 'a node knows how its run ended', [G, G, refused('claimed')]],
    [true, 'a node knows an attempt that may not run it after all', [G, G, refused('claimed', 'x.1')]],
  ])('with a fire is won: %s, when a majority grants and %s', (isWon, _what, answers) => {
    expect(roundOf(answers, acquireRequest({ claim: CLAIM })).isWon).toBe(isWon);
  });

  it('with a distance from the last run is won by a majority: the clock of one node may be wrong', () => {
    const request = acquireRequest({ claim: { ...CLAIM, kind: 'gap' } });
    expect(roundOf([G, G, refused('claimed')], request).isWon).toBe(true);
  });

  it('knows the nodes that granted, and the greatest token of each key', () => {
    const request = acquireRequest({ keys: ['a', 'b'] });
    const round = roundOf([granted([5, 90]), busy(), granted([8, 40])], request);
    expect(round.grants.map(({ node }) => node.name)).toEqual(['n1', 'n3']);
    expect(round.tokens).toEqual([8, 90]);
  });

  it.each<[string, number[], number]>([
    ['a majority has the same: who holds it already', [5, 8, 5], 5],
    ['all differ', [5, 8, 7], 8],
    ['no majority of all nodes has the same', [5, 5, 8, 7, 6], 8],
    ['three of five have the same', [5, 5, 8, 5, 9], 5],
  ])('takes the token that a majority agrees on, or else the greatest: %s', (_why, tokens, token) => {
    expect(roundOf(tokens.map((minted) => granted([minted]))).tokens).toEqual([token]);
  });

  it('counts the nodes that did not grant, too, in the agreement on a token', () => {
    expect(roundOf([granted([5]), granted([5]), granted([8]), AWAY, B]).tokens).toEqual([8]);
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
    const answers = [granted([5], { fireMs: 60_000 }), granted([8], { fireMs: 60_000 }), AWAY];
    expect(roundOf(answers).granted()).toMatchObject({ outcome: 'granted', fireMs: 60_000 });
  });
});

describe('a round that nobody grants', () => {
  const notWon = (answers: readonly Answer[]) => roundOf(answers).notWon(systemRandomness);

  it('is busy until a majority of the nodes may be free', () => {
    const reply = notWon([busy({ retryMs: 300 }), busy({ retryMs: 100 }), busy({ retryMs: 200 })]);
    expect(reply).toMatchObject({ outcome: 'busy', retryMs: 200, ahead: 0, isSplit: false });
  });

  it.each<[number, string, Answer[]]>([
    [200, 'of three, one is away', [busy({ retryMs: 200 }), AWAY, busy({ retryMs: 100 })]],
    [300, 'of five, all are busy', [500, 100, 300, 200, 400].map((retryMs) => busy({ retryMs }))],
    [3, 'of four, all are busy', [4, 3, 2, 1].map((retryMs) => busy({ retryMs }))],
    [90, 'one is busy for long', [1_000, 90, 80].map((retryMs) => busy({ retryMs }))],
    [100, 'it is the only one', [busy({ retryMs: 100 })]],
  ])('may be free in %d ms when %s', (retryMs, _when, answers) => expect(notWon(answers)).toMatchObject({ retryMs }));

  it('reports the first holder that a node knows, and the latest time of a server', () => {
    const answers = [
      busy({ serverTimeMs: 5 }),
      busy({ holder: 'host:2', serverTimeMs: 9 }),
      busy({ holder: 'host:3', serverTimeMs: 7 }),
    ];
    expect(notWon(answers)).toMatchObject({ holder: 'host:2', serverTimeMs: 9 });
    expect(notWon([B, B, AWAY])).toMatchObject({ holder: undefined });
  });
});

describe('a round that splits the votes', () => {
  const [OF_A, OF_B] = [busy({ owner: 'a' }), busy({ owner: 'b' })];
  const BY_X = refused('claimed', 'x.1');

  it.each<[string, boolean, Answer[]]>([
    ['one of three grants, and the others name two owners', true, [G, OF_A, OF_B]],
    ['one of three grants, and the others name an owner and readers', true, [G, OF_A, B]],
    ['half of four grant', true, [G, G, B, B]],
    ['half of four grant, and the others name one owner', true, [G, G, OF_A, OF_A]],
    ['one grants and one is away', true, [G, B, AWAY]],
    ['two of five name one owner', true, [G, OF_A, OF_A, AWAY, AWAY]],
    ['nobody grants, and a minority says that an attempt claims the fire', false, [BY_X, OF_A, OF_B]],
    ['nobody grants, and two attempts claim the fire', false, [BY_X, refused('claimed', 'y.1'), B]],
  ])('is busy, and is retried within 1 to 60 ms: %s', (_when, isSpent, answers) => {
    const retries = Array.from({ length: 400 }, () => {
      const reply = roundOf(answers).notWon(systemRandomness);
      expect(reply).toMatchObject({ outcome: 'busy', isSplit: true, isSpent });
      return (reply as { retryMs: number }).retryMs;
    });
    expect(retries.every((ms) => Number.isInteger(ms) && ms >= 1 && ms <= 60)).toBe(true);
    expect(new Set(retries).size).toBeGreaterThan(20);
  });

  it('is a split even when a majority granted and it is not won', () => {
    const reply = { outcome: 'busy', isSplit: true, isSpent: true, serverTimeMs: 0 };
    expect(roundOf([G, G, G]).notWon(systemRandomness)).toMatchObject(reply);
  });

  it.each<[string, boolean, number, Answer[]]>([
    ['one grants, and a majority names one owner', true, 100, [G, OF_A, OF_A]],
    ['one grants, and a majority names readers', true, 100, [B, G, B]],
    ['two of five grant, and the others name one owner', true, 100, [G, OF_A, G, OF_A, OF_A]],
    ['one claims the fire, and a majority names one owner', false, 100, [OF_A, BY_X, OF_A]],
    ['nobody grants, and each names another owner', false, 100, [OF_A, OF_B, busy({ owner: 'c' })]],
    ['nobody grants, and one is away, which may grant it yet', true, 100, [OF_A, OF_B, AWAY]],
  ])('is not a split when %s', (_when, isSpent, retryMs, answers) => {
    expect(roundOf(answers).notWon(systemRandomness)).toMatchObject({
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
  const NO_REPLICA = givenBack(new LockStoreError('Only 0 of 1 replicas confirmed.'));

  it.each<[string, Answer[], string[]]>([
    ['all, when some granted', [B, G, AWAY], ALL],
    ['all, when a majority granted', [G, G, undefined], ALL],
    ['all, when some refused as released', [B, refused('released'), B], ALL],
    ['nothing, when some refused as claimed', [B, refused('claimed'), B], []],
    ['nothing, when some refused as an upgrade', [B, refused('upgrade'), B], []],
    ['to the silent ones, when another refused as claimed', [B, refused('claimed', 'x.1'), AWAY], ['n3']],
    ['nothing, when all are busy', [B, B, B], []],
    ['to those that may have granted unheard', [B, AWAY, AWAY], ['n2', 'n3']],
    ['nothing to those that were sent nothing', [B, UNSENT, AWAY], ['n3']],
    ['nothing to a node that did so by itself', [B, NO_REPLICA, B], []],
  ])('gives back, without waiting: %s', (_what, answers, given) => expect(names(answers)).toEqual(given));

  it.each<[string, Answer[], string[]]>([
    ['all, when some granted', [B, G, AWAY], ALL],
    ['what was granted, when a majority names an owner: it waits in the queues of the others', [B, G, B], ['n2']],
    ['all, when some refused as released', [B, refused('released'), B], ALL],
    ['nothing, when some refused as claimed', [B, refused('claimed', 'x.1'), B], []],
    ['its places, when a run of the fire is known: the call ends', [B, refused('claimed'), AWAY], ['n1', 'n3']],
    ['its places, when no majority is left for an upgrade', [refused('upgrade'), B, refused('upgrade')], ['n2']],
    ['nothing, when all are busy: it waits in their queues', [B, B, B], []],
    ['nothing, when some are away: it waits there, too, as soon as it can', [B, B, AWAY], []],
  ])('gives back, while waiting: %s', (_what, answers, given) => expect(names(answers, 6_000)).toEqual(given));
});
