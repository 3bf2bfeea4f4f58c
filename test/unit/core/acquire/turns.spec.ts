import { LockStoreError } from '../../../../lib/core/lock.errors.js';
import { type ResolvedLockOptions } from '../../../../lib/core/lock.options.js';
import { WATCH_HANDLES_AFTER_MS } from '../../../../lib/core/timing.js';
import { lockOptions } from '../../../support/core/core-parts.js';
import { settled } from '../../../support/core/fake-clock.js';
import { busy, granted } from '../../../support/core/fake-store.js';
import { CLAIM, servedOf, startCalls } from './start-calls.js';

type Options = Partial<ResolvedLockOptions>;

/** A locker whose store reserves tokens with each grant. */
const startTurns = () => startCalls({}, true);

/** One call has the lock, and two wait behind it. */
async function startHeld(options?: Options) {
  const parts = startTurns();
  const [first, second, third] = parts.calls(3, options);
  await settled();
  return { ...parts, lock: first!.value!, second: second!, third: third! };
}

type Held = Awaited<ReturnType<typeof startHeld>>;

/** The next call has asked the store, and got its own lock. */
function expectAskedAnew({ local, second, third, attempts }: Held): void {
  expect([local(), attempts()]).toEqual([
    [false, false],
    [1, 2],
  ]);
  expect([second.value!.fencingToken, second.value!.held, third]).toEqual([2_000, true, {}]);
}

describe('the calls of one process for one key', () => {
  it('send one command together, and hand on the unchanged hold of the store, one at a time, each with the next token', async () => {
    const { clock, store, locker, calls, acquired, sent, local, finish } = startTurns();
    const all = calls(3);
    await settled();
    const [first] = all;
    const { attempt, refs } = first!.value!;
    for (const [i, { value }] of all.entries()) {
      const lock = value!;
      expect(all.map((other) => other.value?.held ?? false)).toEqual(all.map((_, other) => other === i));
      expect(lock).toMatchObject({ attempt, refs, heldMs: 0 });
      clock.jump(1);
      const releasing = [lock.release(), lock.release()];
      expect([lock.held, lock.isEnded, locker.holds.size]).toEqual([false, true, i === 2 ? 0 : 1]);
      expect(await Promise.all(releasing)).toEqual([true, false]);
      lock.endLost();
      await settled();
    }
    expect(acquired.map(({ fencingToken }) => fencingToken)).toEqual([1_000, 1_001, 1_002]);
    expect([sent(), store.renews.length, local()]).toEqual([[1, 1], 2, [false, true, true]]);
    expect(store.releases[0]!.request.attempt).toBe(attempt);
    await finish();
  });
});

describe('the one call of a process for a key', () => {
  it('has no timer for the calls that might wait for it', async () => {
    const timers = [];
    for (const reservesTokens of [true, false]) {
      const { locker, hold } = startCalls({}, reservesTokens);
      await hold();
      timers.push(locker.live.timers);
    }
    expect(timers[0]).toBe(timers[1]);
  });
});

describe('the calls of one process for one key of a store that reserves no tokens', () => {
  it('each ask it', () => {
    const { calls, sent } = startCalls();
    calls(3);
    expect(sent()).toEqual([3, 0]);
  });
});

describe('thousands of readers that ask together', () => {
  /** How often the readers are looked at until all calls are granted; `calls` come after the readers. */
  async function looksOf(count: number, calls: readonly Options[]): Promise<number> {
    const { locker, store } = startTurns();
    store.onAcquire = null;
    let looks = 0;
    const look = (): string => ((looks += 1), 'read');
    const counted = Object.defineProperty(lockOptions(), 'mode', { get: look, enumerable: true });
    const readers = Array.from({ length: count }, () => counted);
    const all = [...readers, ...calls.map(lockOptions)].map((one) => locker.acquire(locker.request(['k'], one)));
    for (let granting = 0; granting < all.length; granting += 1) {
      store.acquires[granting]!.reply(granted(3_000, 100 + granting));
      await settled();
    }
    await Promise.all(all);
    return looks;
  }

  it('are not compared with each other', async () => {
    expect(await looksOf(400, [])).toBeLessThan(5 * (await looksOf(100, [])));
  });

  it('are not compared with a reader that waits behind a writer which asks with them', async () => {
    const calls: Options[] = [{ owner: 'writer' }, { mode: 'read' }];
    expect(await looksOf(400, calls)).toBeLessThan(5 * (await looksOf(100, calls)));
  });
});

