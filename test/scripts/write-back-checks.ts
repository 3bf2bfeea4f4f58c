import { type Checks, type DrivenLock, KEY, LEASE_MS, attempt } from './driven-lock.js';
import { LOST_CHECKS } from './write-back-lost-checks.js';

const [A, B, C, D] = [attempt('a', 1), attempt('b', 2), attempt('c', 3), attempt('d', 4)];
/** Ahead of the clock for longer than a check lasts. */
const AHEAD = 1_000_000_000;
const plus = (token: string, by: number): string => String(Number(token) + by);

const written = (lock: DrivenLock, who = A): string[] => ['written', who, `${lock.now}`];

/** Takes the lock and raises its token. */
async function takeRaised(lock: DrivenLock, operands = {}, by = AHEAD) {
  const token = await lock.take(A, operands);
  const raised = plus(token, by);
  expect(await lock.writeBack(A, token, raised)).toEqual(written(lock));
  return { token, raised };
}

async function expectTokens(lock: DrivenLock, hold: string, last: string): Promise<void> {
  expect([(await lock.holdOf(A))?.token, await lock.lastToken()]).toEqual([hold, last]);
}

/** Of a write hold as of a read hold. */
const OF_A_HOLD: Readonly<Record<string, (lock: DrivenLock, mode: string) => Promise<void>>> = {
  'raises the token of a hold and of the lock': async (lock, mode) => {
    const { raised } = await takeRaised(lock, { mode });
    await expectTokens(lock, raised, raised);
  },

  'is exceeded by the next grant after the release of a hold': async (lock, mode) => {
    const { raised } = await takeRaised(lock, { mode });
    expect(await lock.release(A)).toBe('released');
    expect(Number(await lock.take(B))).toBeGreaterThan(Number(raised));
  },

  'is exceeded by the next grant after the end of its lease': async (lock, mode) => {
    const { raised } = await takeRaised(lock, { mode });
    lock.now += LEASE_MS;
    expect(Number(await lock.take(B))).toBeGreaterThan(Number(raised));
  },

  'lowers the token of a hold, and never that of the lock': async (lock, mode) => {
    const { token, raised } = await takeRaised(lock, { mode }, -5);
    await expectTokens(lock, raised, token);
    expect((await lock.renew(A, raised))[0]).toBe('renewed');
    await lock.release(A);
    expect(Number(await lock.take(B))).toBeGreaterThan(Number(token));
  },

  'may be sent twice': async (lock, mode) => {
    const { token, raised } = await takeRaised(lock, { mode, owner: 'ann' });
    await lock.expectUntouched(async () => expect(await lock.writeBack(A, token, raised)).toEqual(written(lock)));
  },

  'leaves the lease of a hold as it is': async (lock, mode) => {
    const token = await lock.take(A, { mode, owner: 'ann' });
    const before = await lock.holdOf(A);
    lock.now += 1_000;
    await lock.writeBack(A, token, plus(token, AHEAD));
    expect(await lock.holdOf(A)).toEqual({ ...before, token: plus(token, AHEAD) });
    lock.now += LEASE_MS - 1_001;
    expect((await lock.acquire(B))[0]).toBe('busy');
    lock.now += 1;
    expect((await lock.acquire(B))[0]).toBe('granted');
  },

  'makes renewals and releases require the new token': async (lock, mode) => {
    const { token, raised } = await takeRaised(lock, { mode });
    expect(await lock.renew(A, token)).toEqual(['lost', A, `${lock.now}`, raised, '0']);
    expect((await lock.downgrade(A, token))[0]).toBe('lost');
    lock.now += 1_000;
    expect(await lock.renew(A, raised)).toEqual(['renewed', A, `${lock.now}`, `${LEASE_MS}`]);
    expect(await lock.lastToken()).toBe(raised);
    expect((await lock.downgrade(A, raised))[0]).toBe('downgraded');
    expect(await lock.release(A)).toBe('released');
  },

  'lets the owner re-enter with the new token': async (lock, mode) => {
    const { raised } = await takeRaised(lock, { mode, owner: 'ann' });
    expect(await lock.take(B, { mode, owner: 'ann' })).toBe(raised);
  },

  'lets the owner of the only hold re-enter with the new token, also with a lower one': async (lock, mode) => {
    const { token, raised } = await takeRaised(lock, { mode, owner: 'ann' }, -5);
    expect(await lock.take(B, { mode, owner: 'ann' })).toBe(raised);
    expect(await lock.lastToken()).toBe(token);
    await lock.release(A);
    await lock.release(B);
    expect(Number(await lock.take(C, { mode }))).toBeGreaterThan(Number(token));
  },

  'never lowers the token of an owner that has several holds': async (lock, mode) => {
    const token = await lock.take(A, { mode, owner: 'ann' });
    expect(await lock.take(B, { mode, owner: 'ann' })).toBe(token);
    expect(await lock.writeBack(A, token, plus(token, -5))).toEqual(written(lock));
    expect(await lock.take(C, { mode, owner: 'ann' })).toBe(token);
    await expectTokens(lock, plus(token, -5), token);
    expect((await lock.renew(B, token))[0]).toBe('renewed');
  },

  'raises the token of an owner that has several holds': async (lock, mode) => {
    const token = await lock.take(A, { mode, owner: 'ann' });
    await lock.take(B, { mode, owner: 'ann' });
    await lock.writeBack(A, token, plus(token, AHEAD));
    expect(await lock.take(C, { mode, owner: 'ann' })).toBe(plus(token, AHEAD));
    expect((await lock.holdOf(B))?.token).toBe(token);
  },

  'follows the new token again when one hold of the owner is left': async (lock, mode) => {
    const token = await lock.take(A, { mode, owner: 'ann' });
    await lock.take(B, { mode, owner: 'ann' });
    await lock.release(B);
    await lock.writeBack(A, token, plus(token, -5));
    expect(await lock.take(C, { mode, owner: 'ann' })).toBe(plus(token, -5));
  },

  'never lets the owner re-enter with less than before': async (lock, mode) => {
    const token = await lock.take(A, { mode, owner: 'ann' });
    expect(await lock.take(B, { mode, owner: 'ann' })).toBe(token);
    await lock.writeBack(B, token, plus(token, 2 * AHEAD));
    expect(await lock.writeBack(A, token, plus(token, AHEAD))).toEqual(written(lock));
    expect(await lock.take(C, { mode, owner: 'ann' })).toBe(plus(token, 2 * AHEAD));
    await expectTokens(lock, plus(token, AHEAD), plus(token, 2 * AHEAD));
  },

  'works when the server is full': async (lock, mode) => {
    const token = await lock.take(A, { mode, owner: 'ann' });
    await lock.fillServer();
    expect(await lock.writeBack(A, token, plus(token, AHEAD))).toEqual(written(lock));
    await expectTokens(lock, plus(token, AHEAD), plus(token, AHEAD));
  },
};

