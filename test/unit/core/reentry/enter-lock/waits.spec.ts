import { type Hold } from '../../../../../lib/core/hold/hold.js';
import { type ResolvedLockOptions } from '../../../../../lib/core/lock.options.js';
import { LockBusyError, type LockReentryError, LockWaitTimeoutError } from '../../../../../lib/core/lock.errors.js';
import { startLocker } from '../../../../support/core/core-parts.js';
import { settled } from '../../../../support/core/fake-clock.js';
import { gate } from '../../../../support/waiting/gate.js';
import { outcomeOf } from '../../../../support/waiting/outcome.js';

type Started = ReturnType<typeof startLocker>;

/** Holds `k`, with one nested call inside until the gate opens, and another one that waits for it. */
async function startSiblings(options: Partial<ResolvedLockOptions> = {}, started: Started = startLocker()) {
  const { opened, open } = gate();
  let [lock, sibling]: [Hold, { value?: string; error?: unknown }] = [null!, {}];
  const outer = started.under('k', async (held) => {
    lock = held;
    const inside = started.under('k', () => opened);
    sibling = outcomeOf(started.under('k', () => 'entered', options));
    await inside;
  });
  await settled();
  return { ...started, outer, open, lock, sibling };
}

describe('a nested call that waits for its sibling', () => {
  it('enters when its sibling leaves, with no timer left', async () => {
    const { outer, open, sibling, store, locker } = await startSiblings();
    expect([sibling.value, locker.timers.size]).toEqual([undefined, 2]);
    open();
    await outer;
    await settled();
    expect([sibling.value ?? sibling.error, locker.timers.size]).toEqual(['entered', 0]);
    expect(store.givenBack).toContain('k');
  });

  it('rejects with LockWaitTimeoutError after waitMs', async () => {
    const { clock, outer, open, sibling, store } = await startSiblings({ waitMs: 1_500 });
    await clock.advance(1_499);
    expect(sibling).toEqual({});
    await clock.advance(1);
    expect(sibling.error).toBeInstanceOf(LockWaitTimeoutError);
    expect(sibling.error).toMatchObject({ key: 'k', mode: 'write', waitedMs: 1_500 });
    open();
    await outer;
    expect([store.asked, store.givenBack]).toEqual([['k'], ['k']]);
  });

  it('rejects with LockBusyError at once with waitMs 0', async () => {
    const { outer, open, sibling } = await startSiblings({ waitMs: 0 });
    expect(sibling.error).toBeInstanceOf(LockBusyError);
    open();
    await outer;
  });

  it('rejects with the reason of its signal, and at once when that was aborted before', async () => {
    const controller = new AbortController();
    const { outer, open, sibling, under, locker } = await startSiblings({ signal: controller.signal });
    const reason = new Error('the user went away');
    controller.abort(reason);
    await settled();
    expect(sibling.error).toBe(reason);
    open();
    await outer;
    await under('k', async () => {
      await expect(under('k', () => 'ran', { signal: controller.signal })).rejects.toBe(reason);
    });
    expect(locker.live).toEqual({ locks: 0, waiting: 0, releasing: 0, timers: 0 });
  });

  it('rejects with the loss of the outer hold', async () => {
    const { outer, open, sibling, lock } = await startSiblings();
    const told = outcomeOf(outer);
    (lock as Hold & { lose(reason: 'taken'): void }).lose('taken');
    await settled();
    expect(sibling.error).toBe(lock.lost);
    open();
    await settled();
    expect(told.error).toMatchObject({ code: 'LOCK_LOST', reason: 'taken', message: lock.lost?.message });
  });

  it('rejects, and does not run, when the lease of the hold ran out before any timer fired', async () => {
    const { clock, under, locker } = startLocker();
    const { opened, open } = gate();
    let [sibling, ran]: [{ error?: unknown }, boolean] = [{}, false];
    const outer = outcomeOf(
      under('k', () => {
        // Work that fails is not asked whether its lock was lost: nothing tells but the clock.
        const inside = under('k', () => opened.then(() => Promise.reject(new Error('business'))));
        sibling = outcomeOf(under('k', () => void (ran = true)));
        return inside;
      }),
    );
    await settled();
    clock.jump(60_000);
    open();
    await settled();
    expect([ran, outer.error]).toEqual([false, new Error('business')]);
    expect(sibling.error).toMatchObject({ code: 'LOCK_LOST', reason: 'expired', result: undefined });
    expect(locker.live).toMatchObject({ locks: 0, waiting: 0, timers: 0 });
  });

  it('leaves its place to the next when it is cancelled', async () => {
    const { clock, outer, open, sibling, under, lock } = await startSiblings({ waitMs: 1_000 });
    expect(lock.held).toBe(true);
    await clock.advance(1_000);
    expect(sibling.error).toBeInstanceOf(LockWaitTimeoutError);
    open();
    await outer;
    expect(await under('k', () => under('k', () => 'entered'))).toBe('entered');
  });
});

