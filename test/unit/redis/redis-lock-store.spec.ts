import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import { systemClock } from '../../../lib/core/clock.js';
import { LockConfigurationError, LockStoreError } from '../../../lib/core/lock.errors.js';
import { type AcquireReply, type AcquireRequest, type WakeUp } from '../../../lib/core/store/lock-store.js';
import { RedisLockStore } from '../../../lib/redis/redis-lock-store.js';
import { createLockScripts } from '../../../lib/redis/scripts/lock-scripts.js';
import { eventually } from '../../support/waiting/eventually.js';
import { systemRandomness } from '../../../lib/core/randomness.js';
import { systemAfterTurn } from '../../../lib/core/runtime.js';

const ignore = (): void => undefined;
const reporter = { debug: ignore, warn: ignore, error: ignore };
const TIMEOUT_MS = 2_000;
const WISH = { mode: 'write', owner: undefined, holder: 'web-1:42', leaseMs: 10_000 } as const;

describe('the store on Redis', () => {
  let redis: Redis;
  let keyPrefix: string;
  let store: RedisLockStore;
  let attempts = 0;
  const wakeUps: [string, WakeUp][] = [];
  const late: AcquireReply[] = [];
  let listening: Promise<void>;

  const open = (minReplicas = 0): RedisLockStore =>
    new RedisLockStore({
      connection: redis,
      keyPrefix,
      keepMs: 60_000,
      minReplicas,
      replicaTimeoutMs: 50,
      scripts: createLockScripts(),
      clock: systemClock,
      random: systemRandomness,
      afterTurn: systemAfterTurn,
      reporter,
    });
  const newAttempt = (): string => `${store.clientId}.${String((attempts += 1)).padStart(8, '0')}`;
  const request = (keys: string[], wish: Partial<AcquireRequest> = {}): AcquireRequest => ({
    keys,
    attempt: newAttempt(),
    owner: undefined,
    mode: 'write',
    leaseMs: 10_000,
    waiterLeaseMs: 0,
    fair: true,
    permits: 0,
    holder: 'web-1:42 Orders.pay',
    ...wish,
  });
  const acquire = (asked: AcquireRequest, timeoutMs = TIMEOUT_MS) =>
    store.acquire(asked, timeoutMs, (reply) => late.push(reply));
  const holdOf = async (asked: AcquireRequest) => {
    const reply = await acquire(asked);
    if (reply.outcome !== 'granted') throw new Error(`Expected a grant, got ${reply.outcome}.`);
    return { key: asked.keys[0]!, attempt: asked.attempt, fencingToken: reply.fencingTokens[0]! };
  };
  const release = (key: string, attempt: string, runOutcome?: 'done' | 'failed') =>
    store.release({ key, attempt, holdAtLeastMs: 0, leaseMs: 10_000, job: 'Jobs.run', runOutcome }, TIMEOUT_MS);
  /** All messages sent so far: they arrive in order, and a last one marks the end. */
  const allWakeUps = async () => {
    await redis.publish(`${keyPrefix}wake:${store.clientId}`, 'wake last');
    await eventually(() => wakeUps.some(([attempt]) => attempt === 'last'));
    return wakeUps.slice(0, -1);
  };

  beforeEach(() => {
    redis = new Redis(process.env['REDIS_URL']!);
    keyPrefix = `${randomUUID()}:`;
    store = open();
    for (const told of [wakeUps, late]) told.length = 0;
    const onWakeUp = (attempt: string, wakeUp: WakeUp) => wakeUps.push([attempt, wakeUp]);
    listening = new Promise((onListening) => store.listen({ onWakeUp, onListening, onMessagesMissed: ignore }));
  });
  afterEach(async () => {
    await store.close();
    redis.disconnect();
  });

  it('grants all of several keys or none, with a token for each', async () => {
    const both = request(['a', 'b']);
    const granted = await acquire(both);
    expect(granted).toMatchObject({ outcome: 'granted', remainingMs: 10_000 });
    expect(granted.outcome === 'granted' && granted.fencingTokens).toHaveLength(2);
    expect(Math.abs((granted as { serverTimeMs: number }).serverTimeMs - Date.now())).toBeLessThan(5_000);
    expect(await acquire(both)).toMatchObject({ fencingTokens: (granted as any).fencingTokens });
    expect(await acquire(request(['b', 'c']))).toMatchObject({ outcome: 'busy', holder: 'web-1:42 Orders.pay' });
    expect(await store.inspect('c')).toMatchObject({ mode: 'free', waiters: 0 });
    await release('a', both.attempt);
    expect(await acquire(request(['b', 'c']))).toMatchObject({ outcome: 'busy' });
    await release('b', both.attempt);
    expect(await acquire(request(['b', 'c']))).toMatchObject({ outcome: 'granted' });
  });

  it('wakes a waiter for several keys, and grants it none of them alone', async () => {
    const [first, waiting] = [request(['a']), request(['a', 'b'], { waiterLeaseMs: 9_000 })];
    await acquire(first);
    expect(await acquire(waiting)).toMatchObject({ outcome: 'busy', ahead: 0 });
    await listening;
    await release('a', first.attempt);
    expect(await allWakeUps()).toEqual([[waiting.attempt, { kind: 'wake' }]]);
    expect(await acquire(waiting)).toMatchObject({ outcome: 'granted' });
  });

  it('grants a fire once, and returns the last run', async () => {
    const claim = {
      job: 'Jobs.run',
      kind: 'at',
      ms: 60_000,
      calledAt: 0,
      rememberMs: 120_000,
      rerunOnLoss: false,
    } as const;
    expect(await store.lastRun('job')).toBeNull();
    const run = request(['job'], { claim });
    expect(await acquire(run)).toMatchObject({ outcome: 'granted', fireMs: 60_000 });
    const refused = { outcome: 'refused', reason: 'claimed' };
    expect(await acquire(request(['job'], { claim }))).toEqual({ ...refused, claimedBy: run.attempt });
    expect(await store.lastRun('job')).toMatchObject({
      fire: new Date(60_000),
      instance: 'web-1:42',
      outcome: 'running',
    });
    await release('job', run.attempt, 'failed');
    expect(await acquire(request(['job'], { claim }))).toStrictEqual({ ...refused, claimedBy: undefined });
    expect(await store.lastRun('job')).toMatchObject({ outcome: 'failed', ended: expect.any(Date) });
    expect(await redis.pttl(`${keyPrefix}job`)).toBeGreaterThan(110_000);
  });

  it('repeats a run without an outcome only when asked to', async () => {
    const claim = {
      job: 'Jobs.run',
      kind: 'at',
      ms: 60_000,
      calledAt: 0,
      rememberMs: 120_000,
      rerunOnLoss: false,
    } as const;
    const run = request(['job'], { claim });
    await acquire(run);
    expect(await store.forceRelease('job')).toBe(true);
    expect(await store.lastRun('job')).toMatchObject({ outcome: 'lost', ended: null });
    expect(await acquire(request(['job'], { claim }))).toMatchObject({ reason: 'claimed', claimedBy: run.attempt });
    const again = request(['job'], { claim: { ...claim, rerunOnLoss: true } });
    expect(await acquire(again)).toMatchObject({ outcome: 'granted', fireMs: 60_000 });
  });

  it('returns the owner that writes, a name or an attempt, and none for readers', async () => {
    const [mine, named] = [request(['a']), request(['b'], { owner: 'ann' })];
    await acquire(mine);
    await acquire(named);
    await acquire(request(['c'], { mode: 'read', owner: 'ann' }));
    expect(await acquire(request(['a']))).toMatchObject({ outcome: 'busy', owner: mine.attempt });
    expect(await acquire(request(['b']))).toMatchObject({ outcome: 'busy', owner: 'ann' });
    expect(await acquire(request(['c']))).toMatchObject({ outcome: 'busy', owner: undefined });
    expect(await acquire(request(['b', 'd']))).toMatchObject({ outcome: 'busy', owner: 'ann' });
  });

  it('gives back a grant that no replica confirms, and its fire', async () => {
    const careful = open(1);
    const claim = {
      job: 'Jobs.run',
      kind: 'at',
      ms: 60_000,
      calledAt: 0,
      rememberMs: 120_000,
      rerunOnLoss: false,
    } as const;
    const asked = request(['job'], { claim });
    const reply = await careful.acquire(asked, TIMEOUT_MS, ignore);
    expect(reply).toStrictEqual({ outcome: 'given-back', cause: expect.any(LockStoreError) });
    expect((reply as { cause: LockStoreError }).cause).toMatchObject({
      message: expect.stringContaining('Only 0 of 1 replicas confirmed the lock "job"'),
      retryable: true,
    });
    expect(await store.inspect('job')).toMatchObject({ mode: 'free' });
    expect(await store.lastRun('job')).toBeNull();
    expect(await acquire(asked)).toMatchObject({ outcome: 'refused', reason: 'released' });
    expect(await acquire(request(['job'], { claim }))).toMatchObject({ outcome: 'granted', fireMs: 60_000 });
    await careful.close();
  });

  it('gives back all of several keys when no replica confirms them', async () => {
    const careful = open(1);
    const reply = await careful.acquire(request(['a', 'b']), TIMEOUT_MS, ignore);
    expect(reply).toMatchObject({ outcome: 'given-back' });
    expect(await acquire(request(['a', 'b']))).toMatchObject({ outcome: 'granted' });
    await careful.close();
  });

  it('downgrades, even twice, and reports a lost hold', async () => {
    const hold = await holdOf(request(['a']));
    expect(await store.downgrade(hold, TIMEOUT_MS)).toEqual({ outcome: 'downgraded' });
    expect(await store.downgrade(hold, TIMEOUT_MS)).toEqual({ outcome: 'downgraded' });
    expect(await acquire(request(['a'], { mode: 'read' }))).toMatchObject({ outcome: 'granted' });
    await release('a', hold.attempt);
    expect(await store.downgrade(hold, TIMEOUT_MS)).toMatchObject({ outcome: 'lost', revoked: false });
  });

  it('revokes a lock, and tells its holder at once and at the next renewal', async () => {
    const hold = await holdOf(request(['a']));
    await listening;
    expect(await store.forceRelease('a')).toBe(true);
    expect(await store.forceRelease('a')).toBe(false);
    const [renewed] = await store.renew([{ ...hold, ...WISH, timeoutMs: TIMEOUT_MS }]);
    expect(renewed).toEqual({ outcome: 'lost', lastToken: hold.fencingToken, revoked: true });
    expect(await release('a', hold.attempt)).toMatchObject({ outcome: 'revoked', holds: 0 });
    expect(await allWakeUps()).toEqual([[hold.attempt, { kind: 'revoked' }]]);
  });

  it('never rejects a renewal', async () => {
    const hold = { ...WISH, key: 'a', attempt: newAttempt(), fencingToken: 1, timeoutMs: TIMEOUT_MS };
    await redis.set(`${keyPrefix}b`, 'mine');
    const replies = await store.renew([hold, { ...hold, key: 'b' }, { ...hold, mode: undefined as never }]);
    expect(replies.map(({ outcome }) => outcome)).toEqual(['lost', 'unknown', 'unknown']);
  });

  it('says what to do when a newer version has written the lock, and does not try again', async () => {
    await redis.hset(`${keyPrefix}a`, { s: `2${'0'.repeat(16)}`, released: ';' });
    const error = await acquire(request(['a'])).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(LockStoreError);
    expect(error).toMatchObject({ retryable: false });
    expect(String(error)).toContain(
      'A newer version of nestjs-redis-lock has written this lock: update this instance, too.',
    );
    await expect(store.inspect('a')).rejects.toThrow('A newer version of nestjs-redis-lock');
  });

  it('distinguishes an owner called "-" from none', async () => {
    await acquire(request(['a'], { owner: '-' }));
    expect(await acquire(request(['a'], { owner: undefined }))).toMatchObject({ outcome: 'busy' });
    expect(await acquire(request(['a'], { owner: '-' }))).toMatchObject({ outcome: 'granted' });
    expect((await store.inspect('a')).holders.map(({ owner }) => owner)).toEqual(['-', '-']);
  });

  it('passes on the late reply to a command that timed out', async () => {
    await acquire(request(['a']));
    await redis.call('CLIENT', 'PAUSE', '400');
    const given = request(['b']);
    await expect(acquire(given, 300)).rejects.toThrow(/no answer within \d+ ms/);
    await eventually(() => late.length > 0);
    await redis.ping();
    expect(late).toEqual([expect.objectContaining({ outcome: 'granted', fencingTokens: [expect.any(Number)] })]);
  });

  it('keeps no acquire beyond its time limit because another one has more time, and asks the server first', async () => {
    await redis.call('CLIENT', 'PAUSE', '600');
    const patient = acquire(request(['a']));
    await expect(acquire(request(['b']), 200)).rejects.toThrow('within 200 ms');
    expect(await patient).toMatchObject({ outcome: 'granted' });
  });

  it('treats a release that finds no trace as done when its connection was lost meanwhile', async () => {
    await acquire(request(['a']));
    const attempt = newAttempt();
    expect(await release('a', attempt)).toMatchObject({ outcome: 'unknown' });
    const other = newAttempt();
    const releasing = release('a', other);
    redis.emit('close');
    expect(await releasing).toMatchObject({ outcome: 'again' });
  });

  it('lists the locks, and skips other keys', async () => {
    await redis.set(`${keyPrefix}x:text`, 'mine');
    for (const key of ['x:1', 'x:2', 'y:1']) await acquire(request([key]));
    const listed: string[] = [];
    for await (const { key } of store.list({ prefix: 'x:', limit: 10 })) listed.push(key);
    expect(listed.sort()).toEqual(['x:1', 'x:2']);
    const some: string[] = [];
    for await (const { key } of store.list({ prefix: '', limit: 1 })) some.push(key);
    expect(some).toHaveLength(1);
  });

  it('refuses to list with a wrong prefix or limit, and wraps errors of Redis', async () => {
    expect(() => store.list({ prefix: 5 as never, limit: 1 })).toThrow(LockConfigurationError);
    for (const limit of [0, -1, 1.5, NaN, Infinity, '3' as never]) {
      expect(() => store.list({ prefix: '', limit })).toThrow('whole number from 1');
    }
    redis.scan = () => Promise.reject(new Error('away'));
    const listing = store.list({ prefix: '', limit: 1 })[Symbol.asyncIterator]();
    await expect(listing.next()).rejects.toThrow(LockStoreError);
  });

  it('leaves no listener on a given client', async () => {
    // ioredis has listeners of its own until the client is ready.
    await redis.ping();
    const count = () => redis.eventNames().reduce((sum, name) => sum + redis.listenerCount(name), 0);
    const before = count();
    const other = open();
    await other.inspect('k');
    expect(count()).toBeGreaterThan(before);
    await other.close();
    expect(count()).toBe(before);
  });
});
