import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';
import { LockError, type Lock, type LockOptions } from '../../../lib/index.js';
import { type LockStore } from '../../../lib/core/store/lock-store.js';
import { LOCK_STORE } from '../../../lib/redis-lock.tokens.js';
import { eventually } from '../../support/waiting/eventually.js';
import { hashOf, serverTime } from '../../support/redis/records.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { Beliefs } from './support/beliefs.js';
import { type NetApp, type QuorumNet, holdsOn, startNet } from '../../support/redis/quorum-net.js';
import { type Random, fastClocks, randomFrom, startFaults } from './support/random-faults.js';
import { expectNothingAlive } from '../../support/waiting/waiters.js';

const SEED = Number(process.env['QUORUM_SEED'] ?? 1);
const DURATION_MS = Number(process.env['QUORUM_MS'] ?? 5_000);
/** How many of the nodes are broken at a time, at most. */
const BROKEN = Number(process.env['QUORUM_BROKEN'] ?? 2);
const NODES = 5;
const APPS = 4;
/** How many calls each app has under way. */
const CALLERS = 4;
const MAX_LEASE_MS = 2_000;
const PATIENCE_MS = 20_000;
const ABORTED = new Error('aborted by the test');

/** The work under one lock, chosen before the lock is requested. */
interface Task {
  readonly how: 'withLock' | 'tryAcquire' | 'acquire';
  readonly keys: string | readonly string[];
  readonly options: LockOptions & { waitMs: number };
  readonly workMs: number;
  readonly abortInMs: number | undefined;
}

function drawTask(keys: readonly string[], random: Random): Task {
  const leaseMs = random.int(600, MAX_LEASE_MS);
  const how = random.pick(['withLock', 'withLock', 'acquire', 'tryAcquire'] as const);
  const [first, second] = [random.pick(keys), random.pick(keys)];
  const several = random.chance(0.2) && first !== second;
  return {
    how,
    keys: several ? [first, second] : first,
    options: {
      leaseMs,
      mode: random.chance(0.3) ? 'read' : 'write',
      waitMs: how === 'tryAcquire' ? 0 : random.int(0, 2_500),
    },
    workMs: random.chance(0.1) ? Math.ceil(leaseMs * (0.34 + 2 * random.next() ** 2)) : random.int(0, 60),
    abortInMs: random.chance(0.1) ? random.int(0, 300) : undefined,
  };
}

/** One run of the test: its calls, and what they have shown. Jest itself fails a test in which a rejection is not handled. */
class Scene {
  readonly beliefs = new Beliefs();
  readonly counts = { operations: 0, grants: 0, losses: 0, splits: 0, refusals: 0, aborts: 0 };
  readonly surprises: unknown[] = [];

  constructor(private readonly random: Random) {}

  countSplits({ app, locks }: NetApp): void {
    const store = app.get<LockStore>(LOCK_STORE);
    const acquire = store.acquire.bind(store);
    store.acquire = async (...args) => {
      const reply = await acquire(...args);
      if (reply.outcome === 'busy' && reply.isSplit) this.counts.splits += 1;
      return reply;
    };
    locks.events.on('lost', () => (this.counts.losses += 1));
  }

  async call(app: NetApp, task: Task): Promise<void> {
    const controller = new AbortController();
    const abort =
      task.abortInMs === undefined ? undefined : setTimeout(() => controller.abort(ABORTED), task.abortInMs);
    const work = (lock: Lock): Promise<void> => this.#work(lock, task.workMs);
    this.counts.operations += 1;
    await this.#run(app, { ...task, options: { ...task.options, signal: controller.signal } }, work).catch(
      (error: unknown) => this.#noteError(error),
    );
    clearTimeout(abort);
  }

  async #run({ locks }: NetApp, { how, keys, options }: Task, work: (lock: Lock) => Promise<void>): Promise<void> {
    if (how === 'withLock') return locks.withLock(keys, options, work);
    const lock = await locks[how](keys, options);
    if (!lock) return void (this.counts.refusals += 1);
    await work(lock);
    await lock.release();
  }

  async #work(lock: Lock, workMs: number): Promise<void> {
    this.counts.grants += 1;
    this.beliefs.enter(lock);
    const halfMs = this.random.int(0, workMs);
    if (workMs > 0) await sleep(halfMs);
    this.beliefs.check(lock);
    if (workMs > 0) await sleep(workMs - halfMs);
    this.beliefs.check(lock);
    this.beliefs.leave(lock);
  }

  #noteError(error: unknown): void {
    if (error === ABORTED) this.counts.aborts += 1;
    else if (!(error instanceof LockError)) this.surprises.push(error);
    else if (error.code !== 'LOCK_LOST') this.counts.refusals += 1;
  }
}

