import { LockStoreError } from '../../../../lib/core/lock.errors.js';
import { type ResolvedLockOptions } from '../../../../lib/core/lock.options.js';
import { type AcquireReply } from '../../../../lib/core/store/lock-store.js';
import { LATE_MS } from '../../../../lib/core/timing.js';
import { settled } from '../../../support/core/fake-clock.js';
import { busy, granted } from '../../../support/core/fake-store.js';
import { startCall } from './start-calls.js';

type Options = Partial<ResolvedLockOptions>;
type Started = ReturnType<typeof startCall>;

const NODES = [{ node: 'n1', answer: 'granted', detail: '' }] as const;
const DOWN = new LockStoreError('Only 1 of 3 masters answered.', { nodes: NODES });
const FINAL = new LockStoreError('WRONGPASS', { retryable: false, wasSent: false });
const GIVEN_BACK: AcquireReply = { outcome: 'given-back', cause: DOWN };
const SPLIT = busy({ retryMs: 10, isSplit: true, isSpent: true, holder: undefined });

/** All commands fail from now on, including the first. */
function failAll({ store }: Started, error = DOWN): void {
  store.acquires[0]!.fail(error);
  store.onAcquire = () => {
    throw error;
  };
}

const pausesOf = (times: readonly number[]): number[] => times.slice(1).map((at, i) => at - times[i]!);

