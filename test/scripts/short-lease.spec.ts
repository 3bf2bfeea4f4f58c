import { Redis } from 'ioredis';
import { NO_CLAIM, PLAIN_WRITER, type Operands, runScript, timedScripts } from './run-script.js';

const scripts = timedScripts();
const START = 1_800_000_000_000_000;

/** The shortest lease of the port. The clock of the server counts microseconds, and a lease ends with its millisecond. */
describe('a lease of one millisecond', () => {
  const key = `short-lease:${process.pid}`;
  let redis: Redis;
  let passedMicros: number;

  beforeAll(() => {
    redis = new Redis(process.env['REDIS_URL']!);
  });
  beforeEach(() => {
    passedMicros = 0;
  });
  afterEach(() => redis.unlink(key));
  afterAll(() => redis.disconnect());

  const run = async (name: 'acquire' | 'renew' | 'release', values: Operands): Promise<string> => {
    const nowMicros = String(START + passedMicros);
    const common = { lock: key, nowMicros, keepMs: 600_000, channelPrefix: `${key}:`, countReceivers: 1 };
    return (await runScript(redis, scripts[name], { ...common, ...values }))[0]!;
  };
  const attempt = (n: number): string => `client-8f2e.ab${String(n).padStart(6, '0')}`;
  const acquire = (n: number, owner: string, mode: string): Promise<string> => {
    const terms = {
      ...PLAIN_WRITER,
      owner,
      mode,
      leaseMs: 1,
      fair: 0,
      holder: 'host:1',
      ...NO_CLAIM,
    };
    return run('acquire', { attempt: attempt(n), ...terms });
  };
  const renew = (n: number, mode: string): Promise<string> =>
    run('renew', { attempt: attempt(n), token: String(START), leaseMs: 1, mode });
  const release = (n: number): Promise<string> =>
    run('release', { attempt: attempt(n), holdAtLeastMs: 0, job: '-', runOutcome: '-' });

  describe.each([
    ['for writing', '-', 'write'],
    ['for writing, by an owner', 'ann', 'write'],
    ['for reading', '-', 'read'],
  ])('%s', (_how, owner, mode) => {
    it('excludes others until its millisecond is over', async () => {
      expect(await acquire(1, owner, mode)).toBe('granted');
      passedMicros = 999;
      expect(await acquire(2, '-', 'write')).toBe('busy');
      passedMicros = 1_000;
      expect(await acquire(3, '-', 'write')).toBe('granted');
      expect(await renew(1, mode)).toBe('lost');
    });

    it('can be renewed and released within its millisecond, and not later', async () => {
      await acquire(1, owner, mode);
      passedMicros = 999;
      expect(await renew(1, mode)).toBe('renewed');
      expect(await release(1)).toBe('released');
      await acquire(2, owner, mode);
      passedMicros = 2_000;
      expect(await release(2)).toBe('expired');
    });
  });
});