describe('a turn', () => {
  it.each<[string, Options, (started: Held) => unknown, boolean]>([
    ['4.5 ms', {}, ({ clock }) => clock.jump(4.5), true],
    ['5 ms', {}, ({ clock }) => clock.jump(5), false],
    ['500 ms', {}, ({ clock }) => clock.jump(500), false],
    ['4 ms of a lease of which more than half is proven', { leaseMs: 120 }, ({ clock }) => clock.jump(4), true],
    ['4 ms of a lease of which less than half is proven', { leaseMs: 10 }, ({ clock }) => clock.jump(4), false],
    ['a sleep of 1400 ms of 3000', {}, ({ clock }) => (clock.wallOffsetMs += 1_400), true],
    ['a sleep of 1500 ms of 3000', {}, ({ clock }) => (clock.wallOffsetMs += 1_500), false],
    ['a sleep of more than the lease', {}, ({ clock }) => (clock.wallOffsetMs += 5_000), false],
    ['the wall clock was set back', {}, ({ clock }) => (clock.wallOffsetMs -= 3_600_000), true],
  ])('hands the lock on after %s, or not', async (_when, options, pass, isLocal) => {
    const started = await startHeld(options);
    const { lock, second, local, sent, finish } = started;
    pass(started);
    await lock.release();
    await settled();
    expect([second.value!.held, local(), sent()]).toEqual([true, [false, isLocal], isLocal ? [1, 0] : [2, 1]]);
    await finish();
  });

  it('is of 5 ms from the arrival of the grant, for all calls together, and begins again with the next grant', async () => {
    const { clock, store, answer, calls, local, reply } = startTurns();
    store.onAcquire = null;
    const all = calls(6);
    clock.jump(400);
    await reply(answer(store.acquires[0]!.request));
    store.onAcquire = answer;
    for (const { value } of all) {
      clock.jump(2);
      await value!.release();
      await settled();
    }
    expect(local()).toEqual([false, true, true, false, true, true]);
  });

  it('is of 64 calls', async () => {
    const { calls, releaseAll, local, acquired, sent } = startTurns();
    const all = calls(130);
    await settled();
    await releaseAll(all);
    const turn = (first: number) => Array.from({ length: 64 }, (_, i) => first + i);
    const tokens = acquired.map(({ fencingToken }) => fencingToken);
    expect(tokens).toEqual([...turn(1_000), ...turn(2_000), 3_000, 3_001]);
    expect([local(), sent()]).toEqual([tokens.map((token) => token % 1_000 > 0), [3, 3]]);
  });

  it('ends in the middle of the work: the next call asks the store, and a later one waits for that', async () => {
    const { clock, store, lock, second, third, sent, local, push, finish } = await startHeld();
    store.onAcquire = () => busy({ holder: 'host:1' });
    await clock.advance(4);
    expect(sent()).toEqual([1, 0]);
    await clock.advance(51);
    expect(sent()).toEqual([2, 0]);
    await lock.release();
    await settled();
    expect([second, sent()]).toEqual([{}, [2, 1]]);
    push(5_000);
    await settled();
    expect(second.value!.fencingToken).toBe(5_000);
    await second.value!.release();
    await settled();
    expect([third.value!.fencingToken, local()]).toEqual([5_001, [false, false, true]]);
    await finish();
  });

  it('lets a call that comes after its end ask at once, behind those that came first', async () => {
    const { clock, store, hold, call, reply, sent } = startTurns();
    await hold();
    const early = call();
    store.onAcquire = null;
    clock.jump(20);
    const late = call();
    expect(sent()).toEqual([1, 0]);
    clock.turn();
    await reply(granted(3_000, 2_000));
    expect([sent(), servedOf([early, late])]).toEqual([
      [2, 0],
      [true, false],
    ]);
    clock.jump(20);
    await early.value!.release();
    expect(sent()).toEqual([3, 1]);
  });

  it('is forgotten while a handle holds the lock for long: the calls that wait make a turn with their own leases', async () => {
    const { clock, locker, store, answer, hold, calls, sent, local, finish } = startTurns();
    const first = locker.handles.handOut(await hold());
    await clock.advance(WATCH_HANDLES_AFTER_MS);
    store.onAcquire = () => busy();
    const early = calls(2, { leaseMs: 9_000 });
    await clock.advance(2 * WATCH_HANDLES_AFTER_MS);
    const all = [...early, ...calls(1, { leaseMs: 9_000 })];
    await settled();
    expect(sent()).toEqual([2, 0]);
    await first.release();
    store.onAcquire = answer;
    store.listener!.onListening();
    await settled();
    expect([servedOf(all), local(), sent()[1]]).toEqual([[true, false, false], [false, false], 1]);
    await all[0]!.value!.release();
    await settled();
    expect(servedOf(all)).toEqual([true, true, false]);
    await finish();
  });

  it('that had to wait also serves the calls that come meanwhile', async () => {
    const { store, answer, call, releaseAll, local, push, sent } = startTurns();
    store.onAcquire = () => busy({ ahead: 1, holder: 'host:2' });
    const all = [call()];
    await settled();
    store.onAcquire = answer;
    all.push(call());
    push(500);
    all.push(call(), call());
    await settled();
    await releaseAll(all.slice(0, 3));
    all.push(call());
    await releaseAll(all.slice(3));
    expect([local(), sent()]).toEqual([
      [false, true, true, true, true],
      [1, 1],
    ]);
  });

  it('ends in the middle of the work also after a turn that a loss has ended', async () => {
    const { clock, store, answer, lock, second, sent, reply } = await startHeld();
    store.onAcquire = null;
    clock.jump(1);
    lock.lose('taken');
    await reply(answer(store.acquires[1]!.request));
    await clock.advance(4.5);
    expect([second.value!.held, sent()[0]]).toEqual([true, 2]);
    await clock.advance(1);
    expect(sent()[0]).toBe(3);
  });

  it('is over after a listener of `acquired` that took as long as the lease', async () => {
    for (const clockOf of ['monotonic', 'wall']) {
      const { clock, locker, calls, local } = startTurns();
      let ms = 3_100;
      locker.events.on('acquired', () => {
        if (clockOf === 'wall') clock.wallOffsetMs += ms;
        else clock.jump(ms);
        ms = 0;
      });
      const [first, second] = calls(2);
      await settled();
      await first!.value!.release();
      await settled();
      expect([local(), second!.value!.held]).toEqual([[false, false], true]);
    }
  });

  it('needs half of the lease that a pushed grant has proven', async () => {
    const { clock, store, calls, local, push } = startTurns();
    store.onAcquire = () => busy({ ahead: 1 });
    const [first] = calls(2, { leaseMs: 60_000 });
    await settled();
    store.onAcquire = () => granted(60_000, 9_000);
    push(5, 30);
    await settled();
    clock.jump(4);
    await first!.value!.release();
    await settled();
    expect(local()).toEqual([false, true]);
  });
});

