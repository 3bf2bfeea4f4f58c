import { Hold } from '../../../../../lib/core/hold/hold.js';
import { type ResolvedLockOptions } from '../../../../../lib/core/lock.options.js';
import { enterLock } from '../../../../../lib/core/reentry/enter-lock.js';
import { runWithLock } from '../../../../../lib/core/reentry/run.js';
import { lockOptions, startLocker } from '../../../../support/core/core-parts.js';
import { settled } from '../../../../support/core/fake-clock.js';
import { gate } from '../../../../support/waiting/gate.js';
import { outcomeOf } from '../../../../support/waiting/outcome.js';
import { thrownBy } from '../../../../support/waiting/rejection.js';

const NOTHING = { locks: 0, waiting: 0, releasing: 0, timers: 0 };

/** A locker whose calls are entered in the turn in which they are made, if that is possible. */
function start() {
  const started = startLocker();
  const { locker } = started;
  const enterNow = (keys: string | readonly string[], options: Partial<ResolvedLockOptions> = {}) =>
    enterLock(locker, locker.request([keys].flat(), lockOptions(options)));
  const underNow = <T>(work: (lock: Hold) => T | Promise<T>, options?: Partial<ResolvedLockOptions>): Promise<T> =>
    runWithLock(enterNow('k', options), work);
  return { ...started, enterNow, underNow };
}

