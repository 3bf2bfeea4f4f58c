import { Redis } from 'ioredis';
import { NO_CLAIM, PLAIN_WRITER, type Operands, runScript, timedScripts } from './run-script.js';

const scripts = timedScripts();
const attempt = (n: number): string => `client${n % 10}-8f2e.ab${String(n).padStart(6, '0')}`;

/** What a lock costs in Redis. */
describe('the hash of a lock', () => {
  const key = `footprint:${process.pid}`;
  let redis: Redis;
  let now = 1_800_000_000_000;

  beforeAll(() => {
    redis = new Redis(process.env['REDIS_URL']!);
  });
  afterEach(() => redis.unlink(key));
  afterAll(() => redis.disconnect());

  const run = (name: keyof typeof scripts, values: Operands): Promise<string[]> => {
    const common = { lock: key, nowMicros: `${now}000`, keepMs: 600_000, channelPrefix: `${key}:`, countReceivers: 1 };
    return runScript(redis, scripts[name], { ...common, ...values });
  };
  const acquire = (n: number, operands: Operands = {}): Promise<string[]> => {
    const plain = { ...PLAIN_WRITER, leaseMs: 30_000, waiterLeaseMs: 15_000, ...NO_CLAIM };
    return run('acquire', { attempt: attempt(n), ...plain, holder: 'host-1:4711 OrdersService.pay', ...operands });
  };
  const release = (n: number, holdAtLeastMs = 0): Promise<string[]> =>
    run('release', { attempt: attempt(n), holdAtLeastMs, job: '-', runOutcome: '-' });

  it('holds only the token and the released attempts once all holders are gone, however they ended', async () => {
    await acquire(1);
    for (const n of [2, 3, 4]) await acquire(n);
    await release(3);
    await release(1);
    now += 20_000;
    await acquire(5, { mode: 'read', owner: 'ann', waiterLeaseMs: 0 });
    await acquire(6, { mode: 'read', owner: 'ann', waiterLeaseMs: 0 });
    await release(6, 25_000);
    now += 30_000;
    await release(5);
    expect(Object.keys(await redis.hgetall(key)).sort()).toEqual(['released', 's']);
    expect(await redis.pttl(key)).toBeGreaterThan(0);
  });

  it('stays in the compact encoding, idle, held or waited for', async () => {
    await acquire(1);
    expect(await redis.object('ENCODING', key)).toBe('listpack');
    for (let n = 2; n <= 21; n++) await acquire(n, { leaseMs: 3_600_000 });
    expect(await redis.object('ENCODING', key)).toBe('listpack');
    for (let n = 21; n >= 1; n--) await release(n);
    expect(await redis.object('ENCODING', key)).toBe('listpack');
    expect(await redis.hstrlen(key, 'released')).toBeLessThanOrEqual(64);
    // The text of the key is in it; the released attempts take most of the rest.
    expect(Number(await redis.memory('USAGE', key))).toBeLessThan(300);
  });
});
