import { AsyncResource } from 'node:async_hooks';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { type Hold } from '../../../../lib/core/hold/hold.js';
import { assertLocked, currentLock, findCurrentHold, runHolding } from '../../../../lib/core/reentry/context.js';
import { collectGarbage } from '../../../support/waiting/collect-garbage.js';
import { FakeKeeper, heldLock, startLocker } from '../../../support/core/core-parts.js';
import { gate } from '../../../support/waiting/gate.js';
import { thrownBy } from '../../../support/waiting/rejection.js';

const lockOf = (key: string): Hold => heldLock(undefined, { key });

describe('the lock of a chain of calls', () => {
  it('does not exist outside, and the error says how to get one', () => {
    expect(findCurrentHold()).toBeUndefined();
    expect(() => currentLock()).toThrow(/^No lock is held here\. Call this inside a method with @Locked/);
    expect(thrownBy(() => assertLocked('order:1'))).toMatchObject({
      code: 'LOCK_NOT_HELD',
      message: expect.stringContaining('The lock "order:1" is not held here.'),
    });
  });

  it('is found after awaits, timers and nested calls, in each of two chains', async () => {
    const chain = async (lock: Hold) => {
      await nextTurn();
      const nested = async () => currentLock(lock.key);
      expect([currentLock(), await nested()]).toEqual([lock, lock]);
      assertLocked();
      assertLocked(lock.key);
    };
    await Promise.all(['a', 'b'].map((key) => runHolding(lockOf(key), chain)));
    expect(findCurrentHold()).toBeUndefined();
  });

  it('is the innermost one that is not released, or the one with the given key', async () => {
    const [outer, inner] = [lockOf('outer'), lockOf('inner')];
    await runHolding(outer, () =>
      runHolding(inner, async () => {
        expect([currentLock(), currentLock('outer'), currentLock('inner')]).toEqual([inner, outer, inner]);
        expect(() => currentLock('other')).toThrow('The lock "other" is not held here.');
        await inner.release();
        expect([currentLock(), findCurrentHold('inner')]).toEqual([outer, undefined]);
        runHolding(lockOf('next'), () =>
          expect(['outer', 'inner'].map((key) => findCurrentHold(key))).toEqual([outer, undefined]),
        );
      }),
    );
  });

  it('is shared by two copies of the package', async () => {
    const path = '../../../../lib/core/reentry/context.ts?copy';
    const copy = (await import(path)) as { currentLock: typeof currentLock };
    const lock = lockOf('k');
    expect(copy.currentLock).not.toBe(currentLock);
    expect(runHolding(lock, () => copy.currentLock())).toBe(lock);
  });
});

describe('assertLocked, under a lock that is not proven', () => {
  it.each<[string, string, (keeper: FakeKeeper, lock: Hold) => unknown]>([
    ['was lost', 'LOCK_LOST', (_keeper, lock) => lock.lose('taken')],
    ['ran out before any timer fired', 'LOCK_LOST', ({ clock }) => clock.jump(60_000)],
    ['may have ended while the wall clock jumped', 'LOCK_NOT_HELD', ({ clock }) => (clock.wallOffsetMs += 3_600_000)],
  ])('throws when it %s: %s, and currentLock still returns it', (_what, code, happens) => {
    const keeper = new FakeKeeper();
    const lock = heldLock(keeper);
    happens(keeper, lock);
    runHolding(lock, () => {
      expect(thrownBy(() => assertLocked())).toMatchObject({ code });
      expect([currentLock(), currentLock().held]).toEqual([lock, false]);
    });
    expect(lock.lost !== null).toBe(code === 'LOCK_LOST');
  });
});

describe('work that outlives its lock and acquires the next one', () => {
  /** Begins each round inside the lock of the one before, and gives how many locks are still there in the last. */
  async function goOn(rounds: number, ends: 'own' | 'former'): Promise<number> {
    const locks: WeakRef<Hold>[] = [];
    const done = gate();
    let goesOn!: () => void;
    const next = (): void => {
      if (locks.length === rounds) {
        // What goes on in this context keeps it.
        goesOn = AsyncResource.bind(() => undefined);
        return done.open();
      }
      const lock = lockOf(`${locks.length}`);
      const former = locks.at(-1)?.deref();
      locks.push(new WeakRef(lock));
      runHolding(lock, () => setImmediate(next));
      void (ends === 'own' ? lock : former)?.release();
    };
    next();
    await done.opened;
    await collectGarbage();
    goesOn();
    return locks.filter((ref) => ref.deref()).length;
  }

  it.each([['own', 2], ['former', 4]] as const)('keeps no ended hold in memory when each round ends its %s lock', async (ends, most) => {
    expect(await goOn(50, ends)).toBeLessThanOrEqual(most);
  }); // prettier-ignore

  it('still finds a released lock that it keeps alive: a call for that lock is refused', async () => {
    const { under } = startLocker();
    const done = gate();
    let inside!: Promise<unknown>;
    const again = () => done.opened.then(() => under('other', () => under('b', () => 'entered')));
    await under(['a', 'b'], () => void (inside = under('a', again).catch((error: unknown) => error)));
    done.open();
    expect(await inside).toMatchObject({ code: 'LOCK_REENTRY', key: 'b' });
  });
});
