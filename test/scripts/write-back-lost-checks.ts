import { type Checks, type DrivenLock, KEY, LEASE_MS, attempt } from './driven-lock.js';

const [A, B] = [attempt('a', 1), attempt('b', 2)];
const AHEAD = 1_000_000_000;
const plus = (token: string, by: number): string => String(Number(token) + by);

/** That the write-back is lost, with the last token that the lock has had. */
async function expectLost(lock: DrivenLock, who: string, token: string, last: string, revoked = '0'): Promise<void> {
  const reply = await lock.writeBack(who, token, plus(last, AHEAD));
  expect(reply).toEqual(['lost', who, `${lock.now}`, last, revoked]);
}

/** Write-backs that come too late, or to the wrong place: they write nothing, and bring nothing back. */
export const LOST_CHECKS: Checks = {
  'is lost with a wrong token': async (lock) => {
    const token = await lock.take(A);
    await lock.expectUntouched(() => expectLost(lock, A, plus(token, 1), token));
    await lock.expectUntouched(() => expectLost(lock, A, '0', token));
  },

  'is lost with the token that another write-back replaced': async (lock) => {
    const token = await lock.take(A, { mode: 'read', owner: 'ann' });
    await lock.writeBack(A, token, plus(token, 7));
    await lock.expectUntouched(() => expectLost(lock, A, token, plus(token, 7)));
  },

  'is lost for an attempt that does not hold it': async (lock) => {
    const token = await lock.take(A);
    await lock.expectUntouched(() => expectLost(lock, B, token, token));
  },

  'is lost for an attempt that waits': async (lock) => {
    const token = await lock.take(A);
    await lock.acquire(B, { waiterLeaseMs: 10_000 });
    await lock.expectUntouched(() => expectLost(lock, B, token, token));
  },

  'is lost when there is no lock, and creates none': async (lock) => {
    expect(await lock.writeBack(A, '5', '9')).toEqual(['lost', A, `${lock.now}`, '0', '0']);
    expect(await lock.redis.exists(KEY)).toBe(0);
  },

  'is lost for a hold that is parked': async (lock) => {
    const token = await lock.take(A, { owner: 'ann' });
    await lock.release(A, { holdAtLeastMs: 20_000 });
    await lock.expectUntouched(() => expectLost(lock, A, token, token));
    await lock.expectUntouched(() => expectLost(lock, A, '0', token));
    expect((await lock.acquire(B, { owner: 'ann' }))[0]).toBe('busy');
  },

  'is lost for a hold that was released': async (lock) => {
    const token = await lock.take(A);
    await lock.release(A);
    await lock.expectUntouched(() => expectLost(lock, A, token, token));
  },

  'is lost for a hold whose lease is over, and does not bring it back': async (lock) => {
    const token = await lock.take(A, { owner: 'ann' });
    lock.now += LEASE_MS;
    await expectLost(lock, A, token, token);
    expect(await lock.hash()).toEqual({ token, released: ';' });
    await lock.expectUntouched(() => expectLost(lock, A, token, token));
    expect(Number(await lock.take(B))).toBeGreaterThan(Number(token));
  },

  'is lost for a hold whose lease is over, also when the server is full': async (lock) => {
    const token = await lock.take(A);
    lock.now += LEASE_MS;
    await lock.fillServer();
    await expectLost(lock, A, token, token);
    expect(await lock.holdOf(A)).toBeNull();
  },

  'hands the lock of a hold whose lease is over to a waiter': async (lock) => {
    const token = await lock.take(A);
    lock.now += LEASE_MS - 1;
    await lock.acquire(B, { waiterLeaseMs: 10_000 });
    lock.now += 1;
    const reply = await lock.writeBack(A, token, plus(token, AHEAD));
    const granted = (await lock.holdOf(B))?.token;
    expect(reply).toEqual(['lost', A, `${lock.now}`, granted, '0']);
    expect(Number(granted)).toBeGreaterThan(Number(token));
    expect(Number(granted)).toBeLessThan(Number(token) + AHEAD);
  },

  'is lost for a hold that an operator ended, and says so': async (lock) => {
    const token = await lock.take(A);
    await lock.forceRelease();
    await lock.expectUntouched(() => expectLost(lock, A, token, token, '1'));
    lock.now += 1;
    const next = await lock.take(B);
    await lock.expectUntouched(() => expectLost(lock, A, token, next, '1'));
  },
};
