import { setTimeout as sleep } from 'node:timers/promises';
import { type Redis } from 'ioredis';
import { type LockOptions } from '../../lib/index.js';
import { eventually } from '../support/waiting/eventually.js';
import { loadScripts, ownRedis } from '../support/redis/own-redis.js';
import { type LockApp, closeAll, freshKey, startApp } from '../support/apps/lock-app.js';
import { queued } from '../support/redis/records.js';

/** Each waiter says this often that it is alive: a third of its waiter lease. */
const POLL_MS = 2_000;
/** Two commands per acquisition, and a few that a machine which stood still may cause. */
const SLACK = 10;

interface Scene {
  readonly waiters: number;
  readonly heldMs: number;
  /** How many keys each of them asks for. */
  readonly names?: number;
  /** How many places they have in the queue of Redis, if not one each. */
  readonly places?: number;
  readonly options?: LockOptions;
}

/** Each caller has a place of its own. */
const EACH: LockOptions = { fair: 'strict' };

interface Costs {
  readonly scripts: number;
  readonly messages: number;
  /** What the waiters may have sent to keep their places. */
  readonly polls: number;
}

/** Has a lock held for `heldMs` while `waiters` wait, and counts what it costs until all have had it. */
async function costOf(
  apps: readonly LockApp[],
  admin: Redis,
  { waiters, heldMs, names = 1, places = waiters, options = EACH }: Scene,
): Promise<Costs> {
  // In the order in which all wait for them: everybody stands in the queue of the first.
  const keys = Array.from({ length: names }, () => freshKey()).sort();
  const patient = { ...options, waitMs: 60_000, leaseMs: 120_000 };
  await admin.config('RESETSTAT');
  const from = performance.now();
  const held = await apps[0]!.locks.acquire(keys, patient);
  const all = Array.from({ length: waiters }, (_, i) =>
    apps[i % apps.length]!.locks.acquire(keys, patient).then((lock) => lock.release()),
  );
  await eventually(async () => (await queued(admin, keys[0]!)) === places);
  await sleep(heldMs);
  await held.release();
  await Promise.all(all);
  const polls = places * Math.ceil((performance.now() - from) / POLL_MS);
  const stats = await admin.info('commandstats');
  const calls = (name: string) => Number(new RegExp(`cmdstat_${name}:calls=(\\d+)`).exec(stats)?.[1] ?? 0);
  return { scripts: calls('evalsha') + calls('eval'), messages: calls('publish'), polls };
}

async function startThree(): Promise<{ apps: LockApp[]; admin: Redis }> {
  const { admin, url } = await ownRedis();
  await loadScripts(admin);
  const start = () => startApp({ connection: url });
  const apps = [await start(), await start(), await start()];
  for (const { locks } of apps) await locks.withLock('warm-up', () => undefined);
  await eventually(async () => ((await admin.pubsub('CHANNELS', '*')) as string[]).length === apps.length);
  return { apps, admin };
}

describe('the costs of waiting', () => {
  afterEach(closeAll);

  it.each([1_000, 3_000, 6_000])(
    'are at most two commands per acquisition, and one poll per waiter every 2 s: held for %i ms',
    async (heldMs) => {
      const { apps, admin } = await startThree();
      const { scripts, polls } = await costOf(apps, admin, { waiters: 20, heldMs });
      // Acquires of one turn travel together; each release is one of its own, since each holder waits for the one before.
      expect(scripts).toBeGreaterThanOrEqual(21 + 1);
      expect(scripts).toBeLessThanOrEqual(2 * 21 + polls + SLACK);
    },
  );

  it.each([4, 16, 64])('are one message per grant, however many wait: %i waiters', async (waiters) => {
    const { apps, admin } = await startThree();
    const { scripts, messages, polls } = await costOf(apps, admin, { waiters, heldMs: 0 });
    expect(messages).toBeLessThanOrEqual(waiters + SLACK);
    expect(scripts).toBeLessThanOrEqual(2 * (waiters + 1) + polls + SLACK);
  });

  it('are those of one caller per process where callers hand the lock to each other', async () => {
    const { apps, admin } = await startThree();
    const scene = { waiters: 64, heldMs: 100, places: apps.length, options: {} };
    const { scripts, messages, polls } = await costOf(apps, admin, scene);
    // Three turns would do with eight commands; on a machine that stands still, a turn may end early.
    expect(scripts).toBeLessThan(64 + polls);
    expect(messages).toBeLessThan(64);
  });

  it.each([4, 16, 64])('are at most two messages per release without fairness: %i waiters', async (waiters) => {
    const { apps, admin } = await startThree();
    const { scripts, messages, polls } = await costOf(apps, admin, { waiters, heldMs: 0, options: { fair: false } });
    // A race that is lost costs a command more, and each release starts at most two.
    expect(messages).toBeLessThanOrEqual(4 * waiters + SLACK);
    expect(scripts).toBeLessThanOrEqual(6 * (waiters + 1) + polls + SLACK);
  });

  it.each([4, 16, 64])('are one message per key and grant for several keys: %i waiters', async (waiters) => {
    const { apps, admin } = await startThree();
    const { scripts, messages, polls } = await costOf(apps, admin, { waiters, heldMs: 0, names: 3 });
    expect(messages).toBeLessThanOrEqual(3 * waiters + SLACK);
    // The request, the acquire when woken, the release of each key, and one more for a race.
    expect(scripts).toBeLessThanOrEqual(6 * (waiters + 1) + polls + SLACK);
  });
});