describe('a call', () => {
  it('sends its request at once, and counts the lease from before it was sent', async () => {
    const { clock, store, outcome, reply, finish } = startCall({}, { where: 'Orders.charge' });
    const sentAt = clock.now();
    const asked = { keys: ['k'], leaseMs: 3_000, waiterLeaseMs: 3_000, mode: 'write' };
    expect(store.acquires[0]!.request).toMatchObject({ ...asked, holder: 'host:1 Orders.charge\t10000' });
    clock.jump(100);
    await reply(granted(3_000, 7));
    const { attempt } = store.acquires[0]!.request;
    expect(outcome.value).toMatchObject({ attempt, fencingToken: 7, deadline: sentAt + 2_968 });
    await finish();
  });

  it('sends its request again when the grant came too late to be proven', async () => {
    const { clock, outcome, reply, attempts, givenBack } = startCall();
    clock.jump(2_990);
    await reply(granted(3_000));
    expect([outcome, attempts()]).toEqual([{}, [1, 1]]);
    await reply(granted(3_000));
    expect([outcome.value?.held, givenBack()]).toEqual([true, []]);
  });

  it.each<[string, Options, AcquireReply | Error, object, string]>([
    ['the lock is held', { waitMs: 0 }, busy(), { code: 'LOCK_BUSY' }, 'is held by host:1'],
    [
      'a former process of the same name holds it',
      { waitMs: 0 },
      busy({ holder: 'host:1 A.b', owner: 'former.aaaaaaaa' }),
      { code: 'LOCK_BUSY' },
      'is held by host:1 A.b (another instance of the same name), and',
    ],
    [
      'a call of this process holds it',
      { waitMs: 0 },
      busy({ holder: 'host:1 A.b', owner: 'client.aaaaaaaa' }),
      { code: 'LOCK_BUSY' },
      'is held by host:1 A.b, and',
    ],
    ['and its attempt is spent', { waitMs: 0 }, busy({ isSpent: true }), { code: 'LOCK_BUSY' }, 'is held by host:1'],
    [
      'its queue is full',
      { maxWaiters: 1 },
      busy({ isFull: true }),
      { code: 'LOCK_BUSY', key: 'k', maxWaiters: 1 },
      'The lock "k" (write) is busy, and another call waits already. Try later, or accept more (`maxWaiters`).',
    ],
    ['it is an upgrade', {}, { outcome: 'refused', reason: 'upgrade' }, { code: 'LOCK_REENTRY' }, 'k'],
    [
      'it takes more permits than there are',
      { permits: 3, mode: 'read' },
      { outcome: 'refused', reason: 'permits', permits: 2 },
      { code: 'LOCK_BUSY' },
      'permits',
    ],
    ['its fire is claimed', {}, { outcome: 'refused', reason: 'claimed' }, { code: 'LOCK_BUSY', key: 'k' }, 'k'],
    ['no retry helps', {}, FINAL, FINAL, 'WRONGPASS'],
    ['no retry helps a grant', {}, { outcome: 'given-back', cause: FINAL }, FINAL, 'WRONGPASS'],
  ])('fails at once, and leaves nothing, when %s', async (_what, options, answer, error, message) => {
    const { store, outcome, reply, sent, finish } = startCall(options);
    if (options.waitMs === 0) expect(store.acquires[0]!.request.waiterLeaseMs).toBe(0);
    if (answer instanceof Error) store.acquires[0]!.fail(answer);
    else await reply(answer);
    await settled();
    expect(outcome.error).toMatchObject(error);
    expect(outcome.error.message).toContain(message);
    expect(sent()).toEqual([1, 0]);
    await finish();
  });

  it('takes a new attempt when the store says that this one was released, of all its keys', async () => {
    const { store, outcome, reply, attempts, givenBack, finish } = startCall({}, { keys: ['b', 'a'] });
    await reply({ outcome: 'refused', reason: 'released' });
    expect([store.asked, attempts()]).toEqual([
      ['a+b', 'a+b'],
      [1, 2],
    ]);
    expect([store.givenBack, givenBack()]).toEqual([
      ['a', 'b'],
      [1, 1],
    ]);
    await reply(granted(3_000, 11, 12));
    const lock = outcome.value!;
    expect([lock.keys, lock.fencingTokens, lock.held]).toEqual([['b', 'a'], [12, 11], true]);
    await lock.release();
    expect(givenBack()).toEqual([1, 1, 2, 2]);
    await finish();
  });

  it('gives nothing back of one key that the store says was released', async () => {
    const { reply, attempts, givenBack, outcome } = startCall();
    await reply({ outcome: 'refused', reason: 'released' });
    await reply(granted(3_000, 11));
    expect([attempts(), givenBack(), outcome.value!.held]).toEqual([[1, 2], [], true]);
  });

  it.each([
    ['accepts an answer that came while the process was blocked', startCall, undefined],
    ['has no more time when it awaits no answer', startWaiting, 'LOCK_WAIT_TIMEOUT'],
  ])('%s, when its time limit passes meanwhile', async (_what, start, code) => {
    const { clock, outcome, reply } = await start({ waitMs: 1_000 });
    clock.jump(1_000 + LATE_MS + 1);
    clock.turn();
    await settled();
    expect(outcome.error?.code).toBe(code);
    if (code) return;
    await reply(granted(3_000, 7));
    expect(outcome.value!.held).toBe(true);
  });

  it('fails when the store throws instead of rejecting, and leaves nothing', async () => {
    const { clock, store, call, finish } = startCall();
    store.acquires[0]!.reply(busy({ isFull: true }));
    const error = new Error('a bug');
    store.acquire = store.release = () => {
      throw error;
    };
    const outcome = call();
    await clock.advance(10_000);
    expect(outcome.error).toBe(error);
    await finish();
  });
});

describe('a call for a busy lock', () => {
  it.each([
    ['at a third of its waiter lease', { ahead: 1 }, 3_001, [1_000, 1_000, 1_000]],
    ['at the head of the queue, as soon as the lease of the holder may have ended', { retryMs: 300 }, 303, [302]],
  ])('asks again %s', async (_what, reply, ms, pauses) => {
    const { clock, answerAll, attempts } = startCall();
    const times = answerAll(() => busy(reply));
    await clock.advance(ms);
    expect([pausesOf(times), new Set(attempts()).size]).toEqual([pauses, 1]);
  });

  it('asks again at once for a wake-up that came while it asked, and only once', async () => {
    const { wake, reply, attempts } = startCall();
    wake({ kind: 'wake' });
    await reply(busy());
    expect(attempts()).toEqual([1, 1]);
    await reply(busy());
    expect(attempts()).toEqual([1, 1]);
  });

  it('asks again with a new attempt when this one is spent, which keeps its places until then', async () => {
    const { clock, answerAll, attempts, givenBack } = startCall();
    answerAll((n) => busy({ ahead: 1, isSpent: n === 0 }));
    await clock.advance(999);
    expect([attempts(), givenBack()]).toEqual([[1], []]);
    await clock.advance(1_002);
    expect([attempts(), givenBack()]).toEqual([[1, 2, 2], [1]]);
  });

  it.each([
    ['nothing when the store has not sent it', true, []],
    ['the attempt otherwise, which may still arrive', false, [1]],
  ])('gives back, when it is aborted before its first answer, %s', async (_what, isWithdrawn, expected) => {
    const abort = new AbortController();
    const { store, outcome, givenBack } = startCall({ signal: abort.signal });
    Object.assign(store, { withdraw: () => isWithdrawn });
    abort.abort(new Error('enough'));
    await settled();
    expect([outcome.error, givenBack()]).toEqual([abort.signal.reason, expected]);
  });

  it('fails with LockWaitTimeoutError after waitMs, and leaves the queue', async () => {
    const { clock, outcome, answerAll, givenBack, finish } = startCall({ waitMs: 1_500 });
    answerAll(() => busy({ ahead: 2 }));
    await clock.advance(1_499);
    expect(outcome).toEqual({});
    await clock.advance(2);
    const error = { code: 'LOCK_WAIT_TIMEOUT', key: 'k', mode: 'write', holder: 'host:1', waitedMs: 1_500 };
    expect([outcome.error, givenBack()]).toMatchObject([error, [1]]);
    await finish();
  });
});

