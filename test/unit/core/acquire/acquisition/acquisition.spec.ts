import { waiterLeaseMs } from '../../../../../lib/core/timing.js';
import {
  LockBusyError,
  LockReentryError,
  LockStoreError,
  LockWaitTimeoutError,
} from '../../../../../lib/core/lock.errors.js';
import { settled } from '../../../../support/core/fake-clock.js';
import { busy, granted } from '../../../../support/core/fake-store.js';
import { startAcquisition } from '../../../../support/core/start-acquisition.js';

describe('an acquisition', () => {
  it('sends its request at once, and counts the lease from before it was sent', async () => {
    const { clock, store, timers, attempts, outcome } = startAcquisition();
    const sentAt = clock.now();
    expect(store.acquires[0]!.request).toMatchObject({
      keys: ['k'],
      attempt: 'client.1',
      holder: 'host:1 Orders.charge',
    });
    expect(store.acquires[0]!.request).toMatchObject({ leaseMs: 3_000, waiterLeaseMs: 3_000, mode: 'write' });
    clock.jump(100);
    store.acquires[0]!.reply(granted(3_000, 7));
    await settled();
    expect(outcome.grant).toMatchObject({
      attempt: 'client.1',
      holds: [{ key: 'k', attempt: 'client.1', fencingToken: 7 }],
    });
    expect(outcome.grant!.lease.deadline).toBe(sentAt + 2_968);
    expect([timers.size, attempts]).toEqual([0, ['client.1', null]]);
  });

  it('sends its request again when the grant came too late to be proven', async () => {
    const { clock, store, abandoned, outcome } = startAcquisition();
    clock.jump(2_990);
    store.acquires[0]!.reply(granted(3_000));
    await settled();
    expect([outcome.grant, store.acquires.length]).toEqual([undefined, 2]);
    expect(store.acquires[1]!.request.attempt).toBe('client.1');
    store.acquires[1]!.reply(granted(3_000));
    await settled();
    expect([outcome.grant?.attempt, abandoned]).toEqual(['client.1', []]);
  });

  it('requests a lease that covers holdAtLeastMs', () => {
    expect(startAcquisition({ holdAtLeastMs: 60_000 }).store.acquires[0]!.request.leaseMs).toBe(60_000);
  });

  it('bounds the queue when it joins it, and not when it asks again', async () => {
    const { clock, store, outcome } = startAcquisition({ maxWaiters: 3 });
    store.acquires[0]!.reply(busy());
    await settled();
    await clock.advance(3_000);
    expect(store.acquires.map(({ request }) => request.maxWaiters)).toEqual([3, 0]);
    store.acquires[1]!.reply(granted(3_000));
    await settled();
    expect(outcome.grant?.attempt).toBe('client.1');
  });

  it('rejects with LockBusyError at once when the queue is full, and gives nothing back', async () => {
    const { store, abandoned, attempts, outcome } = startAcquisition({ maxWaiters: 1 });
    store.acquires[0]!.reply(busy({ isFull: true }));
    await settled();
    expect(outcome.error).toBeInstanceOf(LockBusyError);
    expect(outcome.error).toMatchObject({ key: 'k', maxWaiters: 1 });
    expect((outcome.error as Error).message).toBe(
      'The lock "k" (write) is busy, and another call waits already. Try later, or accept more (`maxWaiters`).',
    );
    expect([store.acquires.length, abandoned, attempts.at(-1)]).toEqual([1, [], null]);
  });

  it('starts a new attempt when the store says that this one was released', async () => {
    const { store, attempts, outcome } = startAcquisition();
    store.acquires[0]!.reply({ outcome: 'refused', reason: 'released' });
    await settled();
    expect(store.acquires[1]!.request.attempt).toBe('client.2');
    store.acquires[1]!.reply(granted(3_000));
    await settled();
    expect([outcome.grant?.attempt, attempts]).toEqual(['client.2', ['client.1', 'client.2', null]]);
  });

  it('rejects with LockReentryError when its owner upgrades a read to a write', async () => {
    const { store, outcome } = startAcquisition();
    store.acquires[0]!.reply({ outcome: 'refused', reason: 'upgrade' });
    await settled();
    expect(outcome.error).toBeInstanceOf(LockReentryError);
  });
});

