import { type Hold } from '../../../../../lib/core/hold/hold.js';
import { type ResolvedLockOptions } from '../../../../../lib/core/lock.options.js';
import { type LockError } from '../../../../../lib/core/lock.errors.js';
import { startLocker } from '../../../../support/core/core-parts.js';
import { settled } from '../../../../support/core/fake-clock.js';
import { busy } from '../../../../support/core/fake-store.js';
import { gate } from '../../../../support/waiting/gate.js';
import { outcomeOf } from '../../../../support/waiting/outcome.js';

const NOTHING = { locks: 0, waiting: 0, releasing: 0, timers: 0 };

/** Holds `k`, with one nested call inside until the gate opens, and another one that waits for it. */
async function startSiblings(options: Partial<ResolvedLockOptions> = {}) {
  const started = startLocker();
  const { store, locker, under } = started;
  const { opened, open } = gate();
  let sibling: { value?: string; error?: unknown } = {};
  const outer = under('k', async () => {
    const inside = under('k', () => opened);
    sibling = outcomeOf(under('k', () => 'entered', options));
    await inside;
  });
  await settled();
  const end = async () => {
    open();
    await outer;
    await settled();
    expect(locker.live).toEqual(NOTHING);
  };
  return { ...started, outer, open, end, sibling, lost: () => store.listener!.onWakeUp(store.acquires[0]!.request.attempt, { kind: 'revoked' }) }; // prettier-ignore
}

describe('a nested call that waits for its sibling', () => {
  it('enters when its sibling leaves, with no timer left', async () => {
    const { end, sibling, locker } = await startSiblings();
    expect([sibling, locker.timers.size]).toEqual([{}, 2]);
    await end();
    expect(sibling).toEqual({ value: 'entered' });
  });

  it('rejects with the reason of its signal', async () => {
    const controller = new AbortController();
    const { end, sibling } = await startSiblings({ signal: controller.signal });
    controller.abort(new Error('the user went away'));
    await settled();
    expect(sibling.error).toBe(controller.signal.reason);
    await end();
  });

  it('rejects with the loss of the outer hold', async () => {
    const { outer, open, sibling, lost } = await startSiblings();
    lost();
    await settled();
    open();
    expect(sibling.error).toMatchObject({ code: 'LOCK_LOST', reason: 'revoked' });
    await expect(outer).rejects.toMatchObject({ message: (sibling.error as LockError).message });
  });
});

describe('a nested call that is still inside when the outer work has returned', () => {
  async function startLate() {
    const started = startLocker();
    const { opened, open } = gate();
    const inside = gate();
    let [late, nested]: [Promise<string>, Hold] = [Promise.resolve(''), null!];
    const result = await started.under('k', async (outer) => {
      late = started.under('k', async (lock) => {
        nested = lock;
        inside.open();
        await opened;
        return 'late';
      });
      await inside.opened;
      expect([await outer.release(), await outer.release(), started.store.givenBack]).toEqual([true, false, []]);
      return 'outer';
    });
    return { ...started, open, late: { promise: late }, nested, result };
  }

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

  it.each([
    ['write', 'LOCK_REENTRY', ['a+b']],
    ['read', 'entered', ['a+b', 'b']],
  ] as const)('that asks for another key of the hold to %s: %s, since it would wait for its own end', async (mode, outcome, asked) => {
    const { store, under, locker } = startLocker();
    const { opened, open } = gate();
    let late!: Promise<string>;
    const inner = () => opened.then(() => under('b', () => 'entered', { mode }));
    await under(['a', 'b'], () => void (late = under('a', inner, { mode })), { mode });
    open();
    expect(await late.catch(({ code }: LockError) => code)).toBe(outcome);
    await settled();
    expect([store.asked, locker.live]).toEqual([asked, NOTHING]);
  }); // prettier-ignore

  it('may wait for another key of the hold that a sibling keeps', async () => {
    const { store, under } = startLocker();
    const { opened, open } = gate();
    let both!: Promise<string[]>;
    await under(['a', 'b'], () => {
      const sibling = under('a', () => opened.then(() => 'sibling'));
      both = Promise.all([sibling, under('c', () => opened.then(() => under('b', () => 'anew')))]);
    });
    open();
    expect([await both, store.asked]).toEqual([['sibling', 'anew'], ['a+b', 'c', 'b']]); // prettier-ignore
  });
});

describe('a call that is not awaited, inside a nested call for several keys', () => {
  it.each([
    ['write', { error: expect.objectContaining({ code: 'LOCK_REENTRY', key: 'a', message: expect.stringMatching(/nobody awaited/) }) }],
    ['read', { value: 'entered' }],
  ] as const)('that asks to %s the key that its own end keeps: %j', async (mode, expected) => {
    const { under, locker } = startLocker();
    const left = gate();
    let asked!: Promise<string>;
    const inner = () => left.opened.then(() => under('a', () => 'entered', { mode }));
    const held = under(['a', 'b'], async () => {
      await under(['a', 'b'], () => void (asked = under('b', inner, { mode })), { mode });
      left.open();
      await asked.catch(() => undefined);
    });
    await settled();
    const outcome = outcomeOf(asked);
    await held;
    expect([outcome, locker.live]).toEqual([expected, NOTHING]);
  }); // prettier-ignore
});

describe('a nested call that waits when the outer work returns', () => {
  it('acquires the lock itself, within waitMs for both waits together', async () => {
    for (const isBusy of [false, true]) {
      const { clock, store, under } = startLocker();
      const { opened, open } = gate();
      let late: { value?: number; error?: unknown } = {};
      const outer = under('k', async () => {
        void under('k', () => opened);
        late = outcomeOf(under('k', (lock) => lock.fencingToken, { waitMs: 2_000 }));
        await new Promise<void>((resolve) => clock.setTimer(resolve, 1_500));
      });
      await settled();
      if (isBusy) store.onAcquire = () => busy({ ahead: 1 });
      await clock.advance(1_500);
      await outer;
      await clock.advance(500);
      if (isBusy) expect(late.error).toMatchObject({ code: 'LOCK_WAIT_TIMEOUT' });
      else expect([late.value, store.asked, store.givenBack]).toEqual([101, ['k', 'k'], ['k']]);
      open();
      await settled();
      expect(store.givenBack.length).toBe(2);
    }
  });
});
