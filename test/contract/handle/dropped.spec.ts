import { Logger } from '@nestjs/common';
import { type LockApp, closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { eventuallyPasses } from '../../support/waiting/eventually.js';
import { collectGarbage } from '../../support/waiting/collect-garbage.js';

/** Longer than a test waits: what is free before was given back. */
const OPTIONS = { leaseMs: 300_000 };

/** Acquires and keeps nothing; gives the token. */
async function drop({ locks }: LockApp, key: string | string[]): Promise<number> {
  return (await locks.acquire(key, OPTIONS)).fencingToken;
}

describe('a handle that is dropped without a release', () => {
  const logged = jest.spyOn(Logger.prototype, 'error');
  const messagesOf = (key: string) =>
    logged.mock.calls.map(([text]) => String(text)).filter((text) => text.includes(key));

  beforeEach(() => void logged.mockClear());
  afterEach(closeAll);
  afterAll(() => logged.mockRestore());

  it('is released when it is garbage-collected, and reported once with its key', async () => {
    const [a, b] = [await startApp(), await startApp()];
    const key = freshKey();
    const token = await drop(a, key);
    expect((await b.locks.inspect(key)).holders).toMatchObject([{ fencingToken: token }]);
    await eventuallyPasses(async () => {
      await collectGarbage();
      expect(await b.locks.isLocked(key)).toBe(false);
    });
    expect(messagesOf(key)).toHaveLength(1);
    expect(messagesOf(key)[0]).toContain('without a release');
    await eventuallyPasses(() => expect(a.locker.live).toMatchObject({ locks: 0, releasing: 0 }));
  });

  it('releases all of its keys, and the keys of a reader', async () => {
    const [a, b] = [await startApp(), await startApp()];
    const keys = [freshKey(), freshKey()];
    const shared = freshKey();
    await drop(a, keys);
    await (async () => void (await a.locks.tryAcquire(shared, { ...OPTIONS, mode: 'read' })))();
    await eventuallyPasses(async () => {
      await collectGarbage();
      const locked = await Promise.all([...keys, shared].map((key) => b.locks.isLocked(key)));
      expect(locked).toEqual([false, false, false]);
    });
  });

  it('aborts the signal before another caller can get the lock', async () => {
    const [a, b] = [await startApp(), await startApp()];
    const [key, keys] = [freshKey(), [freshKey(), freshKey()]];
    const signalOf = async (name: string | string[]) => (await a.locks.acquire(name, OPTIONS)).signal;
    const signals = [await signalOf(key), await signalOf(keys)];
    const next = [key, keys].map((name) => b.locks.acquire(name, { waitMs: 25_000 }));
    const toldThen = next.map((granted, i) => granted.then(() => signals[i]!.aborted));
    await eventuallyPasses(async () => {
      await collectGarbage();
      expect(signals.map(({ aborted }) => aborted)).toEqual([true, true]);
    });
    expect(await Promise.all(toldThen)).toEqual([true, true]);
    expect(signals[0]!.reason).toMatchObject({ code: 'LOCK_LOST', reason: 'dropped', key });
    expect((signals[0]!.reason as Error).cause).toMatchObject({ message: expect.stringContaining('was dropped') });
  });

  it('is not released while withLock runs, though nothing references it', async () => {
    const [a, b] = [await startApp(), await startApp()];
    const [working, dropped] = [freshKey(), freshKey()];
    await a.locks.withLock(working, OPTIONS, async () => {
      await drop(a, dropped);
      await eventuallyPasses(async () => {
        await collectGarbage();
        expect(await b.locks.isLocked(dropped)).toBe(false);
      });
      expect(await b.locks.tryAcquire(working)).toBeNull();
    });
    expect(messagesOf(working)).toEqual([]);
  });
});
