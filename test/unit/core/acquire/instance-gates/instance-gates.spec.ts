import { LockBusyError, LockConfigurationError, LockStoreError } from '../../../../../lib/core/lock.errors.js';
import { lockOptions } from '../../../../support/core/core-parts.js';
import { settled } from '../../../../support/core/fake-clock.js';
import { busy, gone } from '../../../../support/core/fake-store.js';
import { outcomeOf } from '../../../../support/waiting/outcome.js';
import { thrownBy } from '../../../../support/waiting/rejection.js';
import { startGates } from './start-gates.js';

const FREE = { mode: 'free' as const, holders: [], queue: [], permits: null, waiters: 0, fencingToken: 0 };

describe('the calls of a process with `perInstance`', () => {
  it('ask the store for as many permits as the process may have, and then wait in their order', async () => {
    const { calls, asked, finish } = startGates();
    const all = await calls(5);
    expect([asked(), all.map(({ value }) => value?.held)]).toEqual([2, [true, true, undefined, undefined, undefined]]);
    await all[1]!.value!.release();
    await settled();
    expect([asked(), all.map(({ value }) => value !== undefined)]).toEqual([3, [true, true, true, false, false]]);
    await finish();
    expect(all.every(({ value }) => value)).toBe(true);
  });

  it('count for each key by itself', async () => {
    const { call, calls, asked, finish } = startGates();
    await calls(3);
    const other = call({}, 'other');
    await settled();
    expect([asked(), other.value?.held]).toEqual([3, true]);
    await finish();
  });

  it('do not count the other calls of the key', async () => {
    const { calls, asked, finish } = startGates();
    await calls(2, { perInstance: 0 });
    await calls(2);
    expect(asked()).toBe(4);
    const waiting = await calls(1);
    await calls(1, { perInstance: 0 });
    expect([asked(), waiting[0]]).toEqual([5, {}]);
    await finish();
  });

  it('each state their own limit, and none passes one that came before', async () => {
    const { call, calls, asked, finish } = startGates();
    const [held] = await calls(2);
    const narrow = call({ perInstance: 1 });
    const wide = call({ perInstance: 5 });
    await settled();
    await held!.value!.release();
    await settled();
    expect([asked(), narrow, wide]).toEqual([2, {}, {}]);
    await finish();
  });

  it('go on when one that they waited behind leaves', async () => {
    const { call, calls, asked, finish } = startGates();
    await calls(2);
    const abort = new AbortController();
    const narrow = call({ perInstance: 1, signal: abort.signal });
    const wide = call({ perInstance: 3 });
    abort.abort(new Error('no time'));
    await settled();
    expect([asked(), narrow.error.message, wide.value?.held]).toEqual([3, 'no time', true]);
    await finish();
  });

  it('are counted among the calls that wait', async () => {
    const { locker, calls, finish } = startGates();
    await calls(5);
    expect(locker.live.waiting).toBe(3);
    expect(locker.withWaiters({ ...FREE, key: 'k', waiters: 4 }).waiters).toBe(7);
    expect(locker.withWaiters({ ...FREE, key: 'other' }).waiters).toBe(0);
    await finish();
  });

  it('tell once that they wait, and who is ahead', async () => {
    const { store, events, calls, finish } = startGates();
    const all = await calls(4);
    const waiting = { key: 'k', mode: 'read', holder: undefined };
    expect(events).toMatchObject([
      { ...waiting, ahead: 0 },
      { ...waiting, ahead: 1 },
    ]);
    const answer = store.onAcquire;
    store.onAcquire = () => busy();
    await all[0]!.value!.release();
    await settled();
    expect(events).toHaveLength(2);
    store.onAcquire = answer;
    store.listener!.onListening();
    await settled();
    await finish();
  });

  it('have one key each', () => {
    const { locker } = startGates();
    const options = lockOptions({ mode: 'read', permits: 20, perInstance: 2 });
    const error = thrownBy(() => locker.request(['a', 'b'], options));
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toBe(
      '`perInstance` needs one key, got 2 ("a, b"); leave it out, or lock the keys one by one.',
    );
    expect(locker.request(['a', 'a'], options).keys).toEqual(['a']);
  });
});

