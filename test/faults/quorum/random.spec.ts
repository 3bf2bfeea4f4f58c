import { setTimeout as sleep } from 'node:timers/promises';
import process from 'node:process';
import { type Redis } from 'ioredis';
import { disconnect, isCommand } from '../../support/redis/own-redis.js';
import { holdsOn, type NetApp, type QuorumNet, startNet } from '../../support/redis/quorum-net.js';
import { type TcpProxy } from '../../support/network/tcp-proxy.js';
import { hashOf, serverTime, setToken } from '../../support/redis/records.js';
import { type Lock, LockError, type LockOptions } from '../../../lib/index.js';
import { type LockStore } from '../../../lib/core/store/lock-store.js';
import { LOCK_STORE } from '../../../lib/redis-lock.tokens.js';
import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { Beliefs } from './support/beliefs.js';
import { expectNothingAlive } from '../../support/waiting/waiters.js';
import { claimFire } from '../../support/apps/claim-fire.js';

afterEach(closeAll);

/** Random choices that a seed repeats, as far as the time of the machine lets it. */
interface Random {
  /** From 0 up to 1. */
  next(): number;
  /** A whole number, both ends included. */
  int(from: number, to: number): number;
  pick<T>(list: readonly T[]): T;
  chance(share: number): boolean;
}

/** The generator `mulberry32`. */
function randomFrom(seed: number): Random {
  let state = seed | 0;
  const next = (): number => {
    state = (state + 0x6d_2b_79_f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const int = (from: number, to: number): number => from + Math.floor(next() * (to - from + 1));
  return { next, int, pick: (list) => list[int(0, list.length - 1)]!, chance: (share) => next() < share };
}

const COMMANDS = ['acquire', 'acquireMany', 'renew', 'release', 'writeBack'] as const;

/** What may happen to the way of an app to a node. */
type Fault = (proxy: TcpProxy, random: Random) => void;

const OUTAGES: readonly Fault[] = [(proxy) => disconnect(proxy), (proxy) => proxy.blackhole(true)];

const FAULTS: readonly Fault[] = [
  ...OUTAGES,
  (proxy) => proxy.cutAll(),
  (proxy) => proxy.refuse(true),
  (proxy, random) => void (proxy.delayMs = random.int(1, 80)),
  (proxy, random) => proxy.dropNextReply(isCommand(random.pick(COMMANDS))),
  (proxy, random) => {
    // Carried out, and then out of reach.
    const matches = isCommand(random.pick(COMMANDS));
    proxy.dropNextReply((text) => {
      if (!matches(text)) return false;
      proxy.refuse(true);
      return true;
    });
  },
];

function heal(proxy: TcpProxy): void {
  proxy.refuse(false);
  proxy.blackhole(false);
  proxy.delayMs = 0;
  proxy.dropNextReply(() => false);
}

/**
 * Breaks the ways to at most so many nodes, the same for all apps or others for each. What breaks a majority lasts, or no
 * lease would end of it.
 */
function breakWays(apps: readonly NetApp[], atMost: number, random: Random): void {
  const size = apps[0]!.proxies.length;
  const someNodes = () => new Set(Array.from({ length: random.int(0, atMost) }, () => random.int(0, size - 1)));
  const common = random.chance(0.5) ? someNodes() : undefined;
  const isQuiet = random.chance(0.2);
  const isSevere = 2 * atMost >= size;
  for (const { proxies } of apps) {
    if (isSevere && random.chance(0.85)) continue;
    proxies.forEach(heal);
    if (isQuiet) continue;
    for (const node of common ?? someNodes()) random.pick(isSevere ? OUTAGES : FAULTS)(proxies[node]!, random);
  }
}

/** Another node each time has the clock that is ahead of all, as far as the tokens of these keys tell. */
function fastClocks(admins: readonly Redis[], keys: readonly string[], random: Random): () => Promise<unknown> {
  let aheadMs = 0;
  return () => {
    aheadMs += 60_000;
    return setToken(random.pick(admins), random.pick(keys), String((Date.now() + aheadMs) * 1_000));
  };
}

/** What makes the ways of all apps worse. */
interface FaultOptions {
  readonly apps: readonly NetApp[];
  /** How many nodes are broken at a time, at most. */
  readonly atMost: number;
  readonly random: Random;
  readonly onRound: () => Promise<unknown>;
}

/** Other faults every 100 to 400 ms, with quiet times, until it is stopped; then all ways are whole again. */
function startFaults({ apps, atMost, random, onRound }: FaultOptions): { stop(): Promise<number> } {
  const stopped = new AbortController();
  let rounds = 0;
  const run = async (): Promise<void> => {
    while (!stopped.signal.aborted) {
      breakWays(apps, atMost, random);
      await onRound();
      rounds += 1;
      await sleep(random.int(100, 400), undefined, { signal: stopped.signal }).catch(() => undefined);
    }
    for (const { proxies } of apps) proxies.forEach(heal);
  };
  const running = run();
  const stop = async (): Promise<number> => {
    stopped.abort();
    await running;
    return rounds;
  };
  return { stop };
}

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

/** For how much longer a job is called that has not run. */
const FIRE_PATIENCE_MS = 30_000;
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
    const goesOn = ({ runs }: Job) => performance.now() < until + (runs.size === 0 ? FIRE_PATIENCE_MS : 0);
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
