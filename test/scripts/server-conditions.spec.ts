import { Redis, type RedisOptions } from 'ioredis';
import { type StartedRedis, startRedisServer } from '../../scripts/redis.mjs';
import { type Script } from '../../lib/redis/connection/command.js';
import { callsOf, runScript, textsOf } from './run-script.js';

const KEY = 'lock:a';
const calls = callsOf({ keyPrefix: 'lock:', keepMs: 600_000 });
const REFUSED = /NOPERM|can't run this command/;
const attempt = (n: number): string => `client${n % 10}8f.ab${String(n).padStart(6, '0')}`;
/** Forms that are unknown, or shorter or longer than they may be. */
const WRONG_DATA = [
  '',
  'E',
  'A',
  'B',
  'D',
  ...['A', 'B', 'D'].map((form, i) => form + '0'.repeat([14, 37, 72][i]!)),
  `D${'0'.repeat(74)}`,
];
type Refused = [what: string, error: string, write: () => Promise<unknown>];
type Asked = Partial<Parameters<typeof calls.acquire>[0]>;

/** What games do not do to a server; it is a separate one, since these tests change its settings. */
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

  const run = async (script: Script, client = redis) => textsOf(await runScript(client, script, now * 1_000));
  const times = () => ({ sentMicros: now * 1_000, untilMicros: now * 1_000 });
  const asking = (n: number, asked: Asked = {}) => {
    const terms = {
      owner: undefined,
      mode: 'write',
      leaseMs: 30_000,
      waiterLeaseMs: 0,
      fair: true,
      permits: 0,
    } as const;
    return { keys: ['a'], attempt: attempt(n), holder: 'host-1:4711 OrdersService.pay', ...terms, ...asked };
  };
  const acquire = (n: number, asked: Asked = {}, client = redis) =>
    run(calls.alone(calls.acquire(asking(n, asked), 1_000, 0), times()), client);
  const waitFor = (n: number, asked: Asked = {}, client = redis) =>
    acquire(n, { waiterLeaseMs: 10_000, ...asked }, client);
  const releaseOf = (n: number, holdAtLeastMs = 0) =>
    calls.alone(calls.release({ key: 'a', attempt: attempt(n), holdAtLeastMs, leaseMs: 0 }, 1_000), times());
  /** Loads all that the lock has, and changes little. */
  const releaseOfUnknown = () => calls.release({ key: 'a', attempt: attempt(9), holdAtLeastMs: 0, leaseMs: 0 }, 1_000);
  const release = (n: number, client = redis, holdAtLeastMs = 0) => run(releaseOf(n, holdAtLeastMs), client);

  it('grant a lock to a holder without a text', async () => {
    await acquire(1, { holder: '' });
    expect((await acquire(2))[0]).toBe('busy');
  });

  it('report an empty text for a holder without one, and not the text of an earlier holder', async () => {
    await run(calls.setPermits('a', attempt(5), 2));
    await acquire(1);
    await release(1);
    await acquire(2, { holder: '' });
    expect((await acquire(3))[5]).toBe('');
    expect((await run(calls.inspect('a'))).slice(3)).toEqual([
      'hold',
      attempt(2),
      ...Array(9).fill(expect.anything()),
      '',
    ]);
  });

  it('execute each of several operations as they execute it alone', async () => {
    await acquire(1, { mode: 'read' });
    await acquire(2, { mode: 'read' });
    await waitFor(3);
    await run(calls.forceRelease('a', attempt(5), now * 1_000 + 10));
    await run(calls.setPermits('a', attempt(6), 2));
    await acquire(3, { leaseMs: 90_000 });
    await waitFor(4);
    const asked = calls.acquire({ ...asking(1), keys: ['c'] }, 1_000, 0);
    const behind = textsOf(await runScript(redis, calls.together([releaseOfUnknown(), asked], times()), now * 1_000));
    const together = [await redis.hgetall('lock:c'), await redis.pexpiretime('lock:c')];
    await redis.del('lock:c');
    const alone = await run(calls.alone(asked, times()));
    expect(behind[1]).toBe(String(alone));
    expect(together).toEqual([await redis.hgetall('lock:c'), await redis.pexpiretime('lock:c')]);
  });

  it.each<Refused>([
    ['a key of another type', 'WRONGTYPE', () => redis.set(KEY, 'mine')],
    ['newer data', `NEWERDATA in ${KEY}`, () => redis.hset(KEY, { s: `E${'0'.repeat(13)}`, r: ';' })],
    ['packed data of version 1', `OLDDATA in ${KEY}`, () => redis.hset(KEY, { s: '11800000000000000', released: ';' })],
    ['data of version 1', `OLDDATA in ${KEY}`, () => redis.hset(KEY, { v: '1', token: '18', released: ';' })],
    ...WRONG_DATA.map((s): Refused => [
      `${s.length} bytes '${s[0]}'`,
      `NEWERDATA in ${KEY}`,
      () => redis.hset(KEY, { s }),
    ]),
  ])('refuse %s, and write nothing', async (_what, error, write) => {
    await write();
    await redis.pexpire(KEY, 60_000);
    const before = [await redis.dumpBuffer(KEY), await redis.pexpiretime(KEY)];
    const hold = { key: 'a', attempt: attempt(1), fencingToken: 1 };
    const renewed = {
      ...hold,
      leaseMs: 30_000,
      mode: 'write',
      owner: undefined,
      holder: '',
      timeoutMs: 1_000,
    } as const;
    const each: Script[] = [
      calls.alone(calls.acquire(asking(1, { mode: 'read', waiterLeaseMs: 10_000 }), 1_000, 0), times()),
      calls.alone(calls.acquire(asking(1, { keys: ['b', 'a'] }), 1_000, 0), times()),
      releaseOf(1),
      calls.alone(calls.renew(renewed), times()),
      calls.alone(calls.renew({ ...renewed, mode: 'read', leaseMs: 0 })),
      calls.forceRelease('a', attempt(1), Number.MAX_SAFE_INTEGER),
      calls.setPermits('a', attempt(1), 2),
      calls.writeBack(hold, 2, 1_000),
      calls.adopt({ ...hold, from: attempt(2), leaseMs: 30_000, holder: 'host', unanswered: false }, 1_000),
      calls.inspect('a'),
    ];
    for (const script of each) await expect(run(script)).rejects.toThrow(error);
    expect([await redis.dumpBuffer(KEY), await redis.pexpiretime(KEY)]).toEqual(before);
    expect(await redis.exists('lock:b')).toBe(0);
  });

  it.each([
    ['command', ['-publish', 'resetchannels']],
    ['channel', ['resetchannels', '&other']],
  ])(
    'without the permission to the %s of messages, release, and a waiter gets the lock by asking',
    async (_, rights) => {
      const connect = (options: RedisOptions): Redis => {
        const client = new Redis(server.url, options);
        opened.push(client);
        return client;
      };
      await redis.acl('SETUSER', 'app', 'reset', 'on', '>secret', '~lock:*', '+@all', ...rights);
      const [app, listener, messages] = [connect({ username: 'app', password: 'secret' }), connect({}), [] as string[]];
      listener.on('message', (_channel, message) => messages.push(message));
      await listener.psubscribe('lock:wake:*');
      await acquire(1, {}, app);
      await waitFor(2, {}, app);
      await waitFor(3, {}, app);
      expect(await release(1, app)).toEqual(['released', attempt(1), `${now}`, '0', expect.any(String)]);
      expect((await waitFor(3, {}, app))[0]).toBe('busy');
      expect((await waitFor(2, {}, app))[0]).toBe('granted');
      // A dead first waiter delays the next one for at most its waiter lease.
      await release(2, app);
      now += 9_000;
      await waitFor(4, {}, app);
      now += 1_000;
      expect((await waitFor(4, {}, app))[0]).toBe('granted');
      await waitFor(5, { fair: false }, app);
      await release(4, app);
      expect((await waitFor(5, { fair: false }, app))[0]).toBe('granted');
      expect(messages).toEqual([]);
    },
  );

  describe('without the permission to set a time to live', () => {
    let app: Redis;
    beforeEach(async () => {
      await redis.acl('SETUSER', 'app', 'reset', 'on', '>secret', '~lock:*', '&*', '+@all', '-pexpire', '-pexpireat');
      app = new Redis(server.url, { username: 'app', password: 'secret' });
      opened.push(app);
    });

    it('refuse a new lock, also when it is sent again, and leave no key', async () => {
      for (const mode of ['write', 'read'] as const) {
        for (let sent = 0; sent < 2; sent++) await expect(acquire(1, { mode }, app)).rejects.toThrow(REFUSED);
      }
      await expect(release(1, app)).rejects.toThrow(REFUSED);
      expect(await redis.exists(KEY)).toBe(0);
    });

    it('refuse what needs a longer time to live, also when it is sent again, and leave the state as it was', async () => {
      await acquire(1, { leaseMs: 60_000 });
      await waitFor(2);
      const before = await redis.hgetallBuffer(KEY);
      now += 1_000;
      const long = { leaseMs: 7_200_000 };
      for (let sent = 0; sent < 2; sent++) await expect(acquire(1, long, app)).rejects.toThrow(REFUSED);
      expect(await redis.hgetallBuffer(KEY)).toEqual(before);
      expect((await acquire(1, long))[0]).toBe('granted');
    });
  });

  it.each([
    ['a named owner', { owner: 'ann' }, 0],
    ['a holder that has left early', {}, 60_000],
  ])('do not read a long queue for each waiter behind %s', async (_who, asked, holdAtLeastMs) => {
    const reads = async () => /cmdstat_hgetall:calls=(\d+)/.exec(await redis.info('commandstats'))?.[1] ?? '0';
    await acquire(1, asked);
    if (holdAtLeastMs > 0) await release(1, redis, holdAtLeastMs);
    for (let n = 2; n <= 100; n++) await waitFor(n);
    const before = await reads();
    expect((await waitFor(50))[0]).toBe('busy');
    expect((await waitFor(51, { owner: 'bob' }))[0]).toBe('busy');
    expect(await reads()).toBe(before);
  });

  it('end all of very many holds at once', async () => {
    const commands = redis.pipeline();
    const readers = Array.from({ length: 4_500 }, (_, i) => calls.acquire(asking(i, { mode: 'read' }), 1_000, 0));
    for (let i = 0; i < readers.length; i += 500) {
      const { script, operands } = calls.together(readers.slice(i, i + 500), times());
      commands.eval(script.text, ...(operands as [number]), now * 1_000);
    }
    await commands.exec();
    const all = calls.forceRelease('a', 'op.force001', Number.MAX_SAFE_INTEGER);
    expect(await run(all)).toEqual(['revoked', 'op.force001', `${now}`, '4500']);
  });

  it('report to each of many holders that an operator has ended their holds, also after changes of the permits', async () => {
    const outcomes = async (ns: readonly number[]) => {
      const all: (string | undefined)[] = [];
      for (const n of ns) all.push((await release(n))[0]);
      return [...new Set(all)];
    };
    const readers = Array.from({ length: 17 }, (_, i) => 10 + i);
    for (const n of readers) await acquire(n, { mode: 'read' });
    await run(calls.forceRelease('a', 'op.force001', Number.MAX_SAFE_INTEGER));
    expect(await outcomes(readers)).toEqual(['revoked']);
    now += 1_000;
    await acquire(1);
    await run(calls.forceRelease('a', 'op.force002', Number.MAX_SAFE_INTEGER));
    for (let n = 1; n <= 40; n++) await run(calls.setPermits('a', `op.${`permits${n}`.slice(-8)}`, n));
    now += 30_000;
    expect(await outcomes([1])).toEqual(['lost']);
  });

  describe('leave in the hash of a lock', () => {
    it('only the token and the released attempts once all holders are gone, in any way', async () => {
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
      // The text of the last holder is overwritten by the next one.
      expect(Object.keys(await redis.hgetall(KEY)).sort()).toEqual(['by', 'r', 's']);
      expect(await redis.strlen(KEY).catch(() => redis.hstrlen(KEY, 's'))).toBe(14);
      expect(await redis.pttl(KEY)).toBeGreaterThan(0);
    });

    it('what stays in the compact encoding while no call waits, and is small when the waiters have gone', async () => {
      await acquire(1);
      expect(await redis.object('ENCODING', KEY)).toBe('listpack');
      for (let n = 2; n <= 21; n++) await release(n);
      expect(await redis.hstrlen(KEY, 'r')).toBe(63);
      // The text of the holder is in it; the released attempts take most of the rest.
      expect(Number(await redis.memory('USAGE', KEY))).toBeLessThan(300);
      for (let n = 22; n <= 41; n++) await waitFor(n, { leaseMs: 3_600_000 });
      for (const n of [1, ...Array.from({ length: 20 }, (_, i) => 41 - i)]) await release(n);
      expect(Number(await redis.memory('USAGE', KEY))).toBeLessThan(450);
    });
  });
});