/** Options that exclude a call from a hand-over. */
const ALONE: [string, Options][] = [
  ['reads', { mode: 'read' }],
  ['takes a permit', { mode: 'read', permits: 3 }],
  ['names its owner', { owner: 'me' }],
  ['keeps the lock for a while', { holdAtLeastMs: 100 }],
  ['gives up the order', { fair: false }],
  ["wants the order of all callers (`fair: 'strict'`)", { fair: 'strict' }],
  ['does not wait', { waitMs: 0 }],
  ['bounds the queue', { maxWaiters: 5 }],
  ['is not renewed', { renew: false }],
];

const TOGETHER: [string, Options][] = [
  ['waits for a moment', { waitMs: 1 }],
  ['waits forever', { waitMs: Infinity }],
  ['may hold the lock only for a while', { maxHoldMs: 60_000 }],
  ['does not wait for its release', { awaitRelease: false }],
  ['is not reentrant', { reentrant: false }],
  ['has a signal', { signal: new AbortController().signal }],
];

describe('a turn is joined', () => {
  it.each(TOGETHER)('by a call that %s', async (_what, options) => {
    const { call, hold, sent, local } = startTurns();
    const lock = await hold();
    const other = call(options);
    await lock.release();
    await settled();
    expect([sent(), local(), other.value!.held]).toEqual([[1, 0], [false, true], true]);
  });

  it.each([...ALONE, ['has a lease of another length', { leaseMs: 3_001 }] as const])(
    'not by a call that %s',
    async (_what, options) => {
      const { store, call, hold, sent, local } = startTurns();
      const lock = await hold();
      store.onAcquire = () => busy();
      const other = call(options);
      await settled();
      expect(sent()).toEqual([2, 0]);
      await lock.release();
      await settled();
      expect([sent()[1], local(), other.value]).toEqual([1, [false], undefined]);
    },
  );

  it.each(ALONE)('behind no call that %s, not even next to another turn', async (_what, options) => {
    const { call, hold, sent, local, finish } = startTurns();
    const lock = await hold(options);
    const others = [call(), call()];
    await settled();
    expect(sent()).toEqual([2, 0]);
    await lock.release();
    await settled();
    expect([sent(), local(), servedOf(others)]).toEqual([
      [2, 1],
      [false, false],
      [true, false],
    ]);
    await finish();
  });

  it.each<[string, readonly (readonly string[])[], object]>([
    ['several keys', [['k', 'j'], ['k'], ['j'], ['j', 'k']], {}],
    ['the fire of a job', [['k'], ['k'], ['k']], { claim: CLAIM }],
  ])('not for %s', async (_what, all, caller) => {
    const { call, sent, local, releaseAll } = startTurns();
    const begun = all.map((keys, i) => call({}, { keys, ...(i < 2 && caller) }));
    await settled();
    expect(sent()[0]).toBe(all.length);
    await releaseAll(begun);
    expect(local()).toEqual(all.map(() => false));
  });

  it('not for keys in different slots', async () => {
    const { store, call, sent, local, releaseAll } = startTurns();
    store.groups = (keys) => keys.map((key) => [key]);
    const both = [call({}, { keys: ['k', 'j'] }), call({}, { keys: ['k', 'j'] })];
    await settled();
    expect(sent()).toEqual([4, 0]);
    await releaseAll(both);
    expect(local()).toEqual([false, false, false, false]);
  });
});

