import { AsyncLocalStorage } from 'node:async_hooks';
import { type LockEventName } from '../../../../lib/core/lock.events.js';
import { type ResolvedLockOptions } from '../../../../lib/core/lock.options.js';
import { type LockState } from '../../../../lib/core/store/lock-state.js';
import { NOTHING } from '../../../support/core/core-parts.js';
import { settled } from '../../../support/core/fake-clock.js';
import { busy } from '../../../support/core/fake-store.js';
import { type Call, startCalls } from './start-calls.js';

type Options = Partial<ResolvedLockOptions>;

const TIMEOUT = { code: 'LOCK_WAIT_TIMEOUT' };
const SILENCE = { code: 'LOCK_STORE' };
const SHUTDOWN = { code: 'LOCK_SHUTDOWN' };

/** A locker whose store reserves tokens with each grant. */
const startTurns = () => startCalls({}, true);

/** The first call has the lock. */
async function startHeld() {
  const parts = startTurns();
  return { ...parts, lock: await parts.hold() };
}

/** The first call waits in the store, unless that gives no answer, and the others behind it. */
async function startWaiting(options: Options = {}, answers = true) {
  const parts = startTurns();
  const { store, call } = parts;
  store.onAcquire = answers ? () => busy({ ahead: 1, holder: 'host:2' }) : null;
  const abort = new AbortController();
  const first = call({ signal: abort.signal, ...options });
  await settled();
  return { ...parts, abort, first };
}

