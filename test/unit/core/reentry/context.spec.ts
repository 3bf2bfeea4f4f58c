import { AsyncResource } from 'node:async_hooks';
import { channel } from 'node:diagnostics_channel';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { type Hold } from '../../../../lib/core/hold/hold.js';
import {
  assertLocked,
  currentLock,
  findCurrentHold,
  isInside,
  runHolding,
  runUnlocked,
  separateRequests,
} from '../../../../lib/core/reentry/context.js';
import { UnlockedHandle } from '../../../../lib/core/reentry/unlocked-run.js';
import { type FakeClock } from '../../../support/core/fake-clock.js';
import { collectGarbage } from '../../../support/waiting/collect-garbage.js';
import { startLocker } from '../../../support/core/core-parts.js';
import { gate } from '../../../support/waiting/gate.js';
import { thrownBy } from '../../../support/waiting/rejection.js';

const lockOf = (key: string): Promise<Hold> => startLocker().enter(key);

describe('the lock of a chain of calls', () => {
  it('does not exist outside, and the error explains how to get one', () => {
    expect(findCurrentHold()).toBeUndefined();
    expect(() => currentLock()).toThrow(/^No lock is held here\. Call this inside a method with @Locked/);
    expect(thrownBy(() => assertLocked('order:1'))).toMatchObject({
      code: 'LOCK_NOT_HELD',
      message: expect.stringContaining('The lock "order:1" is not held here.'),
    });
  });

  it.each<[unknown, string]>([
    [7, 'number'],
    [['a', 'b'], 'object'],
    ['', 'an empty one'],
  ])('is not looked for by %j, which cannot be a key', async (key, got) => {
    const lock = await lockOf('k');
    for (const find of [currentLock, assertLocked]) {
      const error = runHolding(lock, () => thrownBy(() => find(key as string)));
      expect(error).toMatchObject({ code: 'LOCK_KEY', message: expect.stringContaining(`got ${got}.`) });
    }
    await lock.release();
  });

  it('is not that of another module', async () => {
    const lock = await lockOf('k');
    const found = await runHolding(lock, async () => [{}, lock.keeper].map((keeper) => findCurrentHold('k', keeper)));
    expect(found).toEqual([undefined, lock]);
    await lock.release();
  });

  it('is found after awaits, timers and nested calls, in each of two chains', async () => {
    const chain = async (lock: Hold) => {
      await nextTurn();
      const nested = async () => currentLock(lock.key);
      expect([currentLock(), await nested()]).toEqual([lock, lock]);
      assertLocked();
      assertLocked(lock.key);
    };
    const locks = await Promise.all(['a', 'b'].map(lockOf));
    await Promise.all(locks.map((lock) => runHolding(lock, chain)));
    expect(findCurrentHold()).toBeUndefined();
  });

  it('is the innermost one that is not released, or the one with the given key', async () => {
    const { enter } = startLocker();
    const [outer, inner, next] = [await enter('outer'), await enter('inner'), await enter('next')];
    await runHolding(outer, () =>
      runHolding(inner, async () => {
        expect([currentLock(), currentLock('outer'), currentLock('inner')]).toEqual([inner, outer, inner]);
        expect(() => currentLock('other')).toThrow('The lock "other" is not held here.');
        await inner.release();
        expect([currentLock(), findCurrentHold('inner')]).toEqual([outer, undefined]);
        runHolding(next, () =>
          expect(['outer', 'inner'].map((key) => findCurrentHold(key))).toEqual([outer, undefined]),
        );
      }),
    );
  });

  it('is the same for two copies of the package', async () => {
    const path = '../../../../lib/core/reentry/context.ts?copy';
    const copy = (await import(path)) as { currentLock: typeof currentLock };
    const lock = await lockOf('k');
    expect(copy.currentLock).not.toBe(currentLock);
    expect(runHolding(lock, () => copy.currentLock())).toBe(lock);
  });
});