/** Whether a lease still runs on some node. */
async function isLeased({ admins }: QuorumNet, key: string): Promise<boolean> {
  const until = await Promise.all(
    admins.map(async (admin) => {
      const hash = await hashOf(admin, key);
      const holds = Object.keys(hash).filter((field) => field.startsWith('hold:'));
      return Math.max(0, ...holds.map((field) => Number(hash[field]!.split(' ')[0]))) - (await serverTime(admin));
    }),
  );
  return until.some((ms) => ms > 0);
}

/** What has to be so soon after all faults have ended. */
async function expectNothingLeft(net: QuorumNet, apps: readonly NetApp[], keys: readonly string[]): Promise<void> {
  const take = async (key: string) => {
    const lock = await apps[0]!.locks.acquire(key, { waitMs: MAX_LEASE_MS + 2_000, leaseMs: MAX_LEASE_MS });
    await lock.release();
  };
  await Promise.all(keys.map(take));
  await expectNothingAlive(apps);
  for (const key of keys) {
    const message = `${key} is still leased`;
    await eventually(async () => !(await isLeased(net, key)), { timeoutMs: MAX_LEASE_MS + 500, message });
    // The next command removes what has expired.
    await take(key);
    await eventually(async () => (await holdsOn(net.admins, key)).flat().length === 0, { message: `${key} is held` });
  }
}

async function startScene(random: Random) {
  const net = await startNet(NODES);
  const apps: NetApp[] = [];
  for (let i = 0; i < APPS; i += 1) apps.push(await net.app());
  const scene = new Scene(random);
  for (const app of apps) scene.countSplits(app);
  return { net, apps, scene, keys: ['a', 'b', 'c'].map(freshKey) };
}

describe('a quorum under random faults', () => {
  afterEach(closeAll);

  const play = async () => {
    const [random, chaos] = [randomFrom(SEED), randomFrom(SEED + 1)];
    const { net, apps, scene, keys } = await startScene(random);
    const faults = startFaults({ apps, atMost: BROKEN, random: chaos, onRound: fastClocks(net.admins, keys, chaos) });
    const until = performance.now() + DURATION_MS;
    // A busy machine gets no majority in time: then it takes longer, without faults, until there is a grant.
    const stopped = sleep(DURATION_MS).then(() => faults.stop());
    const goesOn = () => performance.now() < until + (scene.counts.grants === 0 ? PATIENCE_MS : 0);
    const caller = async (app: NetApp) => {
      while (goesOn()) {
        await scene.call(app, drawTask(keys, random));
        await sleep(random.int(0, 20));
      }
    };
    await Promise.all(apps.flatMap((app) => Array.from({ length: CALLERS }, () => caller(app))));
    const counts = { ...scene.counts, checks: scene.beliefs.checks, faults: await stopped };
    process.stdout.write(`Quorum of seed ${SEED}: ${JSON.stringify(counts)}\n`);
    expect(scene.beliefs.violations).toEqual([]);
    await expectNothingLeft(net, apps, keys);
    expect(scene.surprises).toEqual([]);
    expect(counts.grants).toBeGreaterThan(0);
  };

  it(`never has a writer beside another holder, and recovers (seed ${SEED})`, play, DURATION_MS + 60_000);
});
