import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';
import { LockError } from '../../../lib/index.js';
import { type LockStore } from '../../../lib/core/store/lock-store.js';
import { LOCK_STORE } from '../../../lib/redis-lock.tokens.js';
import { claimFire } from '../../support/apps/claim-fire.js';
import { serverTime } from '../../support/redis/records.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { type NetApp, startNet } from '../../support/redis/quorum-net.js';
import { type Random, randomFrom, startFaults } from './support/random-faults.js';

const SEED = Number(process.env['QUORUM_SEED'] ?? 1);
const DURATION_MS = Number(process.env['QUORUM_MS'] ?? 5_000);
/** For how much longer a job is called that has not run. */
const PATIENCE_MS = 30_000;
/** How many of the five nodes are broken at a time, at most. */
const BROKEN = Number(process.env['QUORUM_BROKEN'] ?? 2);
const WIDTH_MS = 250;

/** One job that several instances try to run, each fire once. */
interface Job {
  readonly key: string;
  readonly kind: 'at' | 'slot';
  /** How often each fire was run. */
  readonly runs: Map<number, number>;
}

/** The fire of each job that this app was granted last. */
function watchGrants({ app }: NetApp): Map<string, number> {
  const fires = new Map<string, number>();
  const store = app.get<LockStore>(LOCK_STORE);
  const acquire = store.acquire.bind(store);
  store.acquire = async (request, ...rest) => {
    const reply = await acquire(request, ...rest);
    if (reply.outcome === 'granted') fires.set(request.keys[0]!, reply.fireMs!);
    return reply;
  };
  return fires;
}

/** A call of one instance for the latest fire, some of them late. */
async function callJob(
  { app, granted }: { app: NetApp; granted: Map<string, number> },
  { key, kind, runs }: Job,
  now: number,
  random: Random,
): Promise<void> {
  const ms = kind === 'slot' ? WIDTH_MS : Math.floor(now / WIDTH_MS) * WIDTH_MS - WIDTH_MS * random.int(0, 2);
  const options = { leaseMs: random.int(600, 2_000), waitMs: random.pick([0, 0, 300]) };
  const lock = await claimFire(app, key, { kind, ms }, options).catch((error: unknown) => {
    if (!(error instanceof LockError)) throw error;
    return null;
  });
  if (!lock) return;
  const fire = granted.get(key)!;
  runs.set(fire, (runs.get(fire) ?? 0) + 1);
  await sleep(random.chance(0.2) ? random.int(200, 2_500) : random.int(0, 60));
  await lock.releaseAfter(random.pick(['done', 'done', 'failed'])).catch(() => undefined);
}

describe('fires that a quorum grants under random faults', () => {
  afterEach(closeAll);

  const play = async () => {
    const [random, chaos] = [randomFrom(SEED), randomFrom(SEED + 1)];
    const net = await startNet(5);
    const apps = [await net.app(), await net.app(), await net.app(), await net.app()];
    const aheadMs = (await serverTime(net.admins[0]!)) - performance.now();
    const jobs: Job[] = (['at', 'at', 'slot'] as const).map((kind) => ({ key: freshKey(), kind, runs: new Map() }));
    const faults = startFaults({ apps, atMost: BROKEN, random: chaos, onRound: async () => undefined });
    const until = performance.now() + DURATION_MS;
    const callers = apps.map((app) => ({ app, granted: watchGrants(app) }));
    // A busy machine gets no majority in time: then it takes longer, without faults, and no fewer runs.
    const stopped = sleep(DURATION_MS).then(() => faults.stop());
    const goesOn = ({ runs }: Job) => performance.now() < until + (runs.size === 0 ? PATIENCE_MS : 0);
    const call = async (caller: (typeof callers)[number], job: Job) => {
      while (goesOn(job)) {
        await callJob(caller, job, performance.now() + aheadMs, random);
        await sleep(random.int(0, 120));
      }
    };
    await Promise.all(callers.flatMap((caller) => jobs.flatMap((job) => [call(caller, job), call(caller, job)])));
    const rounds = await stopped;
    const runs = jobs.map((job) => job.runs.size);
    process.stdout.write(`Fires of seed ${SEED}: ${JSON.stringify({ runs, faults: rounds })}\n`);
    expect(jobs.map((job) => [...job.runs].filter(([, count]) => count > 1))).toEqual(jobs.map(() => []));
    for (const count of runs) expect(count).toBeGreaterThan(0);
  };

  it(`runs each of them at most once (seed ${SEED})`, play, DURATION_MS + 60_000);
});