describe('a call whose store fails', () => {
  it('releases a grant again whose return had no answer, and takes a new attempt', async () => {
    const { store, reply, clock, attempts, givenBack } = startCall();
    await reply({ ...GIVEN_BACK, unanswered: true });
    await clock.advance(40);
    expect([attempts(), givenBack()]).toEqual([[1, 2], [1]]);
    expect(store.releases[0]!.request).toMatchObject({ holdAtLeastMs: 0, unanswered: true });
  });

  it('takes a new attempt after such a pause when its grant was given back', async () => {
    const { clock, outcome, answerAll, attempts, givenBack } = startCall();
    const times = answerAll((n) => (n < 3 ? GIVEN_BACK : granted(3_000, 7)));
    await clock.advance(1_000);
    expect([attempts(), givenBack(), outcome.value!.fencingToken]).toEqual([[1, 2, 3, 4], [], 7]);
    pausesOf(times).forEach((pause, i) => {
      expect(pause).toBeGreaterThanOrEqual(20 * 2 ** i);
      expect(pause).toBeLessThanOrEqual(40 * 2 ** i);
    });
  });

  it.each<[string, number, number]>(
    (['fails', 'gives back'] as const).flatMap((how) => [
      [how, 0, 1_000],
      [how, 400, 1_000],
      [how, 5_000, 5_000],
    ]),
  )('%s: it fails with waitMs %d with LockStoreError after %d ms, with the cause', async (how, waitMs, limitMs) => {
    const started = startCall({ waitMs });
    const { clock, outcome, answerAll, attempts, givenBack, finish } = started;
    if (how === 'fails') failAll(started);
    else answerAll(() => GIVEN_BACK);
    await clock.advance(limitMs - 1);
    expect(outcome).toEqual({});
    await clock.advance(1);
    expect(outcome.error).toMatchObject({ code: 'LOCK_STORE', key: 'k', cause: DOWN, nodes: NODES });
    expect(outcome.error.message).toContain('Only 1 of 3 masters answered.');
    // The pauses are random: a request may be on its way at the limit.
    const ended = givenBack().filter((one) => how === 'fails' || one !== attempts().at(-1));
    expect(ended).toEqual(how === 'fails' ? [1] : []);
    await finish();
  });

  it.each<[string, AcquireReply | null, AcquireReply | null, string]>([
    ['an outage', busy({ retryMs: 100 }), null, 'LOCK_STORE'],
    ['a grant that was given back', busy({ retryMs: 100 }), GIVEN_BACK, 'LOCK_STORE'],
    ['a busy reply', GIVEN_BACK, busy({ ahead: 1 }), 'LOCK_WAIT_TIMEOUT'],
  ])('fails by its last answer: after %s', async (_what, first, last, code) => {
    const { clock, store, outcome, reply } = startCall({ waitMs: 3_000 });
    store.onAcquire = () => {
      if (!last) throw DOWN;
      return last;
    };
    await reply(first!);
    await clock.advance(3_000);
    expect(outcome.error).toMatchObject({ code });
  });

  it.each([
    [999, 'LOCK_WAIT_TIMEOUT'],
    [1_000, 'LOCK_STORE'],
  ])('fails after a silence of %d ms at the end of a wait with %s', async (silentMs, code) => {
    const { clock, outcome, reply, wake } = startCall({ waitMs: 1_900, leaseMs: 30_000 });
    await reply(busy({ ahead: 1 }));
    await clock.advance(1_900 - silentMs);
    wake({ kind: 'wake' });
    await clock.advance(silentMs);
    expect(outcome.error).toMatchObject({ code });
  });
});