describe('a call with `perInstance` among others', () => {
  const OF_TWO: Options = { mode: 'read', permits: 20, perInstance: 2 };

  it.each<[string, Options]>([
    ['does not wait', { waitMs: 0 }],
    ['gives up the order', { fair: false }],
    ['names its owner', { owner: 'me' }],
  ])('asks at once if it %s, although others wait', async (_what, options) => {
    const { store, call, sent } = startTurns();
    store.onAcquire = null;
    call();
    call();
    expect(sent()).toEqual([1, 0]);
    call({ ...OF_TWO, ...options });
    expect(sent()).toEqual([2, 0]);
  });

  it('has no more permits after the failure of a call without it', async () => {
    const { store, call, sent } = startTurns();
    const gates = [call(OF_TWO), call(OF_TWO)];
    await settled();
    store.onAcquire = () => busy();
    const owned = call({ mode: 'read', permits: 20, owner: 'me', waitMs: 50 });
    const abort = new AbortController();
    const plain = call({ mode: 'read', signal: abort.signal });
    await settled();
    abort.abort();
    await settled();
    call(OF_TWO);
    expect([servedOf(gates), owned, plain.error, sent()[0]]).toEqual([[true, true], {}, abort.signal.reason, 4]);
  });

  it.each<[string, Options, Options]>([
    ['a writer', {}, OF_TWO],
    ['a call with `perInstance`', OF_TWO, {}],
  ])('is not reported as the cause when a call waits behind %s', async (_what, ahead, behind) => {
    const { clock, store, call } = startTurns();
    store.onAcquire = () => busy({ holder: 'host:2' });
    call(ahead);
    await settled();
    const late = call({ ...behind, waitMs: 20 });
    await clock.advance(20);
    expect(late.error).toMatchObject({ code: 'LOCK_WAIT_TIMEOUT', holder: 'host:2', perInstance: undefined });
  });
});

