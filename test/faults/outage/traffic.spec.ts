import { Logger } from '@nestjs/common';
import { eventually } from '../../support/waiting/eventually.js';
import { ownRedis, proxyTo } from '../../support/redis/own-redis.js';
import { type LockApp, closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { untilFree } from '../../support/waiting/waiters.js';
import { queued } from '../../support/redis/records.js';
import { rejection } from '../../support/waiting/rejection.js';

/** Of each kind ten within ten seconds, and their number; the machine may need many times ten seconds. */
const MAX_LINES = 300;

/** So many that an outage with a timer, a loop or a line for each would show. */
const CALLS = 3_000;

const ofEvery = (ms: number): Promise<void> => new Promise((resolve) => void setTimeout(resolve, ms));

/**
 * Calls by the thousand, ten at a time; gives how they ended, how many timers there were at most that are not theirs, and how
 * many releases.
 */
async function traffic(app: LockApp, call: (i: number) => Promise<unknown>) {
  let [otherTimers, releases] = [0, 0];
  const look = (): void => {
    const { timers, waiting, locks, releasing } = app.locker.live;
    // Each call that is under way has one for its limit and one for its next try, and each lock one for its watchdog.
    otherTimers = Math.max(otherTimers, timers - 2 * waiting - locks);
    releases = Math.max(releases, releasing);
  };
  const calls: Promise<unknown>[] = [];
  while (calls.length < CALLS) {
    for (let i = 0; i < 10; i += 1) calls.push(call(calls.length).catch((error: { code: string }) => error.code));
    await ofEvery(10);
    look();
  }
  const outcomes = await Promise.all(calls);
  look();
  return { otherTimers, releases, outcomes };
}

describe('an outage with traffic', () => {
  let lines: string[] = [];
  beforeEach(() => {
    lines = [];
    for (const level of ['warn', 'error'] as const) {
      jest.spyOn(Logger.prototype, level).mockImplementation((...[line]: unknown[]) => void lines.push(String(line)));
    }
  });
  afterEach(async () => {
    await closeAll();
    jest.restoreAllMocks();
  });

  it('uses a bounded number of timers, releases and log lines while connections are refused', async () => {
    const proxy = await proxyTo();
    proxy.refuse(true);
    const app = await startApp({ connection: proxy.url });
    const { otherTimers, releases, outcomes } = await traffic(app, () =>
      app.locks.acquire(freshKey(), { leaseMs: 2_000, waitMs: 0 }),
    );
    expect(new Set(outcomes)).toEqual(new Set(['LOCK_STORE']));
    expect(otherTimers).toBeLessThanOrEqual(5);
    // Nothing was ever sent.
    expect(releases).toBe(0);
    expect(lines.length).toBeLessThanOrEqual(MAX_LINES);
    proxy.refuse(false);
    const lock = await eventually(() => app.locks.tryAcquire(freshKey()));
    expect(lock).toMatchObject({ held: true });
  }, 120_000);

  it('gives back what it can when Redis is back, if it began while calls were under way', async () => {
    const { url, admin } = await ownRedis();
    const proxy = await proxyTo(url);
    const [app, other] = [
      await startApp({ connection: proxy.url, leaseMs: 600_000 }),
      await startApp({ connection: url }),
    ];
    const [held, busy] = [0, 1].map(() => Array.from({ length: 200 }, () => freshKey()));
    const locks = await Promise.all(held!.map((key) => app.locks.acquire(key)));
    await Promise.all(busy!.map((key) => other.locks.acquire(key)));
    const abort = new AbortController();
    const waits = busy!.map((key) => rejection(app.locks.acquire(key, { signal: abort.signal })));
    await eventually(async () => (await queued(admin, busy!.at(-1)!)) === 1);

    const options = { leaseMs: 2_000, waitMs: 0 };
    const calls = traffic(app, (i) => {
      if (i === 500) proxy.blackhole(true);
      return app.locks.acquire(freshKey(), options);
    });
    await eventually(() => app.locker.live.releasing > 0);
    abort.abort();
    const releases = locks.map((lock) => lock.release());
    const { otherTimers, outcomes } = await calls;
    await Promise.all([...waits, ...releases]);
    expect(outcomes.slice(-1_000)).toEqual(Array.from({ length: 1_000 }, () => 'LOCK_STORE'));
    // The releases of the holders are waited for, with a limit each.
    expect(otherTimers).toBeLessThanOrEqual(locks.length + 5);

    proxy.blackhole(false);
    await eventually(() => app.locker.live.releasing === 0, { timeoutMs: 30_000 });
    expect(lines.length).toBeLessThanOrEqual(MAX_LINES);
    await Promise.all(held!.map((key) => untilFree(other, key)));
    expect(await Promise.all(busy!.map((key) => queued(admin, key)))).toEqual(busy!.map(() => 0));
  }, 120_000);
});
