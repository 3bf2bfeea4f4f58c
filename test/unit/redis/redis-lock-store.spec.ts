import { AsyncLocalStorage } from 'node:async_hooks';
import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import { systemClock } from '../../../lib/core/clock.js';
import { LockStoreError } from '../../../lib/core/lock.errors.js';
import { type AcquireReply, type AcquireRequest } from '../../../lib/core/store/lock-store.js';
import { RedisLockStore } from '../../../lib/redis/redis-lock-store.js';
import { createLockScripts } from '../../../lib/redis/scripts/lock-scripts.js';
import { closeAll } from '../../support/apps/lock-app.js';
import { proxyTo } from '../../support/redis/own-redis.js';
import { eventually } from '../../support/waiting/eventually.js';
import { systemRandomness } from '../../../lib/core/randomness.js';
import { systemAfterTurn } from '../../../lib/core/runtime.js';

const ignore = (): void => undefined;
const reporter = { debug: ignore, warn: ignore, error: ignore };
const TIMEOUT_MS = 2_000;
const WISH = { mode: 'write', owner: undefined, holder: 'web-1:42', leaseMs: 10_000 } as const;

const isScript = (command: unknown): boolean => command === 'evalsha' || command === 'eval';

describe('the store on Redis', () => {
  let app: Redis;
  /** The connection over which the store sends its commands. */
  let redis: Redis;
  let keyPrefix: string;
  let store: RedisLockStore;
  let attempts = 0;
  const late: AcquireReply[] = [];

  const open = (minReplicas = 0, connection: Redis | string = app): RedisLockStore =>
    new RedisLockStore({
      connection,
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
  const release = (key: string, attempt: string, timeoutMs = TIMEOUT_MS) =>
    store.release({ key, attempt, holdAtLeastMs: 0, leaseMs: 10_000 }, timeoutMs);
  beforeEach(async () => {
    app = new Redis(process.env['REDIS_URL']!, { lazyConnect: true });
    const duplicate = jest.spyOn(app, 'duplicate');
    keyPrefix = `${randomUUID()}:`;
    store = open();
    await store.inspect('a');
    redis = duplicate.mock.results.at(-1)!.value as Redis;
    late.length = 0;
    store.listen({ onWakeUp: ignore, onListening: ignore, onMessagesMissed: ignore });
  });
  afterEach(async () => {
    await store.close();
    app.disconnect();
    await closeAll();
  });

  it.each([
    ['that refuses commands for several locks, with any text', (keys: number) => keys > 1, 1],
    ['that refuses them because of one lock', (keys: number, own: string) => keys > 1 || own.includes('bad'), 3],
  ])('learns from a server %s', async (_what, isRefused, refusals) => {
    const warn = jest.spyOn(reporter, 'warn').mockClear();
    let refused = 0;
    const send = redis.call.bind(redis) as (...words: unknown[]) => Promise<unknown>;
    jest.spyOn(redis, 'call').mockImplementation((...words: unknown[]) => {
      const [command, , keys, first] = words;
      if (!isScript(command) || !isRefused(Number(keys), String(first))) return send(...words);
      // The check of the server at its start uses EVAL.
      if (command === 'evalsha' && Number(keys) > 1) refused += 1;
      return Promise.reject(Object.assign(new Error('ERR proxy: keys of one shard only'), { name: 'ReplyError' }));
    });
    for (let round = 1; round <= 3; round += 1) {
      const replies = ['a', 'b', 'bad'].map((key) => acquire(request([`${key}${round}`])).catch(() => null));
      expect((await Promise.all(replies)).slice(0, 2)).toMatchObject([{ outcome: 'granted' }, { outcome: 'granted' }]);
    }
    expect(refused).toBe(refusals);
    expect(warn.mock.calls).toEqual(
      refusals === 1 ? [[expect.stringMatching(/^Redis accepts no command for several locks \(ERR proxy: /)]] : [],
    );
  });

  it('gives back a grant that no replica confirms, and its fire', async () => {
    const careful = open(1);
    const at = { job: 'Jobs.run', kind: 'at', ms: 60_000 } as const;
    const claim = { ...at, calledAt: 0, rememberMs: 120_000, rerunOnLoss: false };
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
    const several = await careful.acquire(request(['a', 'b']), TIMEOUT_MS, ignore);
    expect(several).toMatchObject({ outcome: 'given-back' });
    expect(await acquire(request(['a', 'b']))).toMatchObject({ outcome: 'granted' });
    await careful.close();
  });

  it('never rejects a renewal', async () => {
    const hold = { ...WISH, key: 'a', attempt: newAttempt(), fencingToken: 1, timeoutMs: TIMEOUT_MS };
    await redis.set(`${keyPrefix}b`, 'mine');
    const replies = await store.renew([hold, { ...hold, key: 'b' }, { ...hold, mode: undefined as never }]);
    expect(replies.map(({ outcome }) => outcome)).toEqual(['lost', 'unknown', 'unknown']);
  });

  it('gives advice when a newer version has written the lock, and does not try again', async () => {
    await redis.hset(`${keyPrefix}a`, { s: `E${'\0'.repeat(20)}`, r: ';' });
    const error = await acquire(request(['a'])).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(LockStoreError);
    expect(error).toMatchObject({ retryable: false });
    expect(String(error)).toContain(
      'A newer version of nestjs-redis-lock has written this lock: also update this instance.',
    );
    await expect(store.inspect('a')).rejects.toThrow('A newer version of nestjs-redis-lock');
  });

  it('passes on the late reply to a command that timed out, to each call that travels in it', async () => {
    // On a connection that is always slow, so that it is not replaced.
    const proxy = await proxyTo();
    proxy.delayMs = 400;
    await store.close();
    store = open(0, proxy.url);
    await acquire(request(['a']), 10_000);
    proxy.delayMs = 800;
    const calls = ['b', 'c'].map((key) => acquire(request([key]), 700));
    for (const call of calls) await expect(call).rejects.toThrow(/no answer within \d+ ms/);
    await eventually(() => late.length > 1);
    const grant = { outcome: 'granted', fencingTokens: [expect.any(Number)] };
    expect(late).toEqual([expect.objectContaining(grant), expect.objectContaining(grant)]);
  });

  describe('and calls of one turn, which travel together', () => {
    // A script that the server does not have is sent again, behind the others.
    beforeEach(async () => {
      for (const text of Object.values(createLockScripts())) await redis.script('LOAD', text);
    });

    const outcomesOf = (calls: Promise<unknown>[]): Promise<unknown[]> =>
      Promise.all(calls.map((call) => call.catch((error: unknown) => error)));
    const granted = expect.objectContaining({ outcome: 'granted' });
    const failed = (key: string) => expect.objectContaining({ code: 'LOCK_STORE', key });

    it('grants the other locks when one fails', async () => {
      await redis.set(`${keyPrefix}b`, 'mine');
      const calls = ['a', 'b', 'c'].map((key) => acquire(request([key])));
      expect(await outcomesOf(calls)).toEqual([granted, failed('b'), granted]);
    });

    it('grants the other locks when Redis refuses the whole command for one', async () => {
      await redis.acl('SETUSER', 'app', 'reset', 'on', '>secret', `~${keyPrefix}a`, '&*', '+@all');
      await redis.auth('app', 'secret');
      const calls = ['b', 'a', 'c'].map((key) => acquire(request([key])));
      expect(await outcomesOf(calls)).toEqual([failed('b'), granted, failed('c')]);
      const again = ['b', 'c'].map((key) => acquire(request([key])));
      expect(await outcomesOf(again)).toEqual([failed('b'), failed('c')]);
    });

    it('names the lock of each call in its error when there is no connection', async () => {
      const away = open(0, 'redis://127.0.0.1:1');
      const terms = { attempt: newAttempt(), holdAtLeastMs: 0, leaseMs: 10_000 };
      const calls = ['a', 'b'].map((key) => away.release({ ...terms, key }, 50));
      expect(await outcomesOf(calls)).toEqual([failed('a'), failed('b')]);
      await away.close();
    });

    it('keeps the order of the calls for one lock, whatever their time limits', async () => {
      const asked = request(['k']);
      await acquire(asked);
      const calls = [acquire(request(['x'])), release('k', asked.attempt, 3_000), acquire(request(['k']))];
      expect(await outcomesOf(calls)).toEqual([granted, expect.objectContaining({ outcome: 'released' }), granted]);
    });

    it('sends an acquire of several locks behind the calls before it', async () => {
      const asked = request(['k']);
      await acquire(asked);
      const calls = [release('k', asked.attempt), acquire(request(['k', 'm']))];
      expect(await outcomesOf(calls)).toEqual([expect.objectContaining({ outcome: 'released' }), granted]);
    });

    it('sends one in the context of its caller, and several without a context', async () => {
      const [context, contexts] = [new AsyncLocalStorage<string>(), [] as (string | undefined)[]];
      const send = redis.call.bind(redis) as (...words: unknown[]) => Promise<unknown>;
      jest.spyOn(redis, 'call').mockImplementation((...words: unknown[]) => {
        if (isScript(words[0])) contexts.push(context.getStore());
        return send(...words);
      });
      await acquire(request(['first']));
      contexts.length = 0;
      const acquireIn = (name: string) => context.run(name, () => acquire(request([name])));
      await acquireIn('a');
      await Promise.all([acquireIn('b'), acquireIn('c')]);
      await Promise.all(Array.from({ length: 17 }, (_, i) => acquireIn(`k${i}`)));
      expect(contexts).toEqual(['a', undefined, undefined, undefined]);
    });

    it('sends at most 64 of them in one command, and each has the answer to its own', async () => {
      const sent = jest.spyOn(redis, 'call');
      await acquire(request(['first']));
      const asked = Array.from({ length: 130 }, (_, i) => request([`k${i}`]));
      const holds = (await Promise.all(asked.map((one) => acquire(one)))).map((reply, i) => ({
        ...WISH,
        key: `k${i}`,
        attempt: asked[i]!.attempt,
        fencingToken: (reply as any).fencingTokens[0],
        timeoutMs: TIMEOUT_MS,
      }));
      await redis.unlink(`${keyPrefix}k7`, `${keyPrefix}k99`);
      sent.mockClear();
      const renewed = await store.renew(holds);
      expect(renewed.flatMap(({ outcome }, i) => (outcome === 'renewed' ? [] : [`${i} ${outcome}`]))).toEqual([
        '7 lost',
        '99 lost',
      ]);
      const scripts = sent.mock.calls.filter(([command]) => isScript(command));
      expect(scripts.map(([, , keys]) => Number(keys))).toEqual([64, 64, 2]);
    });
  });

  it('asks the server for its time once for simultaneous acquires, and sends each of them once', async () => {
    const sent = jest.spyOn(redis, 'call');
    await Promise.all(['a', 'b'].map((key) => acquire(request([key]))));
    const names = sent.mock.calls.map(([command]) => command.toLowerCase());
    expect(names.filter((name) => ['time', 'evalsha'].includes(name))).toEqual(['time', 'evalsha']);
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
    redis.disconnect();
    expect(await releasing).toMatchObject({ outcome: 'again' });
  });

  it('wraps errors of Redis when it lists', async () => {
    jest.spyOn(redis, 'call').mockRejectedValue(new Error('away'));
    const listing = store.list({ prefix: '', limit: 1 })[Symbol.asyncIterator]();
    await expect(listing.next()).rejects.toThrow(LockStoreError);
  });
});