describe('a call that its process has no permit for', () => {
  it('is refused at once if it does not wait', async () => {
    const { calls, asked, finish } = startGates();
    await calls(2);
    const [refused] = await calls(1, { waitMs: 0 });
    expect(refused!.error).toBeInstanceOf(LockBusyError);
    expect(refused!.error).toMatchObject({ key: 'k', mode: 'read', perInstance: 2, permits: undefined });
    expect(refused!.error.message).toBe(
      'The lock "k" (read) is busy: this instance has as many permits as it may (`perInstance: 2`), and the call does not ' +
        'wait. Try later, or give it a `waitMs`.',
    );
    expect(asked()).toBe(2);
    await finish();
  });

  it('is refused at once if others of its process wait already, and it does not', async () => {
    const { calls, asked, finish } = startGates();
    await calls(2);
    await calls(1, { perInstance: 1 });
    const [refused] = await calls(1, { waitMs: 0, perInstance: 5 });
    expect([refused!.error.perInstance, asked()]).toEqual([5, 2]);
    await finish();
  });

  it('waits until its `waitMs` is over, and says whose limit it was', async () => {
    const { clock, events, locker, calls, finish } = startGates();
    const late: unknown[] = [];
    locker.events.on('timedOut', (event) => void late.push(event));
    await calls(3);
    const [waiting] = await calls(1, { waitMs: 500 });
    await clock.advance(499);
    expect(waiting).toEqual({});
    await clock.advance(1);
    expect(waiting!.error).toMatchObject({
      code: 'LOCK_WAIT_TIMEOUT',
      waitedMs: 500,
      perInstance: 2,
      holder: undefined,
    });
    expect(waiting!.error.message).toBe(
      'The lock "k" (read) was still busy after 500 ms: this instance has as many permits as it may (`perInstance: 2`), ' +
        'with 1 waiting ahead. Wait longer (`waitMs`), or hold it for less time.',
    );
    expect(late).toMatchObject([{ key: 'k', waitedMs: 500 }]);
    expect(events.at(-1)).toMatchObject({ reason: 'timeout', waited: true, waitedMs: 500 });
    await finish();
  });

  it('waits on in the store for what is left of its `waitMs`', async () => {
    const { clock, store, calls, finish } = startGates();
    const [held] = await calls(2);
    const [waiting] = await calls(1, { waitMs: 500 });
    await clock.advance(300);
    store.onAcquire = () => busy({ holder: undefined });
    await held!.value!.release();
    await clock.advance(199);
    expect(waiting).toEqual({});
    await clock.advance(1);
    expect(waiting!.error).toMatchObject({
      code: 'LOCK_WAIT_TIMEOUT',
      waitedMs: 500,
      permits: 20,
      perInstance: undefined,
    });
    await finish();
  });

  it('has time for the first answer of the store when its `waitMs` is nearly over', async () => {
    const { clock, store, calls } = startGates();
    const [held] = await calls(2);
    const [waiting] = await calls(1, { waitMs: 500 });
    await clock.advance(499);
    store.onAcquire = null;
    await held!.value!.release();
    await clock.advance(900);
    expect(waiting).toEqual({});
    store.acquires.at(-1)!.reply({ outcome: 'granted', fencingTokens: [7], remainingMs: 3_000, serverTimeMs: 0 });
    await settled();
    expect(waiting!.value!.fencingToken).toBe(7);
  });

  it('is refused at once if as many calls wait as it accepts, at its gate and in the store', async () => {
    const { store, calls, asked, finish } = startGates();
    const answer = store.onAcquire;
    await calls(1);
    store.onAcquire = () => busy();
    await calls(2);
    const [second] = await calls(1, { maxWaiters: 2 });
    expect(second!.error).toMatchObject({ code: 'LOCK_BUSY', maxWaiters: 2, perInstance: undefined });
    const [third] = await calls(1, { maxWaiters: 3 });
    expect([third, asked()]).toEqual([{}, 2]);
    store.onAcquire = answer;
    store.listener!.onListening();
    await settled();
    await finish();
    expect(store.acquires.every(({ request }) => request.maxWaiters === 0)).toBe(true);
  });

  it('leaves when it is aborted, and so do all with its signal', async () => {
    const { calls, asked, finish } = startGates();
    await calls(2);
    const abort = new AbortController();
    const waiting = await calls(3, { signal: abort.signal, perInstance: 3 });
    expect(waiting[0]!.value?.held).toBe(true);
    abort.abort(new Error('no time'));
    await settled();
    expect(waiting.slice(1).map(({ error }) => error.message)).toEqual(['no time', 'no time']);
    expect(asked()).toBe(3);
    await finish();
  });

  it('fails when the module closes', async () => {
    const { clock, locker, calls } = startGates();
    await calls(2);
    const waiting = await calls(2);
    const closing = locker.close(1_000);
    await settled();
    expect(waiting.map(({ error }) => error.code)).toEqual(['LOCK_SHUTDOWN', 'LOCK_SHUTDOWN']);
    await clock.advance(2_000);
    await closing;
    expect([locker.live.waiting, clock.keptAlive]).toEqual([0, 0]);
    expect((await calls(1))[0]!.error.code).toBe('LOCK_SHUTDOWN');
  });
});