describe('a shutdown that a listener begins while the lock is handed on', () => {
  it('also gives the next holder its time', async () => {
    const { clock, locker, lock, second, third } = await startHeld();
    let isClosed = false;
    locker.events.on('released', () => void locker.close(1_000).then(() => (isClosed = true)));
    await lock.release();
    await clock.advance(900);
    expect([second.value!.lost, third.error.code, isClosed]).toEqual([null, 'LOCK_SHUTDOWN', false]);
    expect(await second.value!.release()).toBe(true);
    await settled();
    expect(isClosed).toBe(true);
  });
});

describe('a lock is not handed on', () => {
  it.each<[string, (started: Held) => unknown]>([
    ['revoked', ({ revoke }) => revoke()],
    ['taken', ({ lock }) => lock.lose('taken')],
    ['dropped', ({ lock }) => lock.lose('dropped')],
    ['expired', ({ lock }) => lock.expire()],
    // Not even by a listener of its signal.
    ['revoked', ({ lock, revoke }) => (lock.signal.addEventListener('abort', () => void lock.release()), revoke())],
  ])('when it is lost: the next call asks at once (%s)', async (reason, lose) => {
    const started = await startHeld();
    const { lock, finish } = started;
    lose(started);
    await settled();
    expect(lock.lost?.reason).toBe(reason);
    expectAskedAnew(started);
    // Its release concerns no other call.
    expect(await lock.release()).toBe(false);
    await settled();
    expectAskedAnew(started);
    await finish();
  });

  const extended =
    (leaseMs: number, isAnswered: boolean) =>
    async ({ store, lock }: Held) => {
      if (!isAnswered) store.onRenew = null;
      const extending = lock.extend(leaseMs).catch(() => undefined);
      if (isAnswered) await extending;
    };
  it.each<[string, (started: Held) => unknown, Options?]>([
    ['an extension by 3000 ms that is under way', extended(3_000, false)],
    ['an extension by 100 ms that is under way', extended(100, false)],
    ['an extension by 60000 ms', extended(60_000, true)],
    ['an extension by 100 ms', extended(100, true)],
    [
      'an extension without an answer',
      ({ store, lock }) => {
        store.onRenew = () => [{ outcome: 'unknown', cause: new LockStoreError('no answer') }];
        return lock.extend(3_000).catch(() => undefined);
      },
    ],
    ['a downgrade that is under way', ({ store, lock }) => ((store.onRenew = null), void lock.downgrade())],
    ['a downgrade', ({ lock }) => lock.downgrade()],
    [
      'missed messages: it may have been revoked',
      ({ clock, store }) => (clock.jump(1), store.listener!.onMessagesMissed()),
    ],
  ])('after %s', async (_what, act, options = {}) => {
    const started = await startHeld(options);
    await act(started);
    await started.lock.release();
    await settled();
    expectAskedAnew(started);
  });

  it.each([true, false])('while a command of its attempt has no answer, if it was sent: %s', async (wasSent) => {
    const { clock, store, answer, calls, local, reply } = startTurns();
    store.onAcquire = null;
    const [first] = calls(2);
    store.acquires[0]!.fail(new LockStoreError('no answer', { wasSent }));
    await clock.advance(500);
    store.onAcquire = answer;
    await reply(answer(store.acquires[1]!.request));
    await first!.value!.release();
    await settled();
    expect([local(), store.releases.map(({ request }) => request.unanswered)]).toEqual([
      [false, !wasSent],
      wasSent ? [true] : [],
    ]);
  });
});
