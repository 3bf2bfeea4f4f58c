import { currentLock } from '../../../../../lib/core/reentry/context.js';
import { LockReentryError } from '../../../../../lib/core/lock.errors.js';
import { startLocker } from '../../../../support/core/core-parts.js';
import { FakeClock, settled } from '../../../../support/core/fake-clock.js';
import { gate } from '../../../../support/waiting/gate.js';
import { outcomeOf } from '../../../../support/waiting/outcome.js';

/** Work that must not run. */
const unused = (): never => {
  throw new Error('It ran.');
};

describe('a nested call on a key that its chain of calls holds', () => {
  it('runs under the hold of the outer one, and sends nothing', async () => {
    const { store, locker, under } = startLocker();
    const result = await under('k', (outer) =>
      under('k', (inner) => {
        expect(inner).not.toBe(outer);
        expect(inner).toMatchObject({ key: 'k', keys: ['k'], mode: 'write', owner: outer.owner, held: true });
        expect([inner.fencingToken, inner.signal, inner.remainingMs]).toEqual([100, outer.signal, outer.remainingMs]);
        expect(currentLock('k')).toBe(inner);
        return under('k', () => 'deepest');
      }),
    );
    expect([result, store.asked, store.givenBack, store.renews.length]).toEqual(['deepest', ['k'], ['k'], 0]);
    expect(locker.live).toEqual({ locks: 0, waiting: 0, releasing: 0, timers: 0 });
  });

  it('releases alone: the outer call keeps the hold, and the next nested call enters', async () => {
    const { store, under } = startLocker();
    await under('k', async (outer) => {
      await under('k', async (inner) => {
        await inner.release();
        await inner.release();
        expect([inner.held, outer.held]).toEqual([false, true]);
        await expect(inner.extend(100)).rejects.toMatchObject({ code: 'LOCK_NOT_HELD' });
        expect(currentLock()).toBe(outer);
      });
      await under('k', (inner) => expect(inner.held).toBe(true));
    });
    expect([store.asked, store.givenBack]).toEqual([['k'], ['k']]);
  });

  it('extends the hold of the outer one', async () => {
    const { store, under } = startLocker();
    await under('k', async (outer) => {
      await under('k', (inner) => inner.extend(60_000));
      expect([store.renews.length, outer.remainingMs]).toEqual([1, 60_000 * 0.99 - 2]);
    });
  });

  it('passes its error through, and the outer call goes on', async () => {
    const { store, under } = startLocker();
    await under('k', async (outer) => {
      const failing = under('k', () => Promise.reject(new Error('business')));
      await expect(failing).rejects.toThrow('business');
      await under('k', () => expect(outer.held).toBe(true));
    });
    expect(store.givenBack).toEqual(['k']);
  });

  it('enters in the order of the calls, one at a time, when siblings run in parallel', async () => {
    const { store, under } = startLocker();
    const order: string[] = [];
    const sibling = (name: string) =>
      under('k', async () => {
        order.push(`${name} in`);
        await settled();
        order.push(`${name} out`);
      });
    await under('k', () => Promise.all(['a', 'b', 'c'].map(sibling)));
    expect(order).toEqual(['a in', 'a out', 'b in', 'b out', 'c in', 'c out']);
    expect([store.asked, store.givenBack]).toEqual([['k'], ['k']]);
  });

  it('overlaps with other readers under a write, and a writer waits for all of them', async () => {
    const { store, under } = startLocker();
    let [readers, most] = [0, 0];
    const read = () =>
      under(
        'k',
        async (lock) => {
          expect(lock.mode).toBe('read');
          readers += 1;
          most = Math.max(most, readers);
          await settled();
          readers -= 1;
        },
        { mode: 'read' },
      );
    const write = () => under('k', () => expect(readers).toBe(0));
    await under('k', () => Promise.all([read(), read(), write(), read()]));
    expect([most, store.asked]).toEqual([2, ['k']]);
  });

  it('is refused at once when it would upgrade from read to write', async () => {
    const { store, under } = startLocker();
    const upgrade = () => under('k', unused);
    await under(
      'k',
      async () => {
        await expect(upgrade()).rejects.toThrow(LockReentryError);
        await expect(upgrade()).rejects.toMatchObject({ key: 'k', mode: 'write' });
        await expect(upgrade()).rejects.toThrow(/an upgrade would wait for itself/);
      },
      { mode: 'read' },
    );
    await under('k', () => under('k', () => expect(upgrade()).rejects.toThrow(LockReentryError), { mode: 'read' }));
    expect(store.asked).toEqual(['k', 'k']);
  });

  it('is refused at once with reentrant: false', async () => {
    const { store, under } = startLocker();
    await under('k', async () => {
      const nested = under('k', unused, { reentrant: false });
      await expect(nested).rejects.toThrow(LockReentryError);
      await expect(nested).rejects.toThrow(/`reentrant: false` forbids that/);
      await under('other', () => undefined, { reentrant: false });
    });
    expect(store.asked).toEqual(['k', 'other']);
  });

  it('is refused with the loss of the outer one when that was lost', async () => {
    const { store, under } = startLocker();
    const running = under('k', async (outer) => {
      store.listener!.onWakeUp(store.acquires[0]!.request.attempt, { kind: 'revoked' });
      const nested = outcomeOf(under('k', unused));
      await settled();
      expect(outer.lost).not.toBeNull();
      expect(nested.error).toBe(outer.lost);
    });
    await expect(running).rejects.toMatchObject({ reason: 'revoked' });
    expect(store.asked).toEqual(['k']);
  });

  it('learns of a loss that happens while it is inside', async () => {
    const { clock, under } = startLocker();
    const running = under('k', () => under('k', (inner) => (clock.jump(60_000), inner.held)));
    await expect(running).rejects.toMatchObject({ code: 'LOCK_LOST', reason: 'expired', result: false });
  });

  it('may not downgrade a lock that the outer call writes, unless it only reads', async () => {
    const { store, under } = startLocker();
    await under('k', async (outer) => {
      await under('k', async (inner) => {
        await expect(inner.downgrade()).rejects.toThrow(LockReentryError);
        await expect(outer.downgrade()).rejects.toThrow(LockReentryError);
      });
      await under('k', (inner) => inner.downgrade(), { mode: 'read' });
      await outer.downgrade();
    });
    expect(store.downgrades).toHaveLength(1);
  });
});

describe('a call that is not nested', () => {
  it('acquires the lock itself in a context that outlives its hold', async () => {
    const { store, under } = startLocker();
    const { opened, open } = gate();
    let late!: Promise<string>;
    await under('k', () => {
      late = opened.then(() => under('k', (lock) => `token ${lock.fencingToken}`));
    });
    expect(store.asked).toEqual(['k']);
    open();
    expect([await late, store.asked, store.givenBack]).toEqual(['token 101', ['k', 'k'], ['k', 'k']]);
  });

  it('sends its own acquire in another chain of calls beside the holder', async () => {
    const { store, under } = startLocker();
    await Promise.all([under('k', () => settled()), under('k', () => settled())]);
    expect(store.asked).toEqual(['k', 'k']);
  });

  it('does not see the holds of another locker', async () => {
    const clock = new FakeClock();
    const [one, two] = [startLocker({ clock, clientId: 'one' }), startLocker({ clock, clientId: 'two' })];
    await one.under('k', () =>
      two.under(
        'k',
        () => one.under('k', (inner) => expect(inner.owner).toBe(one.store.acquires[0]!.request.attempt)),
        { reentrant: false },
      ),
    );
    expect([one.store.asked, two.store.asked]).toEqual([['k'], ['k']]);
  });
});
