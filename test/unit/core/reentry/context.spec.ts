import { AsyncResource } from 'node:async_hooks';
import { setImmediate as nextTurn } from 'node:timers/promises';
import {
  assertLocked,
  currentLock,
  findCurrentHold,
  findUnendedHold,
  runHolding,
} from '../../../../lib/core/reentry/context.js';
import { LockLostError, LockNotHeldError } from '../../../../lib/core/lock.errors.js';
import { type StoreHold } from '../../../../lib/core/hold/store-hold.js';
import { NestedHold } from '../../../../lib/core/hold/nested-hold.js';
import { collectGarbage } from '../../../support/waiting/collect-garbage.js';
import { FakeKeeper, heldLock } from '../../../support/core/core-parts.js';
import { gate } from '../../../support/waiting/gate.js';

describe('the lock of a chain of calls', () => {
  it('does not exist outside, and the error says how to get one', () => {
    expect(findCurrentHold()).toBeUndefined();
    expect(() => currentLock()).toThrow(LockNotHeldError);
    expect(() => currentLock()).toThrow(/^No lock is held here\. Call this inside a method with @Locked/);
    expect(() => assertLocked('order:1')).toThrow('The lock "order:1" is not held here.');
  });

  it('is found after awaits, timers and nested calls', async () => {
    const lock = heldLock();
    await runHolding(lock, async () => {
      await nextTurn();
      const nested = async () => currentLock('k');
      expect([currentLock(), await nested()]).toEqual([lock, lock]);
      assertLocked();
      assertLocked('k');
    });
    expect(findCurrentHold()).toBeUndefined();
  });

  it('is the innermost one, or the one with the given key', () => {
    const [outer, inner] = [heldLock(undefined, { key: 'outer' }), heldLock(undefined, { key: 'inner' })];
    runHolding(outer, () =>
      runHolding(inner, () => {
        expect(currentLock()).toBe(inner);
        expect([currentLock('outer'), currentLock('inner')]).toEqual([outer, inner]);
        expect(() => currentLock('other')).toThrow('The lock "other" is not held here.');
      }),
    );
  });

  it('is the outer one again once the inner one is released', async () => {
    const [outer, inner] = [heldLock(undefined, { key: 'outer' }), heldLock(undefined, { key: 'inner' })];
    await runHolding(outer, () =>
      runHolding(inner, async () => {
        await inner.release();
        expect(currentLock()).toBe(outer);
        expect(findCurrentHold('inner')).toBeUndefined();
      }),
    );
  });

  it('is not held in work that outlives it', async () => {
    const lock = heldLock();
    const late = runHolding(lock, async () => {
      await nextTurn();
      return findCurrentHold();
    });
    await lock.release();
    expect(await late).toBeUndefined();
  });

  it('is separate for each of two chains', async () => {
    const locks = ['a', 'b'].map((key) => heldLock(undefined, { key }));
    const seen = locks.map((lock) =>
      runHolding(lock, async () => {
        await nextTurn();
        return currentLock().key;
      }),
    );
    expect(await Promise.all(seen)).toEqual(['a', 'b']);
  });

  it('is shared by two copies of the package', async () => {
    const path = '../../../../lib/core/reentry/context.ts?copy';
    const copy = (await import(path)) as { currentLock: typeof currentLock };
    const lock = heldLock();
    expect(copy.currentLock).not.toBe(currentLock);
    expect(runHolding(lock, () => copy.currentLock())).toBe(lock);
  });
});

describe('a lock that was lost', () => {
  it('is returned by currentLock, and assertLocked throws its loss', () => {
    const lock = heldLock();
    runHolding(lock, () => {
      lock.lose('taken');
      expect(currentLock().held).toBe(false);
      expect(() => assertLocked()).toThrow(LockLostError);
      expect(() => assertLocked()).toThrow(expect.objectContaining({ reason: 'taken' }));
    });
  });

  it('is reported by assertLocked when its lease ran out before any timer fired', () => {
    const keeper = new FakeKeeper();
    const lock = heldLock(keeper);
    keeper.clock.jump(60_000);
    runHolding(lock, () => expect(() => assertLocked()).toThrow(LockLostError));
    expect(lock.signal.aborted).toBe(true);
  });

  it('is not lost, but is not proven either, after a jump of the wall clock', () => {
    const keeper = new FakeKeeper();
    const lock = heldLock(keeper);
    keeper.clock.wallOffsetMs += 3_600_000;
    runHolding(lock, () => expect(() => assertLocked()).toThrow(LockNotHeldError));
    expect(lock.lost).toBeNull();
  });
});

describe('work that outlives its lock and acquires the next one', () => {
  /** Begins each round inside the lock of the one before, and gives how many locks are still there in the last. */
  async function goOn(rounds: number, whoEnds: 'own' | 'former'): Promise<number> {
    const locks: WeakRef<StoreHold>[] = [];
    const done = gate();
    let goesOn!: () => void;
    const next = (): void => {
      if (locks.length === rounds) {
        // What goes on in this context keeps it.
        goesOn = AsyncResource.bind(() => undefined);
        return done.open();
      }
      const lock = heldLock(undefined, { key: `${locks.length}` });
      const former = locks.at(-1)?.deref();
      locks.push(new WeakRef(lock));
      runHolding(lock, () => setImmediate(next));
      void (whoEnds === 'own' ? lock : former)?.release();
    };
    next();
    await done.opened;
    await collectGarbage();
    goesOn();
    return locks.filter((ref) => ref.deref()).length;
  }

  it('keeps no ended hold in memory', async () => {
    expect(await goOn(50, 'own')).toBeLessThanOrEqual(2);
  });

  it('keeps no ended hold in memory when each ended after the next one began', async () => {
    expect(await goOn(50, 'former')).toBeLessThanOrEqual(4);
  });

  it('still finds its own lock behind those that have ended', () => {
    const [outer, ended, inner] = ['outer', 'ended', 'inner'].map((key) => heldLock(undefined, { key }));
    runHolding(outer!, () =>
      runHolding(ended!, () => {
        void ended!.release();
        runHolding(inner!, () =>
          expect(['outer', 'ended'].map((key) => findCurrentHold(key))).toEqual([outer, undefined]),
        );
        expect(currentLock()).toBe(outer);
      }),
    );
  });

  it('still finds a released lock that it keeps alive', async () => {
    const keeper = new FakeKeeper();
    const kept = heldLock(keeper);
    const done = gate();
    const inside = runHolding(kept, async () => {
      kept.addNestedCall();
      const nested = new NestedHold(kept, ['k'], { mode: 'write', permits: 0 });
      await runHolding(nested, async () => {
        await done.opened;
        runHolding(heldLock(keeper, { key: 'other' }), () => expect(findUnendedHold('k', keeper)).toBe(kept));
      });
    });
    void kept.release();
    done.open();
    await inside;
    expect(kept.isEnded).toBe(false);
  });
});
