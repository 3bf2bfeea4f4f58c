import { Redis, type RedisOptions } from 'ioredis';
import { type StartedRedis, startRedisServer } from '../../scripts/redis.mjs';
import { EVERY_TOKEN, NO_CLAIM, PLAIN_WRITER, type Operands, runScript, timedScripts } from './run-script.js';

const KEY = 'lock:order%3A42';
const OTHER_KEY = 'lock:order%3A43';
const KEEP_MS = 600_000;

const scripts = timedScripts();
const attempt = (n: number): string => `client${n % 10}-8f2e.ab${String(n).padStart(6, '0')}`;

/** What games do not do to a server; it is one of its own, since these tests change its settings. */
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
  afterEach(() => opened.splice(0).forEach((client) => client.disconnect()));

  const run = (name: keyof typeof scripts, values: Operands, client = redis): Promise<string[]> => {
    const common = { lock: KEY, nowMicros: `${now}000`, keepMs: KEEP_MS, channelPrefix: 'wake:', countReceivers: 1 };
    return runScript(client, scripts[name], { ...common, ...values });
  };
  const terms = { ...PLAIN_WRITER, leaseMs: 30_000, holder: 'host-1:4711 OrdersService.pay' };
  const acquire = (n: number, operands: Operands = {}, client = redis): Promise<string[]> =>
    run('acquire', { attempt: attempt(n), ...terms, ...NO_CLAIM, ...operands }, client);
  const waitFor = (n: number, operands: Operands = {}, client = redis): Promise<string[]> =>
    acquire(n, { waiterLeaseMs: 10_000, ...operands }, client);
  const release = (n: number, client = redis, holdAtLeastMs = 0): Promise<string[]> =>
    run('release', { attempt: attempt(n), holdAtLeastMs, job: '-', runOutcome: '-' }, client);

  const EACH: Readonly<Record<string, Operands>> = {
    acquire: { ...terms, ...NO_CLAIM, mode: 'read', waiterLeaseMs: 10_000 },
    acquireMany: { ...terms, lock: [OTHER_KEY, KEY] },
    release: { holdAtLeastMs: 0, job: '-', runOutcome: '-' },
    renew: { token: '1', leaseMs: 30_000, mode: 'write' },
    downgrade: { token: '1' },
    forceRelease: { seenToken: EVERY_TOKEN },
    setPermits: { permits: 2 },
    writeBack: { token: '1', newToken: '2' },
    adopt: { from: attempt(2), token: '1', leaseMs: 30_000, holder: 'host' },
    inspect: {},
  };

  it.each([
    ['a key of another type', 'WRONGTYPE', () => redis.set(KEY, 'mine')],
    ['newer data, packed', `NEWERDATA in ${KEY}`, () => redis.hset(KEY, { s: '21800000000000000', released: ';' })],
    ['newer data without `released`', `NEWERDATA in ${KEY}`, () => redis.hset(KEY, { v: '99', writes: '1' })],
    ['newer data with fields', `NEWERDATA in ${KEY}`, () => redis.hset(KEY, { v: '2', token: '18', released: ';' })],
  ])('refuse %s, and write nothing', async (_what, error, write) => {
    await write();
    await redis.pexpire(KEY, 60_000);
    const before = [await redis.dumpBuffer(KEY), await redis.pexpiretime(KEY)];
    for (const [name, operands] of Object.entries(EACH)) {
      await expect(run(name as keyof typeof scripts, { attempt: attempt(1), ...operands })).rejects.toThrow(error);
    }
    await expect(acquire(1)).rejects.toThrow(error);
    expect([await redis.dumpBuffer(KEY), await redis.pexpiretime(KEY)]).toEqual(before);
    expect(await redis.exists(OTHER_KEY)).toBe(0);
  });

  it.each([
    ['command', ['-publish', 'resetchannels']],
    ['channel', ['resetchannels', '&other']],
  ])('without a right to the %s of messages, release, and a waiter gets the lock by asking', async (_, rights) => {
    const connect = (options: RedisOptions): Redis => {
      const client = new Redis(server.url, options);
      opened.push(client);
      return client;
    };
    await redis.acl('SETUSER', 'app', 'reset', 'on', '>secret', '~lock:*', '+@all', ...rights);
    const [app, listener, messages] = [connect({ username: 'app', password: 'secret' }), connect({}), [] as string[]];
    listener.on('message', (_channel, message) => messages.push(message));
    await listener.psubscribe('wake:*');
    await acquire(1, {}, app);
    await waitFor(2, {}, app);
    await waitFor(3, {}, app);
    expect(await release(1, app)).toEqual(['released', attempt(1), `${now}`, '0', expect.any(String), '']);
    expect((await waitFor(3, {}, app))[0]).toBe('busy');
    expect((await waitFor(2, {}, app))[0]).toBe('granted');
    // A dead first waiter holds the next one up for its waiter lease and no longer.
    await release(2, app);
    now += 9_000;
    await waitFor(4, {}, app);
    now += 1_000;
    expect((await waitFor(4, {}, app))[0]).toBe('granted');
    await waitFor(5, { fair: 0 }, app);
    await release(4, app);
    expect((await waitFor(5, { fair: 0 }, app))[0]).toBe('granted');
    expect(messages).toEqual([]);
  });

  describe('leave in the hash of a lock', () => {
    it('only the token and the released attempts once all holders are gone, however they ended', async () => {
      await acquire(1);
      for (const n of [2, 3, 4]) await waitFor(n, { waiterLeaseMs: 15_000 });
      await release(3);
      await release(1);
      now += 20_000;
      await acquire(5, { mode: 'read', owner: 'ann' });
      await acquire(6, { mode: 'read', owner: 'ann' });
      await release(6, redis, 25_000);
      now += 30_000;
      await release(5);
      expect(Object.keys(await redis.hgetall(KEY)).sort()).toEqual(['released', 's']);
      expect(await redis.pttl(KEY)).toBeGreaterThan(0);
    });

    it('what stays in the compact encoding, idle, held or waited for', async () => {
      await acquire(1);
      expect(await redis.object('ENCODING', KEY)).toBe('listpack');
      for (let n = 2; n <= 21; n++) await waitFor(n, { leaseMs: 3_600_000 });
      expect(await redis.object('ENCODING', KEY)).toBe('listpack');
      for (let n = 21; n >= 1; n--) await release(n);
      expect(await redis.object('ENCODING', KEY)).toBe('listpack');
      expect(await redis.hstrlen(KEY, 'released')).toBeLessThanOrEqual(64);
      // The text of the key is in it; the released attempts take most of the rest.
      expect(Number(await redis.memory('USAGE', KEY))).toBeLessThan(300);
    });
  });
});