describe('a permit of a process', () => {
  it('is free again when the store refuses it', async () => {
    const { store, calls, asked, finish } = startGates();
    const answer = store.onAcquire;
    store.onAcquire = () => {
      throw new LockStoreError('No.', { retryable: false });
    };
    const failed = await calls(3);
    expect([failed.map(({ error }) => error.message), asked()]).toEqual([['No.', 'No.', 'No.'], 3]);
    store.onAcquire = answer;
    expect((await calls(2)).map(({ value }) => value?.held)).toEqual([true, true]);
    await finish();
  });

  it('is free again when its call stops waiting in the store', async () => {
    const { store, calls, asked, finish } = startGates();
    const answer = store.onAcquire;
    store.onAcquire = () => busy();
    const abort = new AbortController();
    await calls(2, { signal: abort.signal });
    const [next] = await calls(1);
    store.onAcquire = answer;
    abort.abort();
    await settled();
    expect([asked(), next!.value?.held]).toEqual([3, true]);
    await finish();
  });

  it('is free again when the lock is lost, and only once', async () => {
    const { locker, calls, asked, finish } = startGates();
    const [first, second] = await calls(2);
    await calls(4);
    first!.value!.lose('revoked');
    await settled();
    expect(asked()).toBe(3);
    await first!.value!.release();
    await settled();
    expect([asked(), locker.live.waiting]).toEqual([3, 3]);
    await second!.value!.release();
    await settled();
    expect(asked()).toBe(4);
    await finish();
  });

  it('is free again when a renewal finds that the lock is gone', async () => {
    const { clock, store, calls, asked } = startGates();
    await calls(3);
    store.onRenew = (requests) => requests.map(() => gone(1_000));
    await clock.advance(1_100);
    expect(asked()).toBe(3);
  });

  it('is free again when the lock is transferred', async () => {
    const { calls, asked, finish } = startGates();
    const [first] = await calls(3);
    expect(typeof (await first!.value!.transferHandle())).toBe('string');
    await settled();
    expect(asked()).toBe(3);
    await finish();
  });

  it('is free again when a listener loses the lock in its grant', async () => {
    const { locker, calls, asked } = startGates();
    locker.events.on('acquired', () => {
      for (const hold of locker.holds) hold.lose('revoked');
    });
    await calls(4);
    expect([asked(), locker.live.waiting]).toEqual([4, 0]);
  });

  it('is taken until the nested calls have left its hold', async () => {
    const { calls, asked, finish } = startGates();
    const [first] = await calls(2);
    await calls(1);
    first!.value!.addNestedCall();
    await first!.value!.release();
    await settled();
    expect(asked()).toBe(2);
    first!.value!.removeNestedCall();
    await settled();
    expect(asked()).toBe(3);
    await finish();
  });

  it('does not count again for a nested call', async () => {
    const { under, calls, asked, finish } = startGates();
    const options = lockOptions({ mode: 'read', permits: 20, perInstance: 1 });
    const nested = outcomeOf(under('k', () => under('k', ({ held }) => held, options), options));
    await settled();
    expect([nested, asked()]).toEqual([{ value: true }, 1]);
    await calls(1);
    await finish();
  });

  it('is taken while a call waits in the store, from its first command on', async () => {
    const { store, calls, asked, finish } = startGates();
    const answer = store.onAcquire;
    store.onAcquire = null;
    const waiting = await calls(3);
    expect(asked()).toBe(2);
    for (const { reply } of store.acquires)
      reply({ outcome: 'granted', fencingTokens: [1], remainingMs: 3_000, serverTimeMs: 0 });
    await settled();
    expect(asked()).toBe(2);
    store.onAcquire = answer;
    const holds = waiting.map(({ value }) => value);
    await holds[0]!.release();
    await settled();
    expect(asked()).toBe(3);
    await finish();
  });
});