describe('a call that waits behind others of its process', () => {
  it('times out by its own waitMs, with the holder, and with the number of waiters before it', async () => {
    const { clock, call, sent, finish } = await startHeld();
    await clock.advance(1);
    const all = [call({ waitMs: 3 }), call(), call({ waitMs: 2 })];
    await clock.advance(1);
    expect(all).toEqual([{}, {}, {}]);
    await clock.advance(1);
    expect(all).toMatchObject([
      {},
      {},
      { error: { ...TIMEOUT, key: 'k', mode: 'write', waitedMs: 2, holder: 'host:1' } },
    ]);
    expect(all[2]!.error.message).toContain('was still busy after 2 ms, held by host:1, with 2 waiting ahead.');
    await clock.advance(1);
    expect([all[0]!.error, sent()]).toMatchObject([TIMEOUT, [1, 0]]);
    await finish();
  });

  it('waits in the store once the lock is held for longer, also when it came at that moment', async () => {
    // The time may pass between any two readings of the clock.
    for (let readings = 1; readings <= 20; readings++) {
      const { clock, call, sent, finish } = await startHeld();
      await clock.advance(4);
      let now = 1 - readings / 100;
      clock.jump(now);
      const read = clock.now.bind(clock);
      clock.now = () => {
        if (now < 1.5) {
          now += 0.01;
          clock.jump(0.01);
        }
        return read();
      };
      call();
      await clock.advance(5);
      expect([readings, ...sent()]).toEqual([readings, 2, 0]);
      clock.now = read;
      await finish();
    }
  });

  it('counts as a waiter of its key', async () => {
    const { locker, calls } = await startHeld();
    calls(2);
    const waiters = (key: string) => locker.withWaiters({ key, waiters: 3 } as LockState).waiters;
    expect([waiters('k'), waiters('other')]).toEqual([5, 3]);
  });

  it('also counts those before it in the store', async () => {
    const { clock, call } = await startWaiting();
    const [, third] = [call(), call({ waitMs: 50 })];
    await clock.advance(50);
    expect(third.error).toMatchObject({ ...TIMEOUT, holder: 'host:2' });
    // One in the queue of the store, then the call that waits there, then the second.
    expect(third.error.message).toContain('held by host:2, with 3 waiting ahead.');
  });

  it('waits behind all readers that ask the store, and is announced as such', async () => {
    const { store, call, heard, sent } = startTurns();
    store.onAcquire = () => busy({ holder: 'host:2' });
    const aborts = [0, 1, 2].map(() => new AbortController());
    for (const { signal } of aborts) call({ mode: 'read', signal });
    await settled();
    const waiting = heard('waiting');
    call();
    for (const abort of aborts) {
      expect([sent()[0], waiting]).toMatchObject([3, [{ ahead: 3 }]]);
      abort.abort();
      await settled();
    }
    expect(sent()[0]).toBe(4);
  });

  it('lets the readers behind it ask the store when it times out', async () => {
    const { clock, call, attempts } = await startWaiting({ mode: 'read' });
    const writer = call({ waitMs: 20 });
    call({ mode: 'read' });
    expect(new Set(attempts()).size).toBe(1);
    await clock.advance(20);
    expect([writer.error, new Set(attempts()).size]).toMatchObject([TIMEOUT, 2]);
  });

  it('does not hold back a call whose owner may have the lock', async () => {
    const { store, answer, call, attempts, first } = await startWaiting();
    call();
    store.onAcquire = answer;
    const own = call({ owner: 'me' });
    await settled();
    expect([first, own.value?.held, new Set(attempts()).size]).toEqual([{}, true, 2]);
  });

  it('ends as soon as the event loop is free again after its time: it awaits no answer', async () => {
    const { clock, call } = await startWaiting();
    const second = call({ waitMs: 100 });
    clock.jump(1_000);
    clock.turn();
    await settled();
    expect(second.error).toMatchObject(TIMEOUT);
  });

  it.each<[string, number, number, object]>([
    ['a first answer that does not come', 100, 1_000, SILENCE],
    ['a first answer that does not come in a long wait', 1_500, 1_500, SILENCE],
  ])('has as much time as a call that asks for itself, for %s', async (_what, waitMs, ms, error) => {
    const { clock, call, abort, first } = await startWaiting({}, false);
    const second = call({ waitMs });
    await clock.advance(50);
    // It continues for one that was cancelled.
    abort.abort();
    await clock.advance(ms - 51);
    expect([first.error, second]).toEqual([abort.signal.reason, {}]);
    await clock.advance(1);
    expect(second.error).toMatchObject(error);
  });

  it('has that time behind a call that still waits for its answer, until the lock is known to be busy', async () => {
    const { clock, call, reply, first } = await startWaiting({}, false);
    const [second, third] = [call({ waitMs: 100 }), call({ waitMs: 700 })];
    await clock.advance(999);
    expect([second, third]).toEqual([{}, {}]);
    await clock.advance(1);
    expect([second.error, third.error]).toMatchObject([SILENCE, SILENCE]);
    const fourth = call({ waitMs: 100 });
    await clock.advance(300);
    expect(fourth).toEqual({});
    await reply(busy({ holder: 'host:2' }));
    await clock.advance(0);
    expect([first, fourth.error]).toMatchObject([{}, TIMEOUT]);
  });

  it.each([
    ['waits for it before', 0],
    ['does not', 20],
  ])('has no more than its waitMs when it asks for a lock that is known to be busy, whether it %s', async (_if, ms) => {
    const { clock, store, call } = await startHeld();
    store.onAcquire = null;
    clock.jump(ms);
    const second = call({ waitMs: 50 });
    await clock.advance(49);
    expect([store.acquires.length, second]).toEqual([2, {}]);
    await clock.advance(1);
    expect(second.error).toMatchObject(TIMEOUT);
  });
});

describe('a call that asks the store for others, and is cancelled', () => {
  it.each(['signal', 'waitMs'])('leaves its place to the next one, with its name and its terms (%s)', async (how) => {
    const { clock, store, locker, call, abort, first, push, attempts, acquired, sent, finish } = await startWaiting();
    await clock.advance(1);
    const [second, third] = [call({ maxHoldMs: 70 }, { where: 'Orders.charge' }), call()];
    if (how === 'signal') abort.abort();
    await clock.advance(how === 'signal' ? 1_000 : 9_999);
    expect([first.value, first.error]).toEqual([undefined, expect.anything()]);
    expect([second, third, locker.live.waiting]).toEqual([{}, {}, 2]);
    const holder = 'host:1 Orders.charge\t10000';
    expect([new Set(attempts()).size, sent()[1], store.acquires.at(-1)!.request.holder]).toEqual([1, 0, holder]);
    push(500);
    await settled();
    const label = { where: 'Orders.charge', template: 'k' };
    expect([second.value!.request, third]).toMatchObject([{ options: { maxHoldMs: 70 }, holder, label }, {}]);
    expect(acquired).toMatchObject([{ ...label, fencingToken: 500, waited: true, local: false }]);
    await finish();
  });
});

