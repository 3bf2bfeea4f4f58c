import { LockStoreError } from '../../../lib/core/lock.errors.js';
import { type AcquireReply, type AcquireRequest, type ReleaseRequest } from '../../../lib/core/store/lock-store.js';
import { Acquirer } from '../../../lib/redis/acquirer.js';
import { type Pending } from '../../../lib/redis/batcher.js';
import { type SingleClient } from '../../../lib/redis/client/redis-client.js';
import { FakeClock, settled } from '../../support/core/fake-clock.js';
import { lockCalls, plainWriter } from '../../support/redis/lock-commands.js';
import { gate } from '../../support/waiting/gate.js';
import { outcomeOf } from '../../support/waiting/outcome.js';

type Parts = Acquirer['parts'];

const OWN: AcquireRequest = plainWriter('a', 'c.a');
const GRANTED = ['granted', 'c.a', '5000', '30000', '', '', '7'];
const BUSY = ['busy', 'c.a', '5000', '200', '1', 'web-2:7', '', '1', '6', '', ''];
/** The server has the time of five seconds, in microseconds. */
const LATE = ['refused', 'c.a', '5000', 'late', '5000000'];

/** `client`: what the connection has of one. Acquires that are sent are in `sent`. */
function setUp(client: object = { isCluster: false, time: async () => 5_000_000 }, given: Partial<Parts> = {}) {
  const sent: Pending[] = [];
  const withdrawn: Pending[] = [];
  const commands = {
    isCluster: (client as SingleClient).isCluster,
    epoch: 0,
    serverId: null as string | null,
    liveClient: () => client,
    refusal: (): LockStoreError | null => null,
    send: (send: () => Promise<unknown>) => send(),
  };
  const batcher = {
    add: (acquire: Pending) => void sent.push(acquire),
    withdraw: (acquire: Pending) => withdrawn.push(acquire) === 1,
  };
  const clock = new FakeClock();
  const waiting: unknown[] = [];
  const onWaiting = (...report: unknown[]) => void waiting.push(report);
  const parts = { commands, batcher, calls: lockCalls, clock, replicas: null, onWaiting, ...given } as unknown as Parts;
  const acquirer = new Acquirer(parts);
  const late: AcquireReply[] = [];
  /** Begins an acquire, and sends it. */
  const begin = async (asked = OWN): Promise<{ value?: AcquireReply; error?: any }> => {
    const outcome = outcomeOf(acquirer.acquire(asked, 500, (reply) => late.push(reply)));
    await settled();
    return outcome;
  };
  /** The server answers the acquire that was sent last. */
  const answer = async (reply: readonly string[]): Promise<void> => {
    const acquire = sent.at(-1)!;
    try {
      acquire.resolve([...reply]);
    } catch (error) {
      acquire.reject(error);
    }
    await settled();
  };
  return { sent, withdrawn, commands, clock, waiting, late, acquirer, begin, answer };
}