describe('a nested call that is still inside when the outer work has returned', () => {
  async function startLate() {
    const started = startLocker();
    const { opened, open } = gate();
    const inside = gate();
    let [late, nested]: [Promise<string>, Hold] = [Promise.resolve(''), null!];
    const result = await started.under('k', async () => {
      late = started.under('k', async (lock) => {
        nested = lock;
        inside.open();
        await opened;
        return 'late';
      });
      await inside.opened;
      return 'outer';
    });
    return { ...started, open, late: { promise: late }, nested, result };
  }

  it('does not delay the outer call, keeps the hold renewed, and releases it when it leaves', async () => {
    const { clock, store, locker, open, late, nested, result } = await startLate();
    expect([result, store.givenBack, nested.held]).toEqual(['outer', [], true]);
    await clock.advance(10_000);
    expect([nested.held, locker.live.locks]).toEqual([true, 1]);
    expect(store.renews.length).toBeGreaterThan(8);
    open();
    expect(await late.promise).toBe('late');
    expect([store.givenBack, locker.live.locks]).toEqual([['k'], 0]);
  });

  it('learns the loss of the hold', async () => {
    const { clock, open, late, nested } = await startLate();
    clock.jump(60_000);
    expect([nested.held, nested.signal.aborted]).toEqual([false, true]);
    open();
    await expect(late.promise).rejects.toMatchObject({ code: 'LOCK_LOST', result: 'late' });
  });

  it('may be re-entered, while the outer one can no longer be', async () => {
    const { store, under } = startLocker();
    const { opened, open } = gate();
    let late!: Promise<string>;
    await under('k', () => {
      late = under('k', () => opened.then(() => under('k', () => 'deepest')));
    });
    open();
    expect([await late, store.asked, store.givenBack]).toEqual(['deepest', ['k'], ['k']]);
  });

  it('is refused another key of the hold when it would wait for its own end, but may read beside a reader', async () => {
    for (const [mode, outcome] of [['write', 'LOCK_REENTRY'], ['read', 'entered']] as const) {
      const { store, under, locker } = startLocker();
      const { opened, open } = gate();
      let late!: Promise<string>;
      const inner = () => opened.then(() => under('b', () => 'entered', { mode }));
      await under(['a', 'b'], () => void (late = under('a', inner, { mode })), { mode });
      open();
      expect(await late.catch(({ code }: LockReentryError) => code)).toBe(outcome);
      expect(store.asked).toEqual(mode === 'write' ? ['a+b'] : ['a+b', 'b']);
      await settled();
      expect(locker.live.locks).toBe(0);
    } // prettier-ignore
  });

  it('may wait for another key of the hold that a sibling keeps', async () => {
    const { store, under } = startLocker();
    const { opened, open } = gate();
    let sibling!: Promise<string>;
    let late!: Promise<string>;
    await under(['a', 'b'], () => {
      sibling = under('a', () => opened.then(() => 'sibling'));
      late = under('c', () => opened.then(() => under('b', () => 'anew')));
    });
    open();
    expect([await sibling, await late, store.asked]).toEqual(['sibling', 'anew', ['a+b', 'c', 'b']]);
  });

  it('may extend the hold', async () => {
    const { open, late, nested } = await startLate();
    const extended = outcomeOf(nested.extend(60_000));
    await settled();
    expect(extended.error).toBeUndefined();
    open();
    await late.promise;
  });
});

describe('a nested call that waits when the outer work returns', () => {
  it('acquires the lock itself after the nested call that keeps the hold', async () => {
    const { store, under } = startLocker();
    const { opened, open } = gate();
    let late: { value?: number } = {};
    await under('k', async () => {
      void under('k', () => opened);
      late = outcomeOf(under('k', (lock) => lock.fencingToken));
      await settled();
    });
    await settled();
    expect([late.value, store.asked, store.givenBack]).toEqual([101, ['k', 'k'], ['k']]);
    open();
    await settled();
    expect(store.givenBack).toEqual(['k', 'k']);
  });

  it('waits no longer than waitMs under the hold and for the new one together', async () => {
    const { clock, store, under } = startLocker();
    const { opened } = gate();
    let late: { error?: unknown } = {};
    const outer = under('k', async () => {
      void under('k', () => opened);
      late = outcomeOf(under('k', () => 'ran', { waitMs: 2_000 }));
      await new Promise<void>((resolve) => clock.setTimer(resolve, 1_500));
    });
    await settled();
    store.onAcquire = () => ({ outcome: 'busy', retryMs: 0, ahead: 1, holder: undefined, serverTimeMs: 0 });
    await clock.advance(1_500);
    await outer;
    await clock.advance(600);
    expect(late.error).toBeInstanceOf(LockWaitTimeoutError);
  });
});