describe('a call that gets the lock for which a cancelled one has asked', () => {
  it('asks for those that come after it', async () => {
    const { call, abort, attempts } = await startWaiting();
    call();
    abort.abort();
    call();
    await settled();
    expect(new Set(attempts()).size).toBe(1);
  });

  it('gives the store its own name with the first renewal', async () => {
    const { clock, store, call, abort, push, finish } = await startWaiting();
    const second = call({ note: 'second' });
    abort.abort();
    push(500);
    await clock.advance(1_000);
    const [renewed] = store.renews[0]!.request;
    const named = { holder: 'host:1\t10000\tsecond', hasNewHolder: true };
    expect([second.value!.held, renewed]).toMatchObject([true, named]);
    await finish();
  });
});

describe('a shutdown', () => {
  it.each([true, false])(
    'cancels all calls that wait, and hands nothing on (one of them holds the lock: %s)',
    async (isHeld) => {
      const { clock, locker, call, first, calls, sent, acquired, push } = await startWaiting();
      if (isHeld) push(500);
      await settled();
      const late: Call[] = [];
      let left = 3;
      locker.events.on('acquireFailed', () => void (left-- > 0 && late.push(call())));
      const waiting = [...(isHeld ? [] : [first]), ...calls(3)];
      const closing = locker.close(2_000);
      await settled();
      expect([...waiting, ...late].map(({ error }) => error)).toMatchObject([...waiting, ...late].map(() => SHUTDOWN));
      expect(late).toHaveLength(3);
      expect([first.value?.held, first.value?.lost]).toEqual(isHeld ? [true, null] : [undefined, undefined]);
      await first.value?.release();
      await closing;
      expect([sent(), acquired.length, locker.live, clock.keptAlive]).toEqual([[1, 1], isHeld ? 1 : 0, NOTHING, 0]);
    },
  );
});

describe('a listener that releases the lock during a shutdown', () => {
  it('hands it to no call', async () => {
    const { locker, calls, lock, acquired } = await startHeld();
    const waiting = calls(2);
    locker.events.on('acquireFailed', () => void lock.release());
    await locker.close(2_000);
    expect([waiting.map(({ error }) => error), acquired.length]).toMatchObject([[SHUTDOWN, SHUTDOWN], 1]);
  });
});