describe('a chain of calls', () => {
  it('is inside a lock until that has ended, also after its release', async () => {
    const { enter, locker } = startLocker();
    const [outer, nested] = [await enter('k'), gate()];
    const keeper = locker.holds;
    const look = () => [isInside('k', keeper), isInside('other', keeper), isInside('k', {})];
    const seen = [look()];
    await runHolding(outer, async () => {
      seen.push(look());
      const inner = await enter('k');
      void runHolding(inner, () => nested.opened).finally(() => void inner.release());
      const released = outer.release();
      seen.push(look());
      nested.open();
      await released;
      seen.push(look());
    });
    const [inside, outside] = [
      [true, false, false],
      [false, false, false],
    ];
    expect(seen).toEqual([outside, inside, inside, outside]);
  });

  it('is inside a method that runs without its lock until that has ended', async () => {
    const run = new UnlockedHandle(['k', 'j'], 'write');
    const look = () => [isInside('j', {}), isInside('other', {}), findCurrentHold('k')];
    const current = () => thrownBy(() => currentLock('j'));
    runUnlocked(run, () => {
      expect([look(), currentLock(), currentLock<'run-unlocked'>('j')]).toEqual([[true, false, undefined], run, run]);
      run.isEnded = true;
      expect([look(), current()]).toMatchObject([[false, false, undefined], { code: 'LOCK_NOT_HELD' }]);
    });
    expect(look()).toEqual([false, false, undefined]);
  });
});

describe('a method that runs without its lock', () => {
  it('is found again after a lock that it has acquired and released', async () => {
    const [run, lock] = [new UnlockedHandle(['k'], 'write'), await lockOf('other')];
    const found = runUnlocked(run, () =>
      runHolding(lock, async () => {
        await lock.release();
        return currentLock();
      }),
    );
    expect(await found).toBe(run);
  });
});

describe('a released lock that a nested call keeps', () => {
  it('does not concern another module', async () => {
    const [a, b] = [startLocker(), startLocker()];
    const outer = await a.enter('k');
    await runHolding(outer, async () => {
      const inner = await a.enter('k');
      const other = runHolding(inner, () => {
        void outer.release();
        return b.enter('k');
      });
      expect((await other).held).toBe(true);
      await (await other).release();
      await inner.release();
    });
  });
});

describe('a request to a server that began to listen under a lock', () => {
  it('is outside of it, until the module closes', async () => {
    const lock = await lockOf('k');
    const request = () =>
      runHolding(lock, () => {
        channel('http.server.request.start').publish({});
        return findCurrentHold();
      });
    const stop = separateRequests();
    const separated = request();
    stop();
    expect([separated, request()]).toEqual([undefined, lock]);
    await lock.release();
  });
});

describe('assertLocked, under a lock that is not proven', () => {
  it.each<[string, string, (lock: Hold, clock: FakeClock) => unknown]>([
    ['was lost', 'LOCK_LOST', (lock) => lock.lose('taken')],
    ['ran out before any timer fired', 'LOCK_LOST', (_lock, clock) => clock.jump(60_000)],
    [
      'may have ended while the wall clock jumped',
      'LOCK_NOT_HELD',
      (_lock, clock) => (clock.wallOffsetMs += 3_600_000),
    ],
  ])('throws when it %s: %s, and currentLock still returns it', async (_what, code, happens) => {
    const { clock, enter } = startLocker();
    const lock = await enter('k');
    happens(lock, clock);
    runHolding(lock, () => {
      expect(thrownBy(() => assertLocked())).toMatchObject({ code });
      expect([currentLock(), currentLock().held]).toEqual([lock, false]);
    });
    expect(lock.lost !== null).toBe(code === 'LOCK_LOST');
  });
});

describe('work that outlives its lock and acquires the next one', () => {
  /** Begins each round inside the lock of the one before, and returns the number of locks that remain in the last. */
  async function goOn(rounds: number, ends: 'own' | 'former'): Promise<number> {
    const { enter, store } = startLocker();
    const locks: WeakRef<Hold>[] = [];
    const done = gate();
    let goesOn!: () => void;
    const next = async (): Promise<void> => {
      if (locks.length === rounds) {
        // A task that continues in this context keeps it.
        goesOn = AsyncResource.bind(() => undefined);
        return done.open();
      }
      const lock = await enter(`${locks.length}`);
      // What the store noted of the call keeps its lock.
      store.acquires.length = 0;
      const former = locks.at(-1)?.deref();
      locks.push(new WeakRef(lock));
      runHolding(lock, () => setImmediate(() => void next()));
      void (ends === 'own' ? lock : former)?.release();
    };
    void next();
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