const ofMode = (mode: 'write' | 'read'): Checks =>
  Object.fromEntries(
    Object.entries(OF_A_HOLD).map(([name, check]) => [`${name} (${mode})`, (lock) => check(lock, mode)]),
  );

const OF_READERS: Checks = {
  'is exceeded by another reader at once': async (lock) => {
    const { raised } = await takeRaised(lock, { mode: 'read' });
    expect(Number(await lock.take(B, { mode: 'read' }))).toBeGreaterThan(Number(raised));
  },

  'raises a hold below the last token, which stays': async (lock) => {
    const token = await lock.take(A, { mode: 'read' });
    lock.now += 10;
    const last = await lock.take(B, { mode: 'read' });
    await lock.writeBack(A, token, plus(token, 5));
    await expectTokens(lock, plus(token, 5), last);
  },

  'sent again after another grant, lowers nothing': async (lock) => {
    const { token, raised } = await takeRaised(lock, { mode: 'read' });
    const last = await lock.take(B, { mode: 'read' });
    expect(await lock.writeBack(A, token, raised)).toEqual(written(lock));
    await expectTokens(lock, raised, last);
  },

  'keeps count of the holds of an owner': async (lock) => {
    const token = await lock.take(A, { mode: 'read', owner: 'ann' });
    await lock.take(B, { mode: 'read', owner: 'ann' });
    await lock.writeBack(A, token, plus(token, AHEAD));
    expect(await lock.release(A)).toBe('released');
    expect((await lock.acquire(C, { owner: 'ann' }))[3]).toBe('upgrade');
  },

  'leaves other owners and other holds alone': async (lock) => {
    await lock.take(B, { mode: 'read', owner: 'bob' });
    await lock.take(C, { mode: 'read' });
    const before = [await lock.holdOf(B), await lock.holdOf(C), (await lock.hash())['owned:bob']];
    await takeRaised(lock, { mode: 'read', owner: 'ann' });
    expect([await lock.holdOf(B), await lock.holdOf(C), (await lock.hash())['owned:bob']]).toEqual(before);
  },
};

