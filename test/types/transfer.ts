import type { Lock, LockOptions, RedisLockService } from '../../lib/index.js';
import { check, type Same } from './support.js';

check<Same<ReturnType<Lock['transfer']>, Promise<string>>>();
check<Same<ReturnType<RedisLockService['adopt']>, Promise<Lock>>>();
check<Same<Parameters<Lock['transfer']>, [options?: { leaseMs?: number }]>>();
check<
  Same<
    Parameters<RedisLockService['adopt']>,
    [text: string, options?: Pick<LockOptions, 'leaseMs' | 'maxHoldMs' | 'renew'>]
  >
>();

export async function accepted(locks: RedisLockService, lock: Lock): Promise<void> {
  const text: string = await lock.transfer();
  await lock.transfer({ leaseMs: 60_000 });
  await using adopted: Lock = await locks.adopt(text);
  await locks.adopt(text, { leaseMs: 60_000, maxHoldMs: 5_000, renew: false });
  adopted.signal.throwIfAborted();
}

export function refused(locks: RedisLockService, lock: Lock): void {
  // @ts-expect-error the options of its acquire cannot change
  void locks.adopt('text', { mode: 'read' });
  // @ts-expect-error it waits for nothing
  void locks.adopt('text', { waitMs: 5_000 });
  // @ts-expect-error not a handle
  void locks.adopt(lock);
  // @ts-expect-error a number of milliseconds
  void lock.transfer({ leaseMs: '60s' });
  // @ts-expect-error an option of the process that adopts it
  void lock.transfer({ renew: false });
}
