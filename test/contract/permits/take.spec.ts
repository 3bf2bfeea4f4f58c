import { LockBusyError, LockConfigurationError } from '../../../lib/index.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { itWithPermits, itWithoutPermits } from '../../support/topologies/topology.js';
import { rejection } from '../../support/waiting/rejection.js';
import { untilWaiting } from '../../support/waiting/waiters.js';

const PATIENT = { waitMs: 25_000 };
const five = (take: number) => ({ mode: 'read', permits: 5, take, ...PATIENT }) as const;
const any = { mode: 'read', ...PATIENT } as const;

afterEach(closeAll);

describe('several permits in one call', () => {
  itWithPermits('are taken together, and come free together', async () => {
    const [a, b] = [await startApp(), await startApp()];
    const key = freshKey();
    const large = await a.locks.acquire(key, five(3));
    expect(await b.locks.tryAcquire(key, five(3))).toBeNull();
    const small = await b.locks.acquire(key, five(2));
    const { permits, holders } = await a.locks.inspect(key);
    expect(permits).toEqual({ allowed: 5, used: 5, available: 0 });
    expect(holders.map(({ take }) => take).toSorted((x, y) => x - y)).toEqual([2, 3]);
    const busy = (await rejection(a.locks.acquire(key, { ...five(2), waitMs: 0 }))) as LockBusyError;
    expect(busy.message).toContain('fewer than 2 of its 5 permits are free');
    expect(busy.permits).toBe(5);
    await large.release();
    expect((await a.locks.inspect(key)).permits).toEqual({ allowed: 5, used: 2, available: 3 });
    await (await a.locks.acquire(key, five(3))).release();
    await small.release();
  });

  it.each([
    { take: 3 },
    { mode: 'read' as const, permits: 2, take: 3 },
    { mode: 'read' as const, permits: 2, take: 0 },
    { mode: 'read' as const, take: 1.5 },
  ])('are refused when they are wrong: %p', async (options) => {
    const { locks } = await startApp();
    expect(await rejection(locks.acquire(freshKey(), options))).toBeInstanceOf(LockConfigurationError);
  });
});

describe('permits that are set at run time', () => {
  itWithPermits('count for all instances, whatever their calls say', async () => {
    const [a, b] = [await startApp(), await startApp()];
    const key = freshKey();
    await a.locks.setPermits(key, 1);
    const one = await b.locks.acquire(key, five(1));
    const waiting = a.locks.acquire(key, any);
    await untilWaiting(a, key);
    const busy = (await rejection(b.locks.acquire(key, { ...any, waitMs: 0 }))) as LockBusyError;
    expect([busy.permits, busy.message.includes('its only permit is taken')]).toEqual([1, true]);
    await b.locks.setPermits(key, 2);
    const two = await waiting;
    await b.locks.setPermits(key, 1);
    expect((await a.locks.inspect(key)).permits).toEqual({ allowed: 1, used: 2, available: 0 });
    expect([one.held, two.held]).toEqual([true, true]);
    await one.release();
    expect(await a.locks.tryAcquire(key, any)).toBeNull();
    await b.locks.setPermits(key, null);
    await (await a.locks.acquire(key, five(4))).release();
    await two.release();
  });

  itWithPermits(
    'refuse a call that takes more, at once and while it waits, and do not keep others waiting behind it',
    async () => {
      const [a, b] = [await startApp(), await startApp()];
      const key = freshKey();
      const held = await a.locks.acquire(key, five(1));
      const large = rejection(b.locks.acquire(key, five(5)));
      await untilWaiting(a, key, 1);
      const small = a.locks.acquire(key, five(1));
      await untilWaiting(a, key, 2);
      await a.locks.setPermits(key, 3);
      const error = await large;
      expect(error).toBeInstanceOf(LockBusyError);
      expect(error.message).toContain('the call takes 5 of 3 permits');
      await (await small).release();
      await a.locks.setPermits(key, 0);
      expect((await rejection(b.locks.acquire(key, any))).message).toContain('is closed');
      expect(await b.locks.tryAcquire(key, any)).toBeNull();
      await held.release();
      await (await b.locks.acquire(key)).release();
    },
  );

  itWithPermits.each([-1, 1.5, NaN, 100_001, '2', undefined])('refuse %p', async (permits) => {
    const { locks } = await startApp();
    const error = await rejection(locks.setPermits(freshKey(), permits as number));
    expect(error).toBeInstanceOf(LockConfigurationError);
  });

  itWithoutPermits('are refused on a quorum', async () => {
    const { locks } = await startApp();
    expect(await rejection(locks.setPermits(freshKey(), 2))).toBeInstanceOf(LockConfigurationError);
    expect(await rejection(locks.acquire(freshKey(), { mode: 'read', take: 2 }))).toBeInstanceOf(
      LockConfigurationError,
    );
  });
});