const OF_OWNERS: Checks = {
  'counts no hold that is parked as one of the owner': async (lock) => {
    const token = await lock.take(A, { owner: 'ann' });
    await lock.take(B, { owner: 'ann' });
    await lock.release(B, { holdAtLeastMs: 20_000 });
    await lock.writeBack(A, token, plus(token, -5));
    expect(await lock.take(C, { owner: 'ann' })).toBe(plus(token, -5));
  },

  'counts no reads of others as those of the owner': async (lock) => {
    await lock.take(B, { mode: 'read', owner: 'bob' });
    await lock.take(C, { mode: 'read', owner: 'bob' });
    const token = await lock.take(A, { mode: 'read', owner: 'ann' });
    await lock.writeBack(A, token, plus(token, -5));
    expect(await lock.take(D, { mode: 'read', owner: 'ann' })).toBe(plus(token, -5));
  },

  'counts no reads of the owner as writes': async (lock) => {
    const token = await lock.take(A, { owner: 'ann' });
    await lock.take(B, { mode: 'read', owner: 'ann' });
    await lock.writeBack(A, token, plus(token, -5));
    expect(await lock.take(C, { owner: 'ann' })).toBe(plus(token, -5));
  },
};

const AT_ALL: Checks = {
  'hands a place that became free to a waiter, with more than the new token': async (lock) => {
    await lock.take(A, { mode: 'read', leaseMs: 1_000 });
    const token = await lock.take(B, { mode: 'read' });
    await lock.acquire(C, { mode: 'read', permits: 2, waiterLeaseMs: 10_000 });
    lock.now += 1_000;
    expect(await lock.writeBack(B, token, plus(token, AHEAD))).toEqual(written(lock, B));
    expect((await lock.holdOf(C))?.token).toBe(plus(token, AHEAD + 1));
  },

  'lets a waiter wait on': async (lock) => {
    const token = await lock.take(A);
    await lock.acquire(B, { waiterLeaseMs: 10_000 });
    await lock.acquire(D, { waiterLeaseMs: 10_000 });
    const queue = async () =>
      Object.entries(await lock.hash()).filter(([field]) => /^(queue|place|head|tail)/.test(field));
    const before = await queue();
    await lock.writeBack(A, token, plus(token, AHEAD));
    expect(await queue()).toEqual(before);
  },

  'does not shorten the time to live of the key': async (lock) => {
    await takeRaised(lock, { leaseMs: 7_200_000 });
    expect(await lock.redis.pttl(KEY)).toBeGreaterThan(7_195_000);
  },

  'writes nothing to a key of another type': async (lock) => {
    await lock.redis.set(KEY, 'mine');
    await expect(lock.writeBack(A, '1', '2')).rejects.toThrow('WRONGTYPE');
    expect(await lock.redis.get(KEY)).toBe('mine');
  },
};

/** What a write-back promises; each runs on a fresh lock. */
export const WRITE_BACK_CHECKS: Checks = {
  ...ofMode('write'),
  ...ofMode('read'),
  ...OF_READERS,
  ...OF_OWNERS,
  ...AT_ALL,
  ...LOST_CHECKS,
};