describe('the events of a lock that is handed on', () => {
  it('report each hold, in order, and which of them was local', async () => {
    const { clock, store, locker, answer, calls } = startTurns();
    store.onAcquire = (request) => ({ ...answer(request), serverTimeMs: 77 }) as never;
    const heard: unknown[] = [];
    for (const name of ['acquired', 'acquireFailed', 'waiting', 'released', 'timedOut', 'lost'] as const) {
      locker.events.on(name, (event) => void heard.push([name, event]));
    }
    const [first, second] = calls(2);
    await settled();
    for (const [ms, { value }] of [[3, first!], [1, second!]] as const) {
      clock.jump(ms);
      await value!.release();
      await settled();
    } // prettier-ignore
    const { attempt } = first!.value!;
    const of = { key: 'k', keys: ['k'], mode: 'write', where: '', template: undefined };
    const granting = { ...of, attempt, serverTimeMs: 77 };
    expect(heard).toEqual([
      ['waiting', { ...of, ahead: 1, holder: undefined }],
      ['acquired', { ...granting, fencingToken: 1_000, waitedMs: 0, waited: false, local: false }],
      ['released', { ...of, attempt, fencingToken: 1_000, heldMs: 3, holds: undefined }],
      ['acquired', { ...granting, fencingToken: 1_001, waitedMs: 3, waited: true, local: true }],
      ['released', { ...of, attempt, fencingToken: 1_001, heldMs: 1, holds: 0 }],
    ]);
  });

  it('report once the holder, and the number of calls before one, also when that waits in the store later', async () => {
    const { clock, store, calls, heard, push, acquired } = await startHeld();
    const waiting = heard('waiting');
    const [second] = calls(3);
    const expected = [0, 1, 2].map((ahead) => ({ ahead, holder: 'host:1' }));
    expect(waiting).toMatchObject(expected);
    store.onAcquire = () => busy({ ahead: 3 });
    await clock.advance(50);
    expect([store.acquires.length, waiting]).toMatchObject([2, expected]);
    push(9_000);
    await settled();
    expect([second!.value!.held, acquired.at(-1)]).toMatchObject([true, { waited: true, local: false, waitedMs: 50 }]);
  });

  it('report the end of each failed call once', async () => {
    const { clock, call, abort, heard } = await startWaiting({ waitMs: 20, signal: undefined });
    const [failed, late] = [heard('acquireFailed'), heard('timedOut')];
    for (const options of [{ waitMs: 30 }, { signal: abort.signal }, { waitMs: 10 }]) call(options);
    abort.abort();
    await clock.advance(40);
    expect(failed.map((event) => [event.reason, event.waited, event.waitedMs])).toEqual([
      ['aborted', true, 0],
      ['timeout', true, 10],
      ['timeout', true, 20],
      ['timeout', true, 30],
    ]);
    expect(late.map(({ waitedMs, holder }) => [waitedMs, holder])).toEqual([10, 20, 30].map((ms) => [ms, 'host:2']));
  });

  it('come in the async context of their call, which continues in it, whichever call causes them', async () => {
    const caller = new AsyncLocalStorage<string>();
    const { clock, store, locker, answer, call, lock } = await startHeld();
    const seen: unknown[] = [];
    const names: LockEventName[] = ['waiting', 'acquireFailed', 'acquired', 'released'];
    for (const name of names) locker.events.on(name, () => void seen.push([name, caller.getStore()]));
    const abort = new AbortController();
    caller.run('b', () => call({ signal: abort.signal }));
    const inContext = (name: string): Promise<Call> =>
      caller.run(name, async () => {
        const begun = call();
        while (!begun.value) await settled();
        seen.push(['work', caller.getStore()]);
        return begun;
      });
    const [c, d] = [inContext('c'), inContext('d')];
    caller.run('other', () => abort.abort());
    await caller.run('a', () => lock.release());
    const { value } = await c;
    // The next one asks the store, in the context of the one that releases the lock.
    store.onAcquire = answer;
    clock.jump(10);
    await caller.run('c', () => value!.release());
    await d;
    expect(seen).toEqual([
      ['waiting', 'b'],
      ['waiting', 'c'],
      ['waiting', 'd'],
      ['acquireFailed', 'b'],
      ['released', 'a'],
      ['acquired', 'c'],
      ['work', 'c'],
      ['released', 'c'],
      ['acquired', 'd'],
      ['work', 'd'],
    ]);
  });
});

describe('the listener of `acquired`', () => {
  it('runs in the async context of the call that the lock is handed to', async () => {
    const caller = new AsyncLocalStorage<string>();
    const { locker, call, lock } = await startHeld();
    const seen: unknown[] = [];
    locker.events.on('acquired', () => void seen.push(caller.getStore()));
    caller.run('b', () => call());
    await caller.run('a', () => lock.release());
    expect(seen).toEqual(['b']);
  });

  it.each([1, 2])('that releases the lock at once hands it on (calls in a row: %s)', async (inARow) => {
    const { locker, calls, lock, finish } = await startHeld();
    let left = inARow;
    locker.events.on('acquired', () => {
      if (left > 0) for (const hold of locker.holds) void hold.release();
      left -= 1;
    });
    const all = calls(inARow + 1);
    await lock.release();
    await settled();
    expect(all.map(({ value }) => value?.held)).toEqual([...Array.from({ length: inARow }, () => false), true]);
    await finish();
  });
});

