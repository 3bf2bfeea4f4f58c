import { setTimeout as sleep } from 'node:timers/promises';
import { Redis, type RedisOptions } from 'ioredis';
import { type StartedRedis, startRedisServer } from '../../scripts/redis.mjs';
import { EVERY_TOKEN, NO_CLAIM, PLAIN_WRITER, type Operands, runScript, timedScripts } from './run-script.js';

const KEY = 'lock:order%3A42';
const OTHER_KEY = 'lock:order%3A43';
const BOTH = [KEY, OTHER_KEY];
const LEASE_MS = 30_000;
const KEEP_MS = 600_000;
const CHANNELS = 'wake:';

const scripts = timedScripts();
const attempt = (client: string, n: number): string => `${client}-Zx81kQp0a.${String(n).padStart(8, '0')}`;
const [A, B, C, D] = [attempt('a', 1), attempt('b', 2), attempt('c', 3), attempt('d', 4)];

/** A server of its own, since these tests change its settings. */
describe('the scripts on a server', () => {
  let server: StartedRedis;
  let redis: Redis;
  let now: number;
  const opened: Redis[] = [];

  beforeAll(async () => {
    server = await startRedisServer();
    redis = new Redis(server.url);
  });
  afterAll(async () => {
    redis.disconnect();
    await server.stop();
  });
  beforeEach(async () => {
    now = 1_800_000_000_000;
    await redis.flushall();
  });

  const run = (name: keyof typeof scripts, values: Operands, client = redis): Promise<string[]> => {
    const common = { lock: KEY, nowMicros: `${now}000`, keepMs: KEEP_MS, channelPrefix: CHANNELS, countReceivers: 1 };
    return runScript(client, scripts[name], { ...common, ...values });
  };
  const acquire = (who: string, operands: Operands = {}, client = redis): Promise<string[]> => {
    const plain = { ...PLAIN_WRITER, leaseMs: LEASE_MS, ...NO_CLAIM };
    return run('acquire', { attempt: who, ...plain, holder: 'host-1:4711 Orders.pay', ...operands }, client);
  };
  const waitFor = (who: string, operands: Operands = {}, client = redis): Promise<string[]> =>
    acquire(who, { waiterLeaseMs: 10_000, ...operands }, client);
  const release = (who: string, client = redis): Promise<string[]> =>
    run('release', { attempt: who, holdAtLeastMs: 0, job: '-', runOutcome: '-' }, client);
  const renew = (who: string, token: string): Promise<string[]> =>
    run('renew', { attempt: who, token, leaseMs: LEASE_MS, mode: 'write' });

  const acquireBoth = (who: string, operands: Operands = {}): Promise<string[]> => {
    const plain = { ...PLAIN_WRITER, leaseMs: LEASE_MS };
    return run('acquireMany', { attempt: who, ...plain, holder: 'host-1:4711 Orders.pay', ...operands, lock: BOTH });
  };
  const downgrade = (who: string, token: string): Promise<string[]> => run('downgrade', { attempt: who, token });
  const forceRelease = (who = 'operator.00000001'): Promise<string[]> =>
    run('forceRelease', { attempt: who, seenToken: EVERY_TOKEN });

  const connect = (options: RedisOptions = {}): Redis => {
    const client = new Redis(server.url, options);
    opened.push(client);
    return client;
  };
  afterEach(() => opened.splice(0).forEach((client) => client.disconnect()));

  const listening = async (...attempts: string[]): Promise<string[]> => {
    const listener = connect();
    const messages: string[] = [];
    listener.on('message', (_, message) => messages.push(message));
    await listener.subscribe(...attempts.map((who) => CHANNELS + who.split('.')[0]!));
    return messages;
  };

  describe('that is full', () => {
    const fill = () => redis.config('SET', 'maxmemory', '1');
    afterEach(() => redis.config('SET', 'maxmemory', '0'));

    it('renews and releases, and hands the lock over', async () => {
      const messages = await listening(B);
      const token = (await acquire(A))[3]!;
      await waitFor(B);
      await fill();
      now += 1_000;
      expect((await renew(A, token))[0]).toBe('renewed');
      expect((await waitFor(B))[0]).toBe('busy');
      expect((await release(A))[0]).toBe('released');
      expect((await release(A))[0]).toBe('again');
      expect((await acquire(B))[0]).toBe('granted');
      expect(messages).toHaveLength(1);
      expect((await release(B))[0]).toBe('released');
    });

    it('downgrades, and lets an operator force a release', async () => {
      const messages = await listening(A, B);
      const token = (await acquire(A))[3]!;
      await waitFor(B);
      await fill();
      expect(await downgrade(A, token)).toEqual(['downgraded', A, `${now}`]);
      expect(await forceRelease()).toEqual(['revoked', 'operator.00000001', `${now}`, '1']);
      expect(await forceRelease()).toEqual(['again', 'operator.00000001', `${now}`, '0']);
      expect((await renew(A, token))[4]).toBe('1');
      expect((await acquire(B))[0]).toBe('granted');
      expect((await release(A))[0]).toBe('revoked');
      expect(messages).toEqual([`revoked ${A}`, expect.stringMatching(`^granted ${B} `)]);
    });

    it('grants several keys only to callers that already wait for them', async () => {
      await listening(B);
      await acquire(A);
      await acquireBoth(B, { waiterLeaseMs: 10_000 });
      await fill();
      await expect(acquireBoth(C, { waiterLeaseMs: 10_000 })).rejects.toThrow('OOM');
      expect((await redis.hgetall(KEY))['tail']).toBe('1');
      await release(A);
      expect((await acquireBoth(B))[0]).toBe('granted');
    });

    it('reports a loss to a holder, and the ended lease to a late release', async () => {
      const token = (await acquire(A))[3]!;
      await fill();
      now += LEASE_MS;
      expect(await renew(A, token)).toEqual(['lost', A, `${now}`, token, '0']);
      expect((await release(A))[0]).toBe('unknown');
      expect(await redis.hkeys(KEY)).toEqual(['s', 'by', 'released']);
    });

    it('refuses a new lock and leaves no key', async () => {
      await fill();
      await expect(acquire(A)).rejects.toThrow('OOM');
      await expect(waitFor(A)).rejects.toThrow('OOM');
      expect(await redis.exists(KEY)).toBe(0);
    });

    it('refuses a new waiter and a new holder without a trace', async () => {
      await acquire(A);
      const before = await redis.hgetall(KEY);
      await fill();
      await expect(waitFor(B)).rejects.toThrow('OOM');
      await expect(acquire(C)).rejects.toThrow('OOM');
      expect(await redis.hgetall(KEY)).toEqual(before);
    });
  });

  it('are loaded again after SCRIPT FLUSH', async () => {
    const token = (await acquire(A))[3]!;
    await redis.script('FLUSH');
    expect((await renew(A, token))[0]).toBe('renewed');
    expect((await release(A))[0]).toBe('released');
  });

  describe('where the user may not publish', () => {
    const limited = async (): Promise<Redis> => {
      await redis.acl('SETUSER', 'app', 'reset', 'on', '>secret', '~lock:*', '+@all', '-publish', 'resetchannels');
      return connect({ username: 'app', password: 'secret' });
    };
    const limitedToOtherChannels = async (): Promise<Redis> => {
      await redis.acl('SETUSER', 'app', 'reset', 'on', '>secret', '~lock:*', '+@all', 'resetchannels', '&other');
      return connect({ username: 'app', password: 'secret' });
    };

    it.each([
      ['command', limited],
      ['channel', limitedToOtherChannels],
    ])('without a right to the %s, they release, and a waiter gets the lock by asking', async (_, connectLimited) => {
      const messages = await listening(A, B, C);
      const app = await connectLimited();
      await acquire(A, {}, app);
      await waitFor(B, {}, app);
      await waitFor(C, {}, app);
      expect(await release(A, app)).toEqual(['released', A, `${now}`, '0', expect.any(String), '']);
      expect((await waitFor(C, {}, app))[0]).toBe('busy');
      expect((await waitFor(B, {}, app))[0]).toBe('granted');
      // A dead first waiter holds the next one up for its waiter lease and no longer.
      await release(B, app);
      now += 9_000;
      await waitFor(D, {}, app);
      now += 1_000;
      expect((await waitFor(D, {}, app))[0]).toBe('granted');
      expect(messages).toEqual([]);
    });

    it('an unfair waiter gets it by asking, too', async () => {
      const app = await limited();
      await acquire(A, {}, app);
      await waitFor(B, { fair: 0 }, app);
      await release(A, app);
      expect((await waitFor(B, { fair: 0 }, app))[0]).toBe('granted');
    });
  });

  it('write nothing to a key of another type', async () => {
    await redis.set(KEY, 'mine', 'PX', 60_000);
    const expiry = await redis.pexpiretime(KEY);
    for (const command of [
      () => acquire(A),
      () => waitFor(A),
      () => acquireBoth(A),
      () => release(A),
      () => renew(A, '1'),
      () => downgrade(A, '1'),
      () => forceRelease(),
    ]) {
      await expect(command()).rejects.toThrow('WRONGTYPE');
    }
    await expect(run('inspect', {})).rejects.toThrow('WRONGTYPE');
    expect([await redis.get(KEY), await redis.pexpiretime(KEY)]).toEqual(['mine', expiry]);
  });

  it.each([
    ['packed', { s: '21800000000000000', released: ';' }],
    ['with fields', { v: '2', token: '1800000000000000', released: ';' }],
  ])('refuse the data of a newer version, %s, and write nothing', async (_, fields) => {
    await redis.hset(KEY, fields);
    await redis.pexpire(KEY, 60_000);
    const expiry = await redis.pexpiretime(KEY);
    for (const command of [
      () => acquire(A),
      () => waitFor(A, { mode: 'read' }),
      () => acquireBoth(A),
      () => release(A),
      () => renew(A, '1'),
      () => downgrade(A, '1'),
      () => forceRelease(),
      () => run('writeBack', { attempt: A, token: '1', newToken: '2' }),
      () => run('inspect', {}),
    ]) {
      await expect(command()).rejects.toThrow(`NEWERDATA in ${KEY}`);
    }
    expect([await redis.hgetall(KEY), await redis.pexpiretime(KEY)]).toEqual([fields, expiry]);
    expect(await redis.exists(OTHER_KEY)).toBe(0);
  });

  it('write nothing to several keys when one is of another type', async () => {
    await acquire(A);
    await redis.set(OTHER_KEY, 'mine');
    const before = await redis.hgetall(KEY);
    now += LEASE_MS;
    await expect(acquireBoth(B, { waiterLeaseMs: 10_000 })).rejects.toThrow('WRONGTYPE');
    expect(await redis.hgetall(KEY)).toEqual(before);
  });

  it.each([
    ['fair', 1, [B]],
    ['unfair', 0, [B, C]],
  ])('do not wake a waiter for another key again, %s', async (_, fair, called) => {
    const messages = await listening(B, C);
    await acquire(D, { lock: OTHER_KEY });
    await acquire(A);
    for (const who of [B, C]) await acquireBoth(who, { waiterLeaseMs: 10_000, fair });
    await release(A);
    for (const who of [B, C, B, C]) expect((await acquireBoth(who, { waiterLeaseMs: 10_000, fair }))[0]).toBe('busy');
    await sleep(50);
    expect(messages).toEqual(called.map((who) => `wake ${who}`));
  });

  describe('keep the key', () => {
    it('as long as the longest lease in it, and at least for keepMs', async () => {
      await acquire(A);
      expect(await redis.pttl(KEY)).toBeGreaterThan(KEEP_MS - 5_000);
      await acquire(B, { leaseMs: 7_200_000 });
      await release(A);
      await acquire(C, { leaseMs: 7_200_000 });
      expect(await redis.pttl(KEY)).toBeGreaterThan(7_195_000);
      // Who waits must not shorten it.
      await waitFor(B);
      await waitFor(B);
      expect(await redis.pttl(KEY)).toBeGreaterThan(7_195_000);
    });

    it('as long as a hold is parked', async () => {
      await acquire(A);
      await run('release', { attempt: A, holdAtLeastMs: 7_200_000, job: '-', runOutcome: '-' });
      expect(await redis.pttl(KEY)).toBeGreaterThan(7_195_000);
      now += 7_199_999;
      expect((await acquire(B))[0]).toBe('busy');
      now += 1;
      expect((await acquire(B))[0]).toBe('granted');
    });

    it('never without an expiry, even for an unknown attempt', async () => {
      expect((await release(A))[0]).toBe('unknown');
      expect(await redis.pttl(KEY)).toBeGreaterThan(KEEP_MS - 5_000);
      expect((await acquire(A)).slice(0, 2)).toEqual(['refused', A]);
    });

    it('untouched when there is nothing to renew, downgrade or revoke', async () => {
      expect((await renew(A, '1'))[0]).toBe('lost');
      expect((await downgrade(A, '1'))[0]).toBe('lost');
      expect((await forceRelease())[3]).toBe('0');
      expect(await redis.exists(KEY)).toBe(0);
    });
  });
});