describe('a call whose votes are split', () => {
  it.each<[string, number, number, (n: number) => AcquireReply, number[]]>([
    ['grow up to eightfold', 0, 599, () => SPLIT, [10, 20, 30, 40, 50, 60, 70, 80, 80, 80]],
    [
      'begin again after an answer without a split',
      10_000,
      200,
      (n) => (n === 3 ? busy({ retryMs: 98 }) : SPLIT),
      [10, 20, 30, 100, 10, 20],
    ],
  ])('retries, even if it must not wait, after pauses that %s', async (_what, waitMs, ms, replyTo, pauses) => {
    const { clock, outcome, answerAll } = startCall({ waitMs });
    const times = answerAll(replyTo);
    await clock.advance(ms);
    expect([pausesOf(times), outcome]).toEqual([pauses, {}]);
  });

  it.each([
    ['a new one when this one is spent', SPLIT, [1, 2, 3, 4]],
    ['the same one when nothing was granted', { ...SPLIT, isSpent: false } as AcquireReply, [1, 1, 1, 1]],
  ])('is granted by a retry, with an attempt: %s', async (_what, split, expected) => {
    const { clock, outcome, answerAll, attempts, givenBack, finish } = startCall({ waitMs: 0 });
    answerAll((n) => (n < 3 ? split : granted(3_000, 7)));
    await clock.advance(60);
    expect([outcome.value!.fencingToken, attempts(), givenBack()]).toEqual([7, expected, []]);
    await finish();
  });

  it('fails with LockBusyError when they are still split after a second, and leaves nothing', async () => {
    const { clock, outcome, answerAll, store, sent, finish } = startCall({ waitMs: 0 });
    answerAll(() => ({ ...SPLIT, nodes: NODES }) as AcquireReply);
    await clock.advance(999);
    expect(outcome).toEqual({});
    await clock.advance(1);
    expect([outcome.error, store.releases]).toMatchObject([{ code: 'LOCK_BUSY', key: 'k', nodes: NODES }, []]);
    const [asked] = sent();
    await clock.advance(10_000);
    expect(sent()).toEqual([asked, 0]);
    await finish();
  });

  it('waits for the pause even when woken while it asked, and retries at once when woken later', async () => {
    const { clock, reply, store, attempts } = startCall();
    store.listener!.onListening();
    await reply(SPLIT);
    await clock.advance(9.9);
    expect(attempts()).toEqual([1]);
    store.listener!.onListening();
    expect(attempts()).toEqual([1, 2]);
    await clock.advance(600);
    expect(attempts()).toEqual([1, 2]);
  });

  it.each<[string, AcquireReply, number]>([
    ['split votes', SPLIT, 10],
    ['a grant that was given back', GIVEN_BACK, 40],
  ])('is not affected when an attempt that has ended with %s is revoked', async (_what, first, ms) => {
    const { clock, outcome, answerAll, attempts, givenBack, revoke } = startCall();
    revoke();
    answerAll((n) => (n === 0 ? first : granted(3_000, 7)));
    await clock.advance(ms);
    expect([outcome.value!.fencingToken, attempts(), givenBack()]).toEqual([7, [1, 2], []]);
  });
});

/** A call that waits in the store. */
async function startWaiting(options: Options = {}, reply: Parameters<typeof busy>[0] = {}, keys = ['k']) {
  const started = startCall(options, { keys });
  await started.reply(busy({ serverTimeMs: 10_000, ...reply }));
  return started;
}