describe('a listener', () => {
  it.each(['released', 'acquired', 'waiting', 'acquireFailed'] as const)(
    'of `%s` that acquires the same lock waits like any other',
    async (name) => {
      const { locker, call, calls, lock, acquired, finish } = await startHeld();
      const late: Call[] = [];
      let isFirst = true;
      locker.events.on(name, () => {
        if (!isFirst) return;
        isFirst = false;
        late.push(call());
      });
      const abort = new AbortController();
      const aborted = call({ signal: abort.signal });
      abort.abort();
      const others = calls(2);
      await lock.release();
      await settled();
      // The listener of `waiting` and of `acquireFailed` came before them.
      const inOrder = name === 'released' || name === 'acquired' ? [...others, ...late] : [...late, ...others];
      for (const { value } of inOrder) {
        expect(value!.held).toBe(true);
        await value!.release();
        await settled();
      }
      expect([aborted.error, acquired.map(({ fencingToken }) => fencingToken)]).toEqual([
        abort.signal.reason,
        [1_000, 1_001, 1_002, 1_003],
      ]);
      await finish();
    },
  );

  it('of `released` that takes the rest of the turn keeps the lock from no call', async () => {
    const { clock, store, answer, locker, call, lock, reply, finish } = await startHeld();
    const second = call();
    let late: Call | undefined;
    locker.events.on('released', () => {
      if (late) return;
      clock.jump(20);
      late = call();
    });
    store.onAcquire = null;
    await lock.release();
    await settled();
    expect([second.value!.held, store.acquires.length, late]).toEqual([true, 2, {}]);
    await second.value!.release();
    await reply(answer(store.acquires[1]!.request));
    expect(late!.value!.held).toBe(true);
    await finish();
  });

  it('of `timedOut` that cancels the call which asks the store does not affect the next one', async () => {
    const { clock, locker, answer, store, call, abort, first, finish } = await startWaiting({ waitMs: 300 });
    locker.events.on('timedOut', () => abort.abort());
    const second = call();
    await clock.advance(400);
    expect([first.error, second]).toEqual([abort.signal.reason, {}]);
    store.onAcquire = answer;
    await clock.advance(2_000);
    expect(second.value!.held).toBe(true);
    await finish();
  });

  it('of a signal that thousands share fail without a scan of all of them for each', async () => {
    const { locker, calls, heard, call, sent, finish } = await startHeld();
    const failed = heard('acquireFailed');
    const abort = new AbortController();
    const { signal } = abort;
    let isAborted = false;
    let looks = 0;
    Object.defineProperty(signal, 'aborted', { get: () => ((looks += 1), isAborted) });
    const count = 2_000;
    const all = calls(count, { signal });
    const behind = call();
    looks = 0;
    isAborted = true;
    abort.abort();
    await settled();
    expect(all.every(({ error }) => error === signal.reason)).toBe(true);
    expect([failed.length, locker.live.waiting, behind, sent()]).toEqual([count, 1, {}, [1, 0]]);
    expect(looks).toBeLessThan(5 * count);
    await finish();
  });

  it('of a signal that releases the lock, and one that asks for it again, leave one turn, which ends', async () => {
    const { clock, locker, call, calls, lock } = await startHeld();
    await lock.extend(5_000);
    const abort = new AbortController();
    abort.signal.addEventListener('abort', () => void lock.release());
    const aborted = call({ signal: abort.signal });
    const late: Call[] = [];
    locker.events.on('acquireFailed', () => void (late.length === 0 && late.push(call())));
    abort.abort();
    const others = calls(2, { waitMs: Infinity });
    await settled();
    expect([aborted.error, late[0]!.value!.held, locker.live.waiting]).toEqual([abort.signal.reason, true, 2]);
    const closing = locker.close(0);
    await clock.advance(2_000);
    await closing;
    for (const { error } of others) expect(error).toMatchObject(SHUTDOWN);
    expect(locker.live).toMatchObject({ locks: 0, waiting: 0 });
  });
});