describe('a nested call for one key that no sibling uses', () => {
  it('runs its work in the turn of the call, and has left when plain work returns', async () => {
    const { under, underNow, locker } = start();
    await under('k', async (outer) => {
      const seen: string[] = [];
      const nested = underNow((lock) => seen.push(`inside ${lock.held}`));
      const next = underNow(() => seen.push(`next beside ${outer.held}`));
      expect(seen).toEqual(['inside true', 'next beside true']);
      expect(await Promise.all([nested, next])).toEqual([1, 2]);
    });
    expect(locker.live).toEqual(NOTHING);
  });

  it('waits when a sibling is inside, whose work is still under way', async () => {
    const { under, underNow, enterNow } = start();
    await under('k', async () => {
      const { opened, open } = gate();
      const order: string[] = [];
      const first = underNow(() => opened.then(() => order.push('first')));
      const second = underNow(() => order.push('second'));
      const third = enterNow('k');
      expect(third).toBeInstanceOf(Promise);
      open();
      await Promise.all([first, second]);
      expect(order).toEqual(['first', 'second']);
      expect(await (await third).release()).toBe(true);
    });
  });

  it('does not pass a sibling that waits, even if it could share with the one inside', async () => {
    const { under, underNow } = start();
    await under('k', async () => {
      const { opened, open } = gate();
      const order: string[] = [];
      const reader = underNow(() => opened, { mode: 'read' });
      const writer = underNow(() => order.push('writer'));
      const late = underNow(() => order.push('late reader'), { mode: 'read' });
      expect(order).toEqual([]);
      open();
      await Promise.all([reader, writer, late]);
      expect(order).toEqual(['writer', 'late reader']);
    });
  });

  it('shares with readers, and uses the one permit of a semaphore alone', async () => {
    const { under, enterNow } = start();
    await under('k', () => {
      expect(enterNow('k', { mode: 'read' })).toBeInstanceOf(Hold);
      expect(enterNow('k', { mode: 'read' })).toBeInstanceOf(Hold);
      return expect(enterNow('k', { waitMs: 0 })).rejects.toMatchObject({ code: 'LOCK_BUSY' });
    });
    const permits = { mode: 'read', permits: 2 } as const;
    await under(
      'k',
      () => {
        expect(enterNow('k', permits)).toBeInstanceOf(Hold);
        return expect(enterNow('k', { ...permits, waitMs: 0 })).rejects.toMatchObject({ code: 'LOCK_BUSY' });
      },
      permits,
    );
  });

  it('may be a recursion of any depth', async () => {
    const { under, underNow, locker } = start();
    const descend = (depth: number): string | Promise<string> =>
      depth === 0 ? 'bottom' : underNow(() => descend(depth - 1));
    expect(await under('k', () => descend(2_000))).toBe('bottom');
    expect(locker.live).toEqual(NOTHING);
  });

  it('rejects when its work throws, and leaves the slot free', async () => {
    const { under, underNow, locker } = start();
    await under('k', async () => {
      const failing = underNow(() => {
        throw new Error('business');
      });
      expect(underNow(() => 'next')).toBeInstanceOf(Promise);
      await expect(failing).rejects.toThrow('business');
      expect(await underNow(() => 'again')).toBe('again');
    });
    expect(locker.live).toEqual(NOTHING);
  });

  it('keeps its turn until a thenable has settled, whose `then` is read once', async () => {
    const { under, underNow, enterNow } = start();
    await under('k', async () => {
      let reads = 0;
      const { opened, open } = gate();
      const thenable = {
        // oxlint-disable-next-line unicorn/no-thenable -- a result of the application
        get then() {
          reads += 1;
          return (resolve: (value: string) => void) => void opened.then(() => resolve('done'));
        },
      };
      const nested = underNow(() => thenable as unknown as Promise<string>);
      await settled();
      expect(() => enterNow('k', { reentrant: false })).toThrow(/reentrant: false/);
      await expect(enterNow('k', { waitMs: 0 })).rejects.toMatchObject({ code: 'LOCK_BUSY' });
      open();
      expect([await nested, reads]).toEqual(['done', 1]);
    });
  });

  it('throws the reason of an aborted signal, and leaves the slot free', async () => {
    const { under, underNow, enterNow, locker } = start();
    const signal = AbortSignal.abort(new Error('the user went away'));
    await under('k', async () => {
      expect(thrownBy(() => enterNow('k', { signal }))).toBe(signal.reason);
      expect(await underNow(() => 'next')).toBe('next');
    });
    expect(locker.live).toEqual(NOTHING);
  });

  it('throws the loss of the outer lock, whose lease ran out before any timer fired', async () => {
    const { clock, under, enterNow } = start();
    const outer = under('k', (lock) => {
      clock.jump(60_000);
      expect(thrownBy(() => enterNow('k'))).toBe(lock.lost);
    });
    await expect(outer).rejects.toMatchObject({ code: 'LOCK_LOST', reason: 'expired' });
  });

  it('throws the loss that a listener of its event causes, and keeps nothing', async () => {
    const { store, under, underNow, enterNow, locker } = start();
    const outer = under('k', () => {
      locker.events.on('reentered', () =>
        store.listener!.onWakeUp(store.acquires[0]!.request.attempt, { kind: 'revoked' }),
      );
      expect(thrownBy(() => enterNow('k'))).toMatchObject({ code: 'LOCK_LOST', reason: 'revoked' });
      return 'returned';
    });
    await expect(outer).rejects.toMatchObject({ code: 'LOCK_LOST', result: 'returned' });
    expect(locker.live).toEqual(NOTHING);
    await expect(underNow(() => 'anew')).resolves.toBe('anew');
  });

  it('is told of the loss that comes while it is inside, with its own result', async () => {
    const { store, under, underNow } = start();
    const nested: { error?: unknown }[] = [];
    const outer = under('k', async () => {
      const { opened, open } = gate();
      nested.push(outcomeOf(underNow(() => opened.then(() => 'nested'))));
      store.listener!.onWakeUp(store.acquires[0]!.request.attempt, { kind: 'revoked' });
      open();
      await settled();
      return 'outer';
    });
    await expect(outer).rejects.toMatchObject({ code: 'LOCK_LOST', reason: 'revoked', result: 'outer' });
    expect(nested).toMatchObject([{ error: { code: 'LOCK_LOST', reason: 'revoked', result: 'nested' } }]);
  });

  it('tells of itself in the turn of the call, with a wait of nothing', async () => {
    const { under, underNow, locker } = start();
    const events: unknown[] = [];
    locker.events.on('reentered', (event) => events.push(event));
    await under('k', () => {
      void underNow(() => events.push('work'), { mode: 'read' });
      const label = { where: '', template: undefined };
      expect(events).toEqual([{ key: 'k', keys: ['k'], mode: 'read', ...label, waitedMs: 0 }, 'work']);
    });
  });
});

describe('a nested call for several keys', () => {
  it('is entered in a later turn', async () => {
    const { under, enterNow } = start();
    await under(['a', 'b'], async () => {
      const entering = enterNow(['a', 'b']);
      expect(entering).toBeInstanceOf(Promise);
      expect(await (await entering).release()).toBe(true);
    });
  });
});

describe('a lock under which a nested call is inside', () => {
  it('is released at once and only once, and ends when that call has left', async () => {
    const { under, underNow, store } = start();
    await under('k', async (outer) => {
      const { opened, open } = gate();
      const nested = underNow(() => opened);
      expect([await outer.release(), await outer.release(), store.givenBack]).toEqual([true, false, []]);
      open();
      await nested;
      expect([await outer.release(), store.givenBack]).toEqual([false, ['k']]);
    });
  });
});
