import { type LockState, LockKeyError } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { rejection } from '../../support/waiting/rejection.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { untilWaiting } from '../../support/waiting/waiters.js';

/** If the holder does not listen yet, its next renewal notifies it. */
const LEASE = { leaseMs: 6_000 };

describe('the operator methods with several keys', () => {
  afterEach(closeAll);

  it('inspect returns an array in the order of the keys', async () => {
    const [a, b] = [await startApp(), await startApp()];
    const [free, held, shared] = [freshKey(), freshKey(), freshKey()];
    const { fencingToken } = await a.locks.acquire(held);
    await a.locks.acquire(shared, { mode: 'read' });
    const waiting = rejection(b.locks.acquire(held, { waitMs: 20_000 }));
    await untilWaiting(a, held);
    const states: LockState[] = await b.locks.inspect([shared, free, held, shared]);
    expect(states).toMatchObject([
      { key: shared, mode: 'read', waiters: 0 },
      { key: free, mode: 'free', holders: [] },
      { key: held, mode: 'write', waiters: 1, fencingToken },
      { key: shared, mode: 'read' },
    ]);
    const one: LockState = await b.locks.inspect(held);
    expect(one).toMatchObject({ key: held, mode: 'write' });
    expect(await b.locks.inspect([held])).toMatchObject([{ key: held }]);
    await b.close();
    await waiting;
  });

  it('isLocked reports whether any of the keys is held', async () => {
    const { locks } = await startApp();
    const keys = [freshKey(), freshKey(), freshKey()];
    expect(await locks.isLocked(keys)).toBe(false);
    const lock = await locks.acquire(keys[1]!);
    expect(await locks.isLocked(keys)).toBe(true);
    expect(await locks.isLocked([keys[0]!, keys[2]!])).toBe(false);
    await lock.release();
    expect(await locks.isLocked(keys)).toBe(false);
  });

  it('forceRelease revokes all that are held, and returns whether any was', async () => {
    const [a, b] = [await startApp(), await startApp()];
    const keys = [freshKey(), freshKey(), freshKey()];
    const held = [await a.locks.acquire(keys[0]!, LEASE), await a.locks.acquire([keys[1]!, keys[2]!], LEASE)];
    expect(await b.locks.forceRelease([...keys, freshKey()])).toBe(true);
    await eventually(() => held.every(({ signal }) => signal.aborted));
    for (const { signal } of held) expect(signal.reason).toMatchObject({ reason: 'revoked' });
    expect(await b.locks.isLocked(keys)).toBe(false);
    expect(await b.locks.forceRelease(keys)).toBe(false);
  });

  it.each(['inspect', 'isLocked', 'forceRelease'] as const)(
    '%s rejects an empty list and an invalid key',
    async (name) => {
      const { locks } = await startApp();
      const key = freshKey();
      const lock = await locks.acquire(key);
      const ask = (keys: unknown): Promise<unknown> => locks[name](keys as string);
      for (const keys of [[], [key, ''], [key, 7], '', undefined]) {
        expect(await rejection(ask(keys))).toBeInstanceOf(LockKeyError);
      }
      expect(lock.held).toBe(true);
      await lock.release();
    },
  );
});
