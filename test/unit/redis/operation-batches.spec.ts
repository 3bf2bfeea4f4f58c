import { AsyncLocalStorage } from 'node:async_hooks';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { LockStoreError } from '../../../lib/core/lock.errors.js';
import { RedisKeys } from '../../../lib/redis/codec/redis-keys.js';
import { type Operation, ScriptCalls } from '../../../lib/redis/codec/script-calls.js';
import { type CommandRunner, type ScriptCall } from '../../../lib/redis/connection/command-runner.js';
import { PendingOperation } from '../../../lib/redis/operation-batch.js';
import { OperationBatches } from '../../../lib/redis/operation-batches.js';
import { createLockScripts } from '../../../lib/redis/scripts/lock-scripts.js';
import { operationsOf, valuesOf } from '../../support/model/wire-values.js';
import { rejection } from '../../support/waiting/rejection.js';

const scripts = createLockScripts();
const options = { keepMs: 60_000, channelPrefix: 'lock:wake:', countReceivers: true };
const calls = new ScriptCalls(scripts, new RedisKeys('lock:'), options);

const release = (key: string, timeoutMs = 1_000): Operation =>
  calls.release({ key, attempt: `of-${key}`, holdAtLeastMs: 0, leaseMs: 10_000 }, timeoutMs);
const renew = (key: string, timeoutMs = 1_000): Operation =>
  calls.renew({
    key,
    attempt: `of-${key}`,
    fencingToken: 7,
    leaseMs: 10_000,
    mode: 'write',
    owner: undefined,
    holder: 'host:1',
    timeoutMs,
  });
const acquire = (key: string): Operation =>
  calls.acquire(
    {
      keys: [key],
      attempt: `of-${key}`,
      owner: undefined,
      mode: 'write',
      leaseMs: 10_000,
      waiterLeaseMs: 0,
      fair: true,
      permits: 0,
      holder: 'host:1\nwith a break',
    },
    1_000,
    0,
  );

/** An operation that a test starts, and what it does with the outcome. */
class Started extends PendingOperation {
  constructor(
    readonly operation: Operation,
    private readonly outcome: {
      readonly resolve: (reply: string[]) => unknown;
      readonly reject: (error: Error) => unknown;
      readonly onLate?: (reply: string[]) => unknown;
    },
  ) {
    super();
  }

  resolve(reply: string[]): void {
    this.outcome.resolve(reply);
  }

  reject(error: Error): void {
    this.outcome.reject(error);
  }

  override onLate(reply: string[]): void {
    this.outcome.onLate?.(reply);
  }
}

type Sent = Parameters<CommandRunner['start']>;

/** Commands that a test answers, with or without sending them. */
class FakeRunner {
  readonly started: { call: Sent[0]; outcome: Sent[1] }[] = [];
  readonly alone: ScriptCall[] = [];
  isCluster = false;
  isSent = false;
  /** How many commands each write has. */
  readonly writes: number[] = [];
  underWay = 0;

  inOneWrite(send: () => void): void {
    const before = this.started.length;
    send();
    this.writes.push(this.started.length - before);
  }

  start(...[call, outcome]: Sent): void {
    this.started.push({ call, outcome });
    const withdraw = (): boolean => {
      if (!this.isSent)
        outcome.reject(new LockStoreError('It was withdrawn.', { key: call.subject as string, wasSent: false }));
      return !this.isSent;
    };
    call.onStart?.({ withdraw });
  }

  run(call: ScriptCall): Promise<string[]> {
    this.alone.push(call);
    return Promise.resolve(['released', call.echo!, 'alone']);
  }

  /** Which operations a command would send now: their names, and their storage keys. */
  sent(index = 0): string[] {
    const { script, operands } = this.started[index]!.call.toSend();
    if (script === scripts.batch)
      return operationsOf(script, operands).map(({ name, values }) => `${name} ${String(values['lock'])}`);
    const [name] = Object.entries(scripts).find(([, one]) => one === script)!;
    return [`alone: ${name} ${String(valuesOf(script, operands)['lock'])}`];
  }

