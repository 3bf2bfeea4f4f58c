import { openArena } from './arena.js';
import { NO_CLAIM, runScript, timedScripts } from './run-script.js';
import { CLIENTS } from './random-steps.js';

const [WAITING, HOLDING] = CLIENTS;

describe('a hand-over to very many waiters', () => {
  it('grants to 64 in one script and calls the next, whose script goes on', async () => {
    const arena = await openArena(timedScripts(), 'hand-over');
    const { redis, scripts, channelPrefix } = arena;
    const lock = `hand-over:${process.pid}`;
    const common = { lock, nowMicros: '1800000000000000', keepMs: 10_000, channelPrefix, countReceivers: 1 };
    const terms = {
      owner: '-',
      leaseMs: 10_000,
      waiterLeaseMs: 6_000,
      fair: 1,
      permits: 0,
      holder: 'host:1',
      ...NO_CLAIM,
    };
    const acquire = (attempt: string, mode: string): Promise<string[]> =>
      runScript(redis, scripts.acquire, { ...common, ...terms, attempt, mode });
    const reader = (i: number): string => `${WAITING}.${String(i).padStart(6, '0')}`;
    try {
      await acquire(`${HOLDING}.000001`, 'write');
      for (let i = 1; i <= 200; i++) await acquire(reader(i), 'read');
      const release = { ...common, attempt: `${HOLDING}.000001`, holdAtLeastMs: 0, job: '-', runOutcome: '-' };
      await runScript(redis, scripts.release, release);
      const kinds = async () => (await arena.published()).map((message) => message.split(' ').slice(1, 3).join(' '));
      const granted = (from: number, to: number) =>
        Array.from({ length: to - from + 1 }, (_, i) => `granted ${reader(from + i)}`);
      expect(await kinds()).toEqual([...granted(1, 64), `wake ${reader(65)}`]);
      expect((await acquire(reader(65), 'read'))[0]).toBe('granted');
      expect(await kinds()).toEqual([...granted(66, 129), `wake ${reader(130)}`]);
      await acquire(reader(130), 'read');
      expect(await kinds()).toEqual([...granted(131, 194), `wake ${reader(195)}`]);
      await acquire(reader(195), 'read');
      expect(await kinds()).toEqual(granted(196, 200));
    } finally {
      await redis.unlink(lock);
      await arena.close();
    }
  });
});
