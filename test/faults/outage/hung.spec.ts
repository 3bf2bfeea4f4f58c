import { LockStoreError } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { ownRedis } from '../../support/redis/own-redis.js';
import { type LockApp, closeAll, closeLater, freshKey, openAdmin, startApp } from '../../support/apps/lock-app.js';
import { startVip } from '../../support/network/vip.js';
import { rejection } from '../../support/waiting/rejection.js';
import { ownSentinels } from '../../support/redis/own-topologies.js';

/** Calls of a process that does not know that its server hangs, all the time. */
function keepCalling({ locks }: LockApp) {
  const errors: unknown[] = [];
  const call = () =>
    locks.withLock(freshKey(), { waitMs: 0, leaseMs: 4_000 }, () => undefined).catch((error) => errors.push(error));
  const timer = setInterval(() => void call(), 100);
  closeLater({ close: async () => clearInterval(timer) });
  return { errors, stop: () => clearInterval(timer) };
}

/** Waits until a lock can be had. */
async function untilBack({ locks }: LockApp): Promise<void> {
  const isBack = () => locks.withLock(freshKey(), { waitMs: 0, leaseMs: 4_000 }, () => true).catch(() => false);
  await eventually(isBack, { timeoutMs: 25_000, message: 'No lock could be had' });
}

const sleepUntil = (at: number) => eventually(() => performance.now() >= at, { timeoutMs: 60_000 });

describe('a server that accepts connections and answers nothing', () => {
  afterEach(closeAll);

  it.each([1_000, 5_000])(
    'grants locks again soon after %i ms without answers',
    async (ms) => {
      const { pid, url } = await ownRedis();
      const app = await startApp({ connection: url });
      await app.locks.withLock(freshKey(), () => undefined);
      const { stop } = keepCalling(app);
      process.kill(pid, 'SIGSTOP');
      await sleepUntil(performance.now() + ms);
      process.kill(pid, 'SIGCONT');
      await untilBack(app);
      stop();
    },
    60_000,
  );

  it('gets new connections when those of that time stay dead', async () => {
    const { port } = await ownRedis();
    const vip = closeLater(await startVip(port));
    const app = await startApp({ connection: vip.url });
    await app.locks.withLock(freshKey(), () => undefined);
    const { stop } = keepCalling(app);
    vip.target = null;
    vip.forget();
    await eventually(() => vip.accepted >= 3, { timeoutMs: 20_000 });
    vip.target = port;
    await untilBack(app);
    stop();
  }, 60_000);

  it('grants locks soon after it recovers when it hung from the start', async () => {
    const { port } = await ownRedis();
    const vip = closeLater(await startVip(null));
    const app = await startApp({ connection: vip.url });
    const error = await rejection<LockStoreError>(app.locks.acquire(freshKey(), { waitMs: 0 }));
    expect(error).toMatchObject({ code: 'LOCK_STORE', retryable: true });
    vip.target = port;
    await untilBack(app);
  }, 60_000);
});

describe('a hung master behind sentinels', () => {
  afterEach(closeAll);

  it('is replaced by the new master, and runs no command when it wakes', async () => {
    const topology = await ownSentinels();
    const { connection, master, replicas } = topology;
    const app = await startApp({ connection });
    await app.locks.withLock(freshKey(), () => undefined);
    const calls = keepCalling(app);
    await master.kill('SIGSTOP');
    // A quick failover leaves only the calls of its first second without an answer.
    await eventually(() => calls.errors.length > 2, { timeoutMs: 20_000 });
    // A new process is at home on the new master at once.
    const other = await eventually(
      async () => {
        const started = await startApp({ connection });
        const works = await started.locks.withLock(freshKey(), { waitMs: 0 }, () => true).catch(() => false);
        return works && started;
      },
      { timeoutMs: 30_000 },
    );
    await untilBack(app);
    calls.stop();
    const held = await other.locks.acquire('held', { leaseMs: 20_000 });
    await master.kill('SIGCONT');
    const deadline = performance.now() + 3_000;
    while (performance.now() < deadline) {
      expect(await app.locks.tryAcquire('held').catch(() => null)).toBeNull();
    }
    expect(replicas).toHaveLength(2);
    expect(held.held).toBe(true);
  }, 120_000);
});

describe('a hanging sentinel', () => {
  afterEach(closeAll);

  it('is skipped', async () => {
    const topology = await ownSentinels();
    const { connection, sentinels, master } = topology;
    const app = await startApp({ connection });
    await app.locks.withLock(freshKey(), () => undefined);
    for (const sentinel of sentinels.slice(0, 2)) await sentinel.kill('SIGSTOP');
    await openAdmin(master.url).call('CLIENT', 'KILL', 'TYPE', 'normal');
    await untilBack(app);
  }, 60_000);
});
