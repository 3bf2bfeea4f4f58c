import { settled } from '../../../../support/core/fake-clock.js';
import { busy, granted } from '../../../../support/core/fake-store.js';
import { type Call, servedOf, startTurns } from './start-turns.js';

describe('a listener that acquires the same lock', () => {
  it.each(['released', 'acquired', 'waiting', 'acquireFailed'] as const)('in %s waits as any other', async (name) => {
    const { locker, call, calls, hold, acquired, finish } = startTurns();
    const lock = await hold();
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
    for (const one of inOrder) {
      expect(one.value!.held).toBe(true);
      await one.value!.release();
      await settled();
    }
    expect([aborted.error, acquired.map(({ fencingToken }) => fencingToken)]).toEqual([
      abort.signal.reason,
      [1_000, 1_001, 1_002, 1_003],
    ]);
    await finish();
  });

  it('in `acquired`, at the grant of the store, is served in the same turn', async () => {
    const { store, locker, call, push, acquired } = startTurns();
    store.onAcquire = () => busy();
    const first = call();
    await settled();
    let late: Call | undefined;
    locker.events.on('acquired', () => void (late ??= call()));
    push(0, 300);
    await settled();
    await first.value!.release();
    await settled();
    expect([late!.value!.held, acquired.map(({ fencingToken }) => fencingToken)]).toEqual([true, [300, 301]]);
  });

  it('in `released` asks the store when the turn is over, and the next one still has the lock', async () => {
    const { clock, store, locker, call, hold, finish } = startTurns();
    const lock = await hold();
    const second = call();
    let late: Call | undefined;
    locker.events.on('released', () => {
      if (late) return;
      clock.jump(20);
      late = call();
    });
    const answer = store.onAcquire!;
    store.onAcquire = null;
    await lock.release();
    await settled();
    expect([second.value!.held, store.acquires.length, late]).toEqual([true, 2, {}]);
    await second.value!.release();
    store.acquires[1]!.reply(answer(store.acquires[1]!.request));
    await settled();
    expect(late!.value!.held).toBe(true);
    await finish();
  });
});

describe('a listener that cancels other calls', () => {
  it.each(['released', 'acquired'] as const)('in %s, while the lock is handed on, does no harm', async (name) => {
    const { locker, call, calls, hold, finish } = startTurns();
    const lock = await hold();
    const abort = new AbortController();
    const aborted = calls(3, { signal: abort.signal });
    const last = call();
    locker.events.on(name, () => abort.abort());
    await lock.release();
    await settled();
    // The first of them was being handed the lock.
    expect(servedOf(aborted)).toEqual([true, false, false]);
    await aborted[0]!.value!.release();
    await settled();
    expect(last.value!.fencingToken).toBe(1_002);
    await finish();
  });

  it('in `waiting` of its own call leaves nothing behind', async () => {
    const { locker, call, hold, finish } = startTurns();
    await hold();
    const abort = new AbortController();
    locker.events.on('waiting', () => abort.abort());
    const second = call({ signal: abort.signal });
    await settled();
    expect([second.error, locker.live.waiting]).toEqual([abort.signal.reason, 0]);
    await finish();
  });

  it('throws, which has no effect', async () => {
    const { locker, reporter, calls } = startTurns();
    for (const name of ['acquired', 'released', 'waiting'] as const) {
      locker.events.on(name, () => {
        throw new Error('a bug');
      });
    }
    const [first, second] = calls(2);
    await settled();
    expect(await first!.value!.release()).toBe(true);
    await settled();
    expect([second!.value!.held, reporter.lines.length > 0]).toEqual([true, true]);
  });
});

describe('a listener of `timedOut`', () => {
  it('that cancels the call which asks the store leaves the next one alone', async () => {
    const { clock, store, locker, call, finish } = startTurns();
    store.onAcquire = () => busy();
    const abort = new AbortController();
    locker.events.on('timedOut', () => abort.abort());
    const first = call({ waitMs: 300, signal: abort.signal });
    const second = call({ waitMs: 10_000 });
    await clock.advance(400);
    expect([first.error, second]).toEqual([abort.signal.reason, {}]);
    store.onAcquire = ({ leaseMs }) => granted(leaseMs, 300);
    await clock.advance(2_000);
    expect(second.value!.held).toBe(true);
    await finish();
  });

  it.each(['cancels that call', 'releases the lock'])(
    'that %s, which waits in the process, ends it once',
    async (what) => {
      const { clock, locker, call, hold, acquired, finish } = startTurns();
      const lock = await hold();
      const abort = new AbortController();
      const ends: unknown[] = [];
      locker.events.on('acquireFailed', ({ error }) => ends.push(error));
      locker.events.on('timedOut', () => (what === 'releases the lock' ? void lock.release() : abort.abort()));
      const late = call({ waitMs: 5, signal: abort.signal });
      const other = call();
      await clock.advance(6);
      await lock.release();
      await settled();
      expect([late.error, ends]).toMatchObject([{ code: 'LOCK_WAIT_TIMEOUT' }, [late.error]]);
      expect([acquired.length, other.value!.held]).toEqual([2, true]);
      await finish();
    },
  );
});

describe('a listener that takes long', () => {
  it('in `waiting`, past the end of the turn, does not keep its call from asking the store', async () => {
    const { clock, store, locker, call, hold, sent, finish } = startTurns();
    await hold();
    store.onAcquire = () => busy();
    locker.events.on('waiting', () => clock.jump(12));
    call();
    await clock.advance(1);
    expect(sent()).toEqual([2, 0]);
    store.onAcquire = ({ leaseMs }) => granted(leaseMs, 5_000);
    await clock.advance(2_000);
    await finish();
  });
});

describe('a signal of several calls', () => {
  it('whose listeners release the lock and ask for it again leaves one turn, which ends', async () => {
    const { clock, locker, call, calls, hold } = startTurns();
    const lock = await hold();
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
    for (const { error } of others) expect(error).toMatchObject({ code: 'LOCK_SHUTDOWN' });
    expect(locker.live).toMatchObject({ locks: 0, waiting: 0 });
  });
});