describe('a grant that is pushed', () => {
  it('is counted from the last command that got a busy reply', async () => {
    const { clock, outcome, wake, reply, push } = await startWaiting();
    clock.jump(900);
    wake({ kind: 'wake' });
    const sentAt = clock.now();
    clock.jump(50);
    await reply(busy());
    push(9, 2_000);
    await settled();
    expect(outcome.value!.deadline).toBe(sentAt + 1_978);
  });

  it('is trusted when half of its lease is proven', async () => {
    const { clock, outcome, push } = await startWaiting({ leaseMs: 200 });
    clock.jump(96);
    push(9, 200);
    await settled();
    expect(outcome.value!.remainingMs).toBe(100);
  });

  /** Each begins with a call that waits, unless it starts another one, and pushes a grant. */
  it.each<[string, () => Started | Promise<Started>, (started: Started) => unknown, number]>([
    ['before the first answer', startCall, ({ push }) => push(9, 500), 2],
    ['too late to be proven', startWaiting, ({ clock, push }) => (clock.jump(1_980), push(9, 2_000)), 2],
    [
      'late, so that half of its lease is not proven',
      () => startWaiting({ leaseMs: 200 }),
      ({ clock, push }) => (clock.jump(97), push(9, 200)),
      2,
    ],
    [
      'in a sleep of the machine',
      startWaiting,
      ({ clock, push }) => ((clock.wallOffsetMs += 20_000), push(9, 2_000)),
      2,
    ],
    ['for a lock that is not renewed', () => startWaiting({ renew: false }), ({ push }) => push(9, 500), 2],
    ['for a lock that must outlast a crash', () => startWaiting({ holdAtLeastMs: 5 }), ({ push }) => push(9, 2_000), 2],
    ['for one of several keys', () => startWaiting({}, {}, ['a', 'b']), ({ push }) => push(9, 2_000), 2],
    ['from another server', () => startWaiting({}, { server: 'one' }), ({ push }) => push(9, 2_000), 2],
    ['with a token that the last answer has seen', () => startWaiting({}, { lastToken: 9 }), ({ push }) => push(9), 2],
    ['with an earlier token', () => startWaiting({}, { lastToken: 9 }), ({ push }) => push(8), 2],
  ])('is requested, and not trusted, when it comes %s', async (_what, start, push, asked) => {
    const started = await start();
    const { store, outcome, reply, attempts, givenBack } = started;
    push(started);
    if (store.acquires.length === 1) await reply(busy());
    await settled();
    expect([outcome, attempts().length, givenBack()]).toEqual([{}, asked, []]);
    await reply(granted(3_000, 10, 11));
    expect([outcome.value?.held, new Set(attempts()).size, givenBack()]).toEqual([true, 1, []]);
  });
});

describe('a grant that an operator revokes before its reply', () => {
  it.each<[string, string[], AcquireReply[]]>([
    ['is given back, since other nodes may still have it, and requested again', ['k'], [granted(3_000, 1)]],
    ['is given back each time', ['k'], [granted(3_000, 1), granted(3_000, 2)]],
    ['is also given back when its reply says released', ['k'], [{ outcome: 'refused', reason: 'released' }]],
    ['is one of several, which are all given back', ['a', 'b'], [granted(3_000, 1, 2)]],
  ])('%s', async (_what, keys, revoked) => {
    const { outcome, revoke, reply, attempts, givenBack } = startCall({}, { keys });
    for (const answer of revoked) {
      revoke();
      await reply(answer);
    }
    expect(outcome).toEqual({});
    await reply(granted(3_000, 8, 9));
    const gone = revoked.map((_, i) => i + 1);
    expect(outcome.value!.fencingTokens).toEqual([8, 9].slice(0, keys.length));
    expect([attempts(), givenBack()]).toEqual([[...gone, gone.length + 1], gone.flatMap((nr) => keys.map(() => nr))]);
  });

  it('is never kept, whichever of the two comes first', async () => {
    const seen = new Set<string>();
    for (let turns = 0; turns < 12; turns += 1) {
      const { store, outcome, revoke, sent } = startCall();
      store.acquires[0]!.reply(granted(3_000));
      for (let turn = 0; turn < turns; turn += 1) await Promise.resolve();
      revoke();
      await settled();
      seen.add(outcome.value ? `held, and ${outcome.value.lost?.reason}` : `asked ${sent()[0]} times`);
    }
    expect([...seen]).toEqual(['asked 2 times', 'held, and revoked']);
  });
});