describe('an acquire', () => {
  it('names the time of the node that serves its lock, and no time while that is unknown', () => {
    const masterAddressOf = (lock: string) => ({ host: lock.includes('a') ? '10.0.0.1' : '10.0.0.2', port: 7_000 });
    const { sent, acquirer } = setUp({ isCluster: true, masterAddressOf });
    for (const key of ['a', 'b']) void acquirer.acquire(plainWriter(key, `c.${key}`), 500, () => undefined);
    const times = () => sent.map(({ operation }) => acquirer.timesOf(operation).sentMicros);
    expect(times()).toEqual([0, 0]);
    sent[0]!.resolve([...GRANTED]);
    expect(times()).toEqual([5_000_000, 0]);
  });

  it('names a time of its server that has passed, whatever the drift of the clocks', async () => {
    const { sent, clock, acquirer, begin } = setUp();
    await begin();
    clock.jump(1_000);
    const { sentMicros } = acquirer.timesOf(sent[0]!.operation);
    expect(sentMicros).toBeGreaterThan(5_990_000);
    expect(sentMicros).toBeLessThan(6_000_000);
  });

  it('is withdrawn while the time of the server is awaited, and is not sent then', async () => {
    const answered = gate();
    const { sent, acquirer, begin } = setUp({ isCluster: false, time: () => answered.opened.then(() => 5_000) });
    const outcome = await begin();
    expect(acquirer.withdraw('c.a')).toBe(true);
    answered.open();
    await settled();
    expect([sent, outcome.error]).toEqual([[], expect.objectContaining({ wasSent: false })]);
    expect(acquirer.withdraw('c.a')).toBe(false);
  });

  it('was not sent if the server does not report its time', async () => {
    const time = () => Promise.reject(new LockStoreError('no answer', { wasSent: true }));
    const { sent, begin } = setUp({ isCluster: false, time });
    expect([await begin(), sent]).toMatchObject([{ error: { key: 'a', wasSent: false } }, []]);
  });

  it('is withdrawn from its batch if that is not sent, and only once', async () => {
    const { sent, withdrawn, acquirer, begin, answer } = setUp();
    await begin();
    expect([acquirer.withdraw('c.a'), acquirer.withdraw('c.a')]).toEqual([true, false]);
    expect(withdrawn).toEqual([sent[0], sent[0]]);
    await answer(LATE);
    expect([sent.length, acquirer.withdraw('c.a'), withdrawn.length]).toEqual([2, false, 2]);
  });

  it.each<[string, (acquire: Pending) => void]>([
    ['its outcome', (acquire) => acquire.resolve([...BUSY])],
    ['its failure', (acquire) => acquire.reject(new LockStoreError('no answer'))],
  ])('is not withdrawn after %s', async (_what, end) => {
    const { sent, withdrawn, acquirer, begin } = setUp();
    await begin();
    end(sent[0]!);
    expect([acquirer.withdraw('c.a'), withdrawn]).toEqual([false, []]);
  });

  it('reports that it waits, with the time at which it was sent last', async () => {
    const { sent, clock, waiting, begin, answer } = setUp();
    const startedAt = clock.now();
    await begin({ ...OWN, waiterLeaseMs: 1_000 });
    clock.jump(300);
    await answer(LATE);
    await answer(BUSY);
    await begin({ ...OWN, waiterLeaseMs: 1_000 });
    await answer(BUSY.with(7, '0'));
    expect(waiting).toEqual([
      [true, startedAt + 300],
      [false, startedAt + 300],
    ]);
    await begin();
    await answer(BUSY);
    await begin({ ...OWN, waiterLeaseMs: 1_000 });
    await answer(GRANTED);
    expect([sent.length, waiting.length]).toEqual([5, 2]);
  });

  it('is sent again while it arrives too late, with the present age of its fire, until its time is over', async () => {
    const { sent, clock, begin, answer } = setUp();
    const at = { job: 'Jobs.run', kind: 'at', ms: 60_000 } as const;
    const claim = { ...at, calledAt: clock.now(), rememberMs: 120_000, rerunOnLoss: false };
    const outcome = await begin({ ...OWN, claim });
    const age = (): number => Number(sent.at(-1)!.operation.terms.text.split(' ').at(-3));
    expect(age()).toBe(0);
    clock.jump(499.5);
    await answer(LATE);
    expect([sent.length, age(), outcome]).toEqual([2, 500, {}]);
    clock.jump(0.5);
    await answer(LATE);
    expect([sent.length, outcome.error]).toMatchObject([2, { key: 'a', wasSent: true }]);
    expect(outcome.error.message).toContain('as too late. Does its clock jump?');
  });

  it('is sent a limited number of times', async () => {
    const { sent, begin, answer } = setUp();
    const outcome = await begin();
    for (let i = 0; i < 100 && !outcome.error; i += 1) await answer(LATE);
    expect([sent.length, outcome.error.message]).toEqual([64, expect.stringContaining('Does its clock jump?')]);
  });

  it('may have left a trace if it was sent again, whatever the last failure', async () => {
    const failed = async (replies: readonly (readonly string[])[]) => {
      const { sent, begin, answer } = setUp();
      const outcome = await begin();
      for (const reply of replies) await answer(reply);
      sent.at(-1)!.reject(new LockStoreError('not connected', { wasSent: false }));
      await settled();
      return outcome.error;
    };
    expect([await failed([]), await failed([LATE])]).toMatchObject([{ wasSent: false }, { wasSent: true }]);
  });

  it('reports that a copy of it may arrive if the connection was lost meanwhile', async () => {
    const { sent, commands, late, begin, answer } = setUp();
    const outcomes = [];
    for (const isLost of [false, true]) {
      for (const reply of [GRANTED, BUSY]) {
        outcomes.push(await begin());
        if (isLost) commands.epoch += 1;
        sent.at(-1)!.onLate!([...reply]);
        await answer(reply);
      }
    }
    const unanswered = [false, false, true, true];
    const values = outcomes.map(({ value }) => value);
    expect(values.map((value) => 'unanswered' in value! && value.unanswered === true)).toEqual(unanswered);
    expect(late).toEqual(values);
  });

  it('names the server that has its place in the queue, if it is known', async () => {
    const { commands, begin, answer } = setUp();
    const outcomes = [];
    for (const [id, reply] of [[null, BUSY], ['s1', BUSY], ['s1', GRANTED]] as const) {
      commands.serverId = id;
      outcomes.push(await begin());
      await answer(reply);
    } // prettier-ignore
    expect(outcomes.map(({ value }) => (value as { server?: string }).server)).toEqual([undefined, 's1', undefined]);
  });
});

describe('a grant that replicas have to confirm', () => {
  it('is not withdrawn', async () => {
    const { sent, withdrawn, acquirer, begin, answer } = setUp(undefined, {
      replicas: { confirm: () => new Promise(() => undefined) },
    } as object);
    await begin();
    sent[0]!.batch = { sent: {} } as never;
    await answer(GRANTED);
    expect([acquirer.withdraw('c.a'), withdrawn]).toEqual([false, []]);
  });
});

describe('a grant that replicas do not confirm', () => {
  const confirm = () => Promise.reject(new LockStoreError('no replica'));
  it.each([true, false])(
    'is given back, also a copy that arrives later (the release succeeds: %s)',
    async (succeeds) => {
      const releases: ReleaseRequest[] = [];
      const release = async (request: ReleaseRequest) => {
        releases.push(request);
        if (!succeeds) throw new LockStoreError('no answer');
      };
      const { sent, begin, answer } = setUp(undefined, { replicas: { confirm }, release } as object);
      const outcome = await begin();
      sent[0]!.batch = { sent: {} } as never;
      await answer(GRANTED);
      expect(releases).toMatchObject([{ key: 'a', attempt: 'c.a', unanswered: true }]);
      expect(outcome.value).toStrictEqual({
        outcome: 'given-back',
        cause: expect.any(LockStoreError),
        ...(succeeds ? {} : { unanswered: true }),
      });
    },
  );
});