  /** Answers a command as a server does, which has it by then. */
  answer(reply: unknown, index = 0): void {
    const { call, outcome } = this.started[index]!;
    call.toSend();
    outcome.resolve(call.read(reply)!);
  }
}

describe('operations of one turn', () => {
  let runner: FakeRunner;
  let batches: OperationBatches;
  let endTurn: () => void;
  let micros: number;

  beforeEach(() => {
    runner = new FakeRunner();
    micros = 1_700_000_000_000_000;
    const waiting: (() => void)[] = [];
    endTurn = () => {
      for (const callback of waiting.splice(0)) callback();
    };
    batches = new OperationBatches({
      commands: runner as unknown as CommandRunner,
      calls,
      scripts,
      afterTurn: (callback) => void waiting.push(callback),
      timesOf: () => ({ sentMicros: micros, untilMicros: micros + 2_000_000 }),
    });
  });

  const startAll = (...operations: Operation[]) => {
    const heard: string[][] = [];
    const started = operations.map((operation) => {
      const pending = new Started(operation, {
        resolve: (reply) => heard.push([operation.key, ...reply]),
        reject: (error) => heard.push([operation.key, error.message]),
        onLate: (reply) => heard.push([operation.key, 'late', ...reply]),
      });
      batches.start(pending);
      return pending;
    });
    return { heard, withdrawals: started.map((one) => () => one.withdraw()) };
  };

  /** A context, and what it was each time that a command was sent. */
  const watchContexts = () => {
    const context = new AsyncLocalStorage<string>();
    const seen: (string | undefined)[] = [];
    const start = runner.start.bind(runner);
    runner.start = (...args) => {
      seen.push(context.getStore());
      start(...args);
    };
    return { context, seen };
  };

  it('travel in one command, in their order, and each has its own reply', () => {
    const { heard } = startAll(release('a'), acquire('a'), renew('b'));
    expect(runner.started).toEqual([]);
    endTurn();
    expect(runner.sent()).toEqual(['release lock:a', 'acquire lock:a', 'renew lock:b']);
    runner.answer(['released of-a 5', ['busy', 'of-a', 1], 'renewed of-b']);
    expect(heard).toEqual([
      ['a', 'released', 'of-a', '5'],
      ['a', 'busy', 'of-a', '1'],
      ['b', 'renewed', 'of-b'],
    ]);
  });

  it('have their replies in one text when all are texts', () => {
    const { heard } = startAll(release('a'), acquire('b'), renew('c'));
    endTurn();
    runner.answer('released of-a 5\ngranted of-b 7\nrenewed of-c');
    expect(heard).toEqual([
      ['a', 'released', 'of-a', '5'],
      ['b', 'granted', 'of-b', '7'],
      ['c', 'renewed', 'of-c'],
    ]);
  });

  it('have the arguments that they would have alone', () => {
    startAll(acquire('a'), renew('b'), release('c'));
    endTurn();
    const { script, operands } = runner.started[0]!.call.toSend();
    const times = { sentMicros: micros, untilMicros: micros + 2_000_000 };
    const alone = [acquire('a'), renew('b'), release('c')].map((operation) => {
      const call = calls.alone(operation, times);
      return Object.fromEntries(
        Object.entries(valuesOf(call.script, call.operands)).map(([name, value]) => [name, String(value)]),
      );
    });
    expect(operationsOf(script, operands).map(({ values }) => values)).toEqual(alone);
  });

  it('share their terms, be they one object or only the same text', () => {
    const others = new ScriptCalls(scripts, new RedisKeys('lock:'), options);
    const again = others.release({ key: 'c', attempt: 'of-c', holdAtLeastMs: 0, leaseMs: 10_000 }, 1_000);
    startAll(release('a'), acquire('b'), again, release('d'));
    endTurn();
    expect(again.terms).not.toBe(release('c').terms);
    const { script, operands } = runner.started[0]!.call.toSend();
    expect(operands).toHaveLength(1 + 4 + script.args.length + 2);
    expect(runner.sent()).toEqual(['release lock:a', 'acquire lock:b', 'release lock:c', 'release lock:d']);
  });

  it('use the script of a single operation when there is one', () => {
    startAll(acquire('a'));
    endTurn();
    expect(runner.sent()).toEqual(['alone: acquire lock:a']);
  });

  it('travel with those that have the same time limit, 64 at most', () => {
    startAll(...Array.from({ length: 130 }, (_, i) => renew(`k${i}`, i === 7 ? 2_000 : 1_000)));
    endTurn();
    expect(runner.started.map((_, i) => runner.sent(i).length)).toEqual([64, 1, 64, 1]);
    expect(runner.sent(1)).toEqual(['alone: renew lock:k7']);
  });

  it('are sent as soon as there are 16, and the rest when the turn is over', () => {
    startAll(...Array.from({ length: 33 }, (_, i) => (i % 2 === 0 ? acquire(`k${i}`) : release(`k${i}`))));
    expect(runner.started.map((_, i) => runner.sent(i).length)).toEqual([16, 16]);
    endTurn();
    expect(runner.sent(2)).toEqual(['alone: acquire lock:k32']);
  });

  it('wait for the end of the turn when they are renewals, and travel 64 at most', () => {
    startAll(...Array.from({ length: 130 }, (_, i) => renew(`k${i}`)));
    expect(runner.started).toEqual([]);
    endTurn();
    expect(runner.started.map((_, i) => runner.sent(i).length)).toEqual([64, 64, 2]);
  });

  it('are sent with the renewals that were requested before', () => {
    startAll(...Array.from({ length: 20 }, (_, i) => renew(`k${i}`)), acquire('a'));
    expect(runner.sent()).toHaveLength(21);
  });

  it.each([
    [0, 16],
    [1, 32],
    [2, 64],
    [100, 64],
  ])('are sent before the turn is over when %i commands are under way and they are %i', (underWay, count) => {
    runner.underWay = underWay;
    startAll(...Array.from({ length: count - 1 }, (_, i) => acquire(`k${i}`)));
    expect(runner.started).toEqual([]);
    startAll(acquire('last'));
    expect(runner.sent()).toHaveLength(count);
  });

  it('wait for the end of the turn while something is to be sent behind those before them', () => {
    const all = Array.from({ length: 20 }, (_, i) => acquire(`k${i}`));
    startAll(all[0]!);
    batches.behind(() => undefined);
    startAll(...all.slice(1));
    expect(runner.started).toEqual([]);
    endTurn();
    expect(runner.started.map((_, i) => runner.sent(i).length)).toEqual([20]);
    startAll(...all);
    expect(runner.started).toHaveLength(2);
  });

  it('travel with those of their lock in a cluster', () => {
    runner.isCluster = true;
    startAll(release('a'), release('b'), acquire('a'));
    endTurn();
    expect([runner.sent(0), runner.sent(1)]).toEqual([['release lock:a', 'acquire lock:a'], ['alone: release lock:b']]);
  });

  it('leave in one write when they travel in several commands', () => {
    runner.isCluster = true;
    startAll(release('a'), release('b'), acquire('c'));
    endTurn();
    startAll(release('a'));
    endTurn();
    expect([runner.started.length, runner.writes]).toEqual([4, [3]]);
  });

  it('of another turn travel in another command', () => {
    startAll(release('a'));
    endTurn();
    startAll(release('b'));
    endTurn();
    expect([runner.sent(0), runner.sent(1)]).toEqual([['alone: release lock:a'], ['alone: release lock:b']]);
  });

  it.each(['in the same turn', 'while there is no connection'])('are not sent once withdrawn %s', (when) => {
    const { heard, withdrawals } = startAll(acquire('a'), acquire('b'), acquire('c'));
    if (when !== 'in the same turn') endTurn();
    expect(withdrawals[1]!()).toBe(true);
    if (when === 'in the same turn') endTurn();
    expect(heard).toEqual([['b', expect.stringContaining('withdrawn before it was sent')]]);
    expect(runner.sent()).toEqual(['acquire lock:a', 'acquire lock:c']);
    runner.answer([
      ['busy', 'of-a', 1],
      ['busy', 'of-c', 1],
    ]);
    expect(heard.slice(1).map(([key]) => key)).toEqual(['a', 'c']);
  });

  it('are withdrawn with their command when none is left', () => {
    const { heard, withdrawals } = startAll(acquire('a'), acquire('b'));
    endTurn();
    expect(withdrawals.map((withdraw) => withdraw())).toEqual([true, true]);
    expect(heard.map(([key]) => key)).toEqual(['a', 'b']);
  });

  it('cannot be withdrawn once they were sent', () => {
    const { heard, withdrawals } = startAll(acquire('a'), acquire('b'));
    endTurn();
    runner.sent();
    runner.isSent = true;
    expect(withdrawals.map((withdraw) => withdraw())).toEqual([false, false]);
    expect(heard).toEqual([]);
  });

  it('are sent alone when they failed in a batch', async () => {
    const { heard } = startAll(release('a'), release('b'));
    endTurn();
    runner.answer(['failed', 'released of-b 5']);
    expect(heard).toEqual([['b', 'released', 'of-b', '5']]);
    await Promise.resolve();
    expect(heard[1]).toEqual(['a', 'released', 'of-a', 'alone']);
    expect(runner.alone.map(({ script, key }) => [script === scripts.release, key])).toEqual([[true, 'a']]);
  });

  it('fail each with the name of its lock', () => {
    const { heard } = startAll(release('a'), release('b'));
    endTurn();
    const error = new LockStoreError('Redis could not serve the lock "a": no answer.', { key: 'a' });
    runner.started[0]!.outcome.reject(error);
    expect(heard).toEqual([
      ['a', 'Redis could not serve the lock "a": no answer.'],
      ['b', 'Redis could not serve the lock "b": no answer.'],
    ]);
  });

  const refused = (message: string): LockStoreError => {
    const cause = Object.assign(new Error(message), { name: 'ReplyError' });
    return new LockStoreError(`Redis could not serve the lock "a": ${message}`, { key: 'a', cause, retryable: false });
  };

  it('are sent alone when Redis refuses their command as a whole', async () => {
    const { heard } = startAll(release('a'), release('b'));
    endTurn();
    runner.started[0]!.outcome.reject(refused('NOPERM No permissions to access a key'));
    await nextTurn();
    expect(heard).toEqual([
      ['a', 'released', 'of-a', 'alone'],
      ['b', 'released', 'of-b', 'alone'],
    ]);
    startAll(release('a'), release('b'));
    endTurn();
    expect(runner.sent(1)).toEqual(['release lock:a', 'release lock:b']);
  });

  it('travel with those of their lock once Redis has refused locks of different slots', async () => {
    startAll(release('a'), release('b'));
    endTurn();
    runner.started[0]!.outcome.reject(refused("CROSSSLOT Keys in request don't hash to the same slot"));
    await nextTurn();
    startAll(release('a'), release('b'), acquire('a'));
    endTurn();
    expect([runner.sent(1), runner.sent(2)]).toEqual([['release lock:a', 'acquire lock:a'], ['alone: release lock:b']]);
  });

  it('may have been carried out although the command that repeats one of them was not sent', async () => {
    runner.run = ({ key }) => Promise.reject(new LockStoreError('away', { key, wasSent: false }));
    const [reply] = [batches.run(acquire('a')), batches.run(release('b')).catch(() => undefined)];
    endTurn();
    runner.answer(['failed', 'released of-b 5']);
    expect(await rejection(reply)).toMatchObject({ key: 'a', wasSent: true });
  });

  it('of one lock stay in their order, whatever their time limits', () => {
    startAll(acquire('other'), release('k', 2_000), acquire('k'), release('other', 2_000));
    endTurn();
    expect(runner.started.map((_, i) => runner.sent(i))).toEqual([
      ['alone: acquire lock:other'],
      ['release lock:k', 'release lock:other'],
      ['alone: acquire lock:k'],
    ]);
  });

  it('go before what is sent behind them', () => {
    startAll(release('a'));
    const seen: number[] = [];
    batches.behind(() => seen.push(runner.started.length));
    endTurn();
    expect(seen).toEqual([1]);
  });

  it.each([
    ['the one that is alone', false],
    ['another one than that which was withdrawn', true],
  ])('are sent in the context of %s', (_, isWithdrawn) => {
    const { context, seen } = watchContexts();
    const { withdrawals } = context.run('first', () => startAll(acquire('a')));
    if (isWithdrawn) {
      context.run('second', () => startAll(acquire('b')));
      withdrawals[0]!();
    }
    context.run('first', endTurn);
    expect(seen).toEqual([isWithdrawn ? undefined : 'first']);
  });

  it('are sent in the context of none when the turn began with another one', () => {
    const { context, seen } = watchContexts();
    context.run('first', () => startAll(...Array.from({ length: 17 }, (_, i) => acquire(`k${i}`))));
    context.run('first', endTurn);
    expect(seen).toEqual([undefined, undefined]);
  });

  it('hear of replies that come late, but for those that failed', () => {
    const { heard } = startAll(acquire('a'), acquire('b'));
    endTurn();
    runner.sent();
    const { call } = runner.started[0]!;
    call.onLate!(call.read(['failed', ['granted', 'of-b', 1]])!);
    expect(heard).toEqual([['b', 'late', 'granted', 'of-b', '1']]);
  });

  it.each([
    ['another operation', ['released of-b 5', 'released of-a 5']],
    ['fewer operations', ['released of-a 5']],
    ['more operations', 'released of-a 5\nreleased of-b 5\nreleased of-c 5'],
    ['another operation, in one text', 'released of-b 5\nreleased of-a 5'],
    ['a single operation', 'released of-a 5'],
    ['something else', [{}, 'released of-b 5']],
  ])('take no reply for %s', (_, reply) => {
    startAll(release('a'), release('b'));
    endTurn();
    runner.sent();
    expect(runner.started[0]!.call.read(reply)).toBeUndefined();
  });

  it('have the times of the moment in which they are first sent, also when they are sent again', () => {
    startAll(acquire('a'), acquire('b'));
    endTurn();
    micros += 500;
    const { call } = runner.started[0]!;
    const first = call.toSend();
    micros += 500;
    expect(call.toSend()).toBe(first);
    const [one] = operationsOf(first.script, first.operands);
    expect(one!.values['sentMicros']).toBe('1700000000000500');
  });

  it('leave a caller of a reply that cannot be read with its error, and the others with theirs', () => {
    const heard: string[] = [];
    const unreadable = (): never => {
      throw new Error('unreadable');
    };
    const onError = ({ message }: Error) => heard.push(`a ${message}`);
    batches.start(new Started(release('a'), { resolve: unreadable, reject: onError }));
    batches.start(new Started(release('b'), { resolve: () => heard.push('b'), reject: unreadable }));
    endTurn();
    runner.answer(['released of-a 5', 'released of-b 5']);
    expect(heard).toEqual(['a unreadable', 'b']);
  });

  it('hear of their late replies, also when the one before cannot be read', () => {
    const onLate = (): never => {
      throw new Error('unreadable');
    };
    batches.start(new Started(acquire('a'), { resolve: () => undefined, reject: () => undefined, onLate }));
    const { heard } = startAll(acquire('b'));
    endTurn();
    const { call } = runner.started[0]!;
    call.toSend();
    call.onLate!(['a', 'b'].map((key) => ['granted', `of-${key}`, '1']));
    expect(heard).toEqual([['b', 'late', 'granted', 'of-b', '1']]);
  });

  it('fail when they cannot be sent at all', () => {
    runner.start = () => {
      throw new Error('no client');
    };
    const { heard } = startAll(acquire('a'), acquire('b'));
    endTurn();
    expect(heard).toEqual([
      ['a', 'no client'],
      ['b', 'no client'],
    ]);
  });

  it('reject with a LockStoreError', async () => {
    const [reply, other] = [batches.run(release('a')), batches.run(release('b'))];
    endTurn();
    runner.started[0]!.outcome.reject(new LockStoreError('away', { key: 'a', wasSent: false }));
    expect(await rejection(reply)).toMatchObject({ key: 'a', wasSent: false });
    expect(await rejection(other)).toMatchObject({ key: 'b', wasSent: false });
  });
});