describe('an acquisition of a busy lock', () => {
  it('rejects with LockBusyError with waitMs 0, does not queue and leaves nothing', async () => {
    const { store, timers, abandoned, outcome } = startAcquisition({ waitMs: 0 });
    expect(store.acquires[0]!.request.waiterLeaseMs).toBe(0);
    store.acquires[0]!.reply(busy());
    await settled();
    expect(outcome.error).toBeInstanceOf(LockBusyError);
    expect((outcome.error as Error).message).toContain('is held by host:1');
    expect([timers.size, abandoned]).toEqual([0, []]);
  });

  it('polls at a third of its waiter lease', async () => {
    const { clock, store } = startAcquisition();
    store.onAcquire = () => busy({ ahead: 1 });
    store.acquires[0]!.reply(busy({ ahead: 1 }));
    await clock.advance(waiterLeaseMs(3_000) * 3);
    expect(store.acquires).toHaveLength(1 + 9);
  });

  it('polls at the head of the queue when the lease of the holder may have ended', async () => {
    const { clock, store } = startAcquisition();
    store.acquires[0]!.reply(busy({ retryMs: 300 }));
    await clock.advance(299);
    expect(store.acquires).toHaveLength(1);
    await clock.advance(4);
    expect(store.acquires).toHaveLength(2);
  });

  it('sends its request when woken, and once more when woken while an answer is pending', async () => {
    const { store, acquisition } = startAcquisition();
    store.acquires[0]!.reply(busy());
    await settled();
    acquisition.onWakeUp({ kind: 'wake' });
    acquisition.onWakeUp({ kind: 'wake' });
    expect(store.acquires).toHaveLength(2);
    store.acquires[1]!.reply(busy());
    await settled();
    expect(store.acquires).toHaveLength(3);
  });

  it('rejects with LockWaitTimeoutError after waitMs, and leaves the queue', async () => {
    const { clock, store, timers, abandoned, attempts, outcome } = startAcquisition({ waitMs: 1_500 });
    store.onAcquire = () => busy({ ahead: 2 });
    store.acquires[0]!.reply(busy({ ahead: 2 }));
    await clock.advance(1_499);
    expect(outcome.error).toBeUndefined();
    await clock.advance(2);
    expect(outcome.error).toBeInstanceOf(LockWaitTimeoutError);
    expect(outcome.error).toMatchObject({ key: 'k', mode: 'write', holder: 'host:1', waitedMs: 1_500 });
    expect([abandoned, timers.size, attempts.at(-1)]).toEqual([['client.1'], 0, null]);
  });

  it('ends at once when its first answer comes after waitMs, although it was woken and asks again', async () => {
    const { clock, store, acquisition, outcome } = startAcquisition({ waitMs: 100 });
    await clock.advance(900);
    acquisition.onWakeUp({ kind: 'wake' });
    store.acquires[0]!.reply(busy());
    await settled();
    await clock.advance(2);
    expect(store.acquires).toHaveLength(2);
    expect(outcome.error).toBeInstanceOf(LockWaitTimeoutError);
  });

  it('waits without end with waitMs Infinity', async () => {
    const { clock, store, outcome } = startAcquisition({ waitMs: Infinity });
    store.onAcquire = () => busy({ ahead: 1 });
    store.acquires[0]!.reply(busy({ ahead: 1 }));
    await clock.advance(3_600_000);
    expect(outcome).toEqual({});
  });
});

describe('an acquisition whose store fails', () => {
  it('retries the same attempt with growing pauses, and is granted when the store is back', async () => {
    const { clock, store, outcome } = startAcquisition({ waitMs: 60_000 });
    store.acquires[0]!.fail(new LockStoreError('down'));
    store.onAcquire = () => {
      throw new LockStoreError('down');
    };
    await clock.advance(2_000);
    const early = store.acquires.length;
    await clock.advance(10_000);
    expect(early).toBeGreaterThan(4);
    expect(store.acquires.length - early).toBeLessThan(41);
    store.onAcquire = () => granted(3_000);
    await clock.advance(500);
    expect(outcome.grant?.attempt).toBe('client.1');
  });

  it.each([
    [0, 1_000],
    [400, 1_000],
    [5_000, 5_000],
  ])('rejects with waitMs %d with LockStoreError after %d ms, with the cause', async (waitMs, limitMs) => {
    const { clock, store, timers, abandoned, outcome } = startAcquisition({ waitMs });
    const cause = new LockStoreError('ECONNREFUSED');
    store.acquires[0]!.fail(cause);
    store.onAcquire = () => {
      throw cause;
    };
    await clock.advance(limitMs - 1);
    expect(outcome.error).toBeUndefined();
    await clock.advance(1);
    expect(outcome.error).toBeInstanceOf(LockStoreError);
    expect(outcome.error).toMatchObject({ key: 'k', cause });
    expect((outcome.error as Error).message).toContain('ECONNREFUSED');
    expect([timers.size, abandoned]).toEqual([0, ['client.1']]);
  });

  it('ends at the limit even when the store never answers', async () => {
    const { clock, outcome } = startAcquisition({ waitMs: 5_000 });
    await clock.advance(5_000);
    expect(outcome.error).toBeInstanceOf(LockStoreError);
  });

  it('ends at once when a retry cannot help', async () => {
    const { store, outcome } = startAcquisition();
    const error = new LockStoreError('WRONGPASS', { retryable: false });
    store.acquires[0]!.fail(error);
    await settled();
    expect([outcome.error, store.acquires.length]).toEqual([error, 1]);
  });

  it('rejects with LockStoreError when the store failed during the wait, since the lock may be free', async () => {
    const { clock, store, outcome } = startAcquisition({ waitMs: 3_000 });
    store.acquires[0]!.reply(busy());
    await settled();
    const cause = new LockStoreError('down');
    store.onAcquire = () => {
      throw cause;
    };
    await clock.advance(3_000);
    expect(outcome.error).toMatchObject({ code: 'LOCK_STORE', cause });
  });

  it('rejects with LockStoreError when the last command of a wait got no answer for a second', async () => {
    for (const [silentMs, code] of [[999, 'LOCK_WAIT_TIMEOUT'], [1_000, 'LOCK_STORE']] as const) {
      const { clock, store, acquisition, outcome } = startAcquisition({ waitMs: 1_900, leaseMs: 30_000 });
      store.acquires[0]!.reply(busy({ ahead: 1 }));
      await settled();
      await clock.advance(1_900 - silentMs);
      acquisition.onWakeUp({ kind: 'wake' });
      await clock.advance(silentMs);
      expect(outcome.error).toMatchObject({ code });
    } // prettier-ignore
  });
});
