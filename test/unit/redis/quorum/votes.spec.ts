import { type QuorumNode } from '../../../../lib/redis/quorum/quorum-node.js';
import { type Ballot, type Vote, gather } from '../../../../lib/redis/quorum/votes.js';
import { outcomeOf } from '../../../support/waiting/outcome.js';
import { FakeClock, settled } from '../../../support/core/fake-clock.js';
import { nodesOf } from './fake-nodes.js';

interface Question {
  readonly node: QuorumNode;
  readonly answer: (value: string) => Promise<void>;
  readonly fail: (error: Error) => Promise<void>;
}

/** Asks `count` nodes; the test answers for each. Two votes decide by default. */
function ask(count: number, { isDecided = (votes) => votes.length >= 2, ...rest }: Partial<Ballot<string>> = {}) {
  const [clock, nodes] = [new FakeClock(), nodesOf(count)];
  const questions: Question[] = [];
  const late: Vote<string>[] = [];
  const pose = (node: QuorumNode): Promise<string> =>
    new Promise((resolve, reject) => {
      questions.push({
        node,
        answer: (value) => (resolve(value), settled()),
        fail: (error) => (reject(error), settled()),
      });
    });
  const hooks = { onLate: (vote: Vote<string>) => void late.push(vote) };
  const votes = gather<string>(clock, { nodes, ask: pose, timeoutMs: 50, isDecided, ...hooks, ...rest });
  return { clock, nodes, questions, late, votes, outcome: outcomeOf(votes) };
}

const never = (): boolean => false;
const told = (votes: readonly Vote<string>[] | undefined): string[] =>
  (votes ?? []).map(({ node, value, error }) => `${node.name} ${value ?? String(error)}`);

describe('votes', () => {
  it('count when they came while the event loop was blocked, though its timers run first', async () => {
    const { questions, outcome, clock } = ask(3);
    clock.jump(5_000);
    clock.turn();
    await settled();
    expect(outcome).toEqual({});
    await questions[2]!.answer('yes');
    await questions[0]!.answer('no');
    expect(told(outcome.value)).toEqual(['n3 yes', 'n1 no']);
  });

  it('are counted as soon as they decide, and only those that came', async () => {
    const { questions, outcome, clock } = ask(3);
    await questions[2]!.answer('yes');
    expect(outcome).toEqual({});
    await questions[0]!.answer('no');
    expect(told(outcome.value)).toEqual(['n3 yes', 'n1 no']);
    expect(clock.timers).toBe(0);
  });

  it('are counted when all are in, even when they decide nothing', async () => {
    const { questions, outcome, clock } = ask(2, { isDecided: never });
    await questions[1]!.answer('b');
    expect(outcome).toEqual({});
    await questions[0]!.answer('a');
    expect(told(outcome.value)).toEqual(['n2 b', 'n1 a']);
    expect(clock.timers).toBe(0);
  });

  it('are counted at the time limit, with one for each silent node', async () => {
    const { questions, outcome, clock } = ask(4, { isDecided: never, timeoutMs: 50.4 });
    await questions[1]!.answer('yes');
    await clock.advance(50.3);
    expect(outcome).toEqual({});
    await clock.advance(0.2);
    const silent = 'Error: no answer within 50 ms';
    expect(told(outcome.value)).toEqual(['n2 yes', `n1 ${silent}`, `n3 ${silent}`, `n4 ${silent}`]);
  });

  it.each([
    ['after the extension of the time limit, while they can win', true, 80],
    ['at the time limit, once they cannot win', false, 50],
  ])('are counted %s', async (_when, canWin, atMs) => {
    const extra = { ms: 30, canWin: (votes: readonly Vote<string>[]) => votes.length === 1 && canWin };
    const { questions, outcome, clock } = ask(2, { isDecided: never, extra });
    await questions[0]!.answer('yes');
    await clock.advance(atMs - 1);
    expect(outcome).toEqual({});
    await clock.advance(1);
    expect(told(outcome.value)).toEqual(['n1 yes', `n2 Error: no answer within ${atMs} ms`]);
    expect(clock.timers).toBe(0);
  });

  it('may be failures to send, and the other nodes are asked anyway', async () => {
    const asked: string[] = [];
    const throwing = (node: QuorumNode): Promise<string> => {
      asked.push(node.name);
      if (node.name === 'n1') throw new Error('no client');
      return Promise.resolve('yes');
    };
    const { outcome, clock } = ask(3, { isDecided: never, ask: throwing });
    await settled();
    expect(asked).toEqual(['n1', 'n2', 'n3']);
    expect(told(outcome.value).toSorted()).toEqual(['n1 Error: no client', 'n2 yes', 'n3 yes']);
    expect(clock.timers).toBe(0);
  });

  it('do not reject when nothing listens to late ones', async () => {
    const { questions, outcome } = ask(3, { onLate: undefined });
    for (const { answer } of questions.slice(0, 2)) await answer('yes');
    await questions[2]!.fail(new Error('away'));
    expect(outcome.error).toBeUndefined();
    expect(outcome.value).toHaveLength(2);
  });
});

describe('late votes', () => {
  it('arrive one by one, failures too, and change nothing that was counted', async () => {
    const { questions, outcome, late } = ask(4);
    for (const { answer } of questions.slice(0, 2)) await answer('yes');
    await questions[3]!.fail(new Error('away'));
    expect(told(late)).toEqual(['n4 Error: away']);
    await questions[2]!.answer('yes');
    expect(told(late)).toEqual(['n4 Error: away', 'n3 yes']);
    expect(told(outcome.value)).toEqual(['n1 yes', 'n2 yes']);
  });
});
