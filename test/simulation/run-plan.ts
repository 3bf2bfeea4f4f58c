import { Belief, Losses, LossReports, Nesting, Siblings } from './checker/beliefs.js';
import { Callers, Leads } from './checker/callers.js';
import { Calm, Moved, Recovered } from './checker/calm.js';
import { Facts, KEY_PREFIX, RECOVERY_MS } from './checker/facts.js';
import { Grants, Operators, Order, Owners } from './checker/grants.js';
import { HandOvers, LocalWaits } from './checker/hand-overs.js';
import { Fires, HoldLimits } from './checker/hold-limits.js';
import { Endings, Leftovers, ProcessEnd, QuorumLeftovers } from './checker/leftovers.js';
import { type Rule } from './checker/rule.js';
import { Settling, Turns, Waiting, WaitLimits } from './checker/waits.js';
import { Application, Campaigner } from './workload/application.js';
import { Adopter, type Call, type Outcome } from './workload/call.js';
import { Caller } from './workload/caller.js';
import { Network } from './network/network.js';
import { type Plan, type PlannedCall, serverCount } from './workload/plan.js';
import { Rng, type Violation, World } from './world/world.js';
import { ClusterBus } from './server/cluster-bus.js';
import { ClusterNode } from './server/cluster-node.js';
import { Member, MOST_LAG_MS } from './server/member.js';
import { ReplicaSet } from './server/replica-set.js';
import { FIRST_SENTINEL, SimSentinel } from './server/sentinel.js';
import { type FailoverWatch, portOf, type Topology } from './server/topology.js';
import { FaultRunner, type Stage } from './faults/fault-runner.js';
import { Checker } from './checker/checker.js';
import { lockOn } from '../support/lua/lock-view.js';
import { type Library } from './library/library.js';
import { Lua } from '../support/lua/lua.js';
import { SimServer } from './server/sim-server.js';
import { SimProcess } from './world/sim-process.js';

// prettier-ignore
const KINDS = [
  Callers, Belief, Order, Settling, Waiting, Leftovers, Losses, Fires, Calm, Endings, Grants, HoldLimits,
  HandOvers, LocalWaits, LossReports, Moved, Nesting, Operators, Owners, QuorumLeftovers, Recovered, Siblings, Leads, Turns, WaitLimits,
];

/** All rules. */
const rulesFor = (facts: Facts): readonly Rule[] => KINDS.map((Kind) => new Kind(facts));

/** Its calls have numbers from here on. */
const FIRST_ID = 1_000_000;

/** How far time passes between two looks at it. */
const STEP_MS = 20;

/** One call of a lock without other holders. */
const PROBE = { entry: 'tryAcquire', options: { mode: 'write', leaseMs: 2_000, waitMs: 0 }, holdMs: 0, at: 0 } as const;

/**
 * After all has calmed down, every key that was ever used can be locked at once, by every process. The calls are checked as
 * all others: their tokens exceed all before.
 */
class Probe {
  #id = FIRST_ID;

  constructor(
    private readonly facts: Facts,
    private readonly caller: Caller,
  ) {}

  async run(apps: readonly Application[]): Promise<void> {
    const { network } = this.facts;
    const keys = new Set(network.servers.flatMap((server) => server.keys));
    for (const app of apps) {
      for (const key of keys) await this.#probe(key.slice(KEY_PREFIX.length), app);
    }
  }

  async #probe(key: string, app: Application): Promise<void> {
    const { world, plan } = this.facts;
    let outcome = await this.#call(key, app);
    // A given client may still be with a server that has become a replica: until its first write, it reads what the replica knows.
    if (outcome === 'busy' && plan.profile.replicas > 0) {
      await world.run(world.now + MOST_LAG_MS);
      outcome = await this.#call(key, app);
    }
    if (world.violations.length > 0 || outcome === 'granted') return;
    world.violate('3: at the end, each key can be locked', `${key} in ${app.process.name}: ${outcome}`);
  }

  async #call(key: string, app: Application): Promise<Outcome | null | undefined> {
    const { world, calls } = this.facts;
    const id = (this.#id += 1);
    const plan = { ...PROBE, id, slot: app.process.slot, keys: [key], steps: [], listens: false, afterLossMs: 0 };
    world.after(0, app.process, 'plan', () => void this.caller.run(plan, app));
    // The first answer takes a second at most, and so does a release.
    const until = world.now + 2_100;
    const made = (): Call | undefined => calls.get(`c${id}`);
    while (world.violations.length === 0 && world.now < until && !isDone(made())) await world.run(world.now + STEP_MS);
    return made()?.outcome;
  }
}

const isDone = (call: Call | undefined): boolean =>
  call !== undefined && !call.isPending && (call.held?.doneAt ?? 0) < Infinity;

const SENTINELS = 3;

/** Joins the servers of a run; null if they are independent. */
function buildTopology({ servers, world }: Network, { profile, seed }: Plan, watch: FailoverWatch): Topology | null {
  if (profile.topology === 'none') return null;
  const rng = new Rng(seed, 'topology');
  const { topology, masters, replicas } = profile;
  if (topology === 'cluster') {
    const bus = new ClusterBus({ world, rng, watch, masters, replicas });
    bus.nodes = servers.map((server) => new ClusterNode(server, bus, bus.view));
    bus.join();
    return bus;
  }
  const members = servers.map((server) => new Member(server));
  const count = topology === 'sentinel' ? SENTINELS : 0;
  const sentinels = Array.from({ length: count }, (_, i) => {
    return new SimSentinel(FIRST_SENTINEL + i, world, new Rng(seed, 'sentinel', i), portOf(servers[0]!));
  });
  for (const sentinel of sentinels) sentinel.others = sentinels.filter((other) => other !== sentinel);
  return new ReplicaSet({ world, rng, members, sentinels, watch });
}

/** What a run has found. */
export interface Report {
  readonly plan: Plan;
  readonly violations: readonly Violation[];
  readonly digest: string;
  /** How often each method of the public API was called. */
  readonly calls: ReadonlyMap<string, number>;
  readonly events: number;
  readonly commands: number;
  readonly virtualMs: number;
  readonly counts: ReadonlyMap<string, number>;
  readonly trace: readonly string[] | null;
}

const TICK_MS = 250;
/** After the last call, a subscriber is checked for five seconds more; and how far time passes between two looks. */
const LAST_MS = 12_000;
const LOOK_MS = 5_000;
/** How long a process lives on after its shutdown: what it still does then is noticed. */
const AFTER_CLOSE_MS = 3_000;
/** For how long after that leaders are watched; and how long the last of them may take to end their work, and to release. */
const LEADS_MS = 40_000;
const END_OF_LEADS_MS = 5_000;
/** After the last fault, everything ends within this time: a queue of the longest leases, one after the other. */
const QUIET_MS = 600_000;

interface RunOptions {
  readonly isTraced?: boolean;
  /** Learns what happens, as the rules do. */
  readonly watch?: Rule;
}

/** Runs a plan to its end, or until a promise is broken. */
export async function runPlan(library: Library, plan: Plan, options: RunOptions = {}): Promise<Report> {
  const lua = await Lua.open();
  lua.forgetHashes();
  return new Simulation(library, plan, lua, options).run();
}

class Simulation implements Stage {
  readonly #world: World;
  readonly #network: Network;
  readonly #facts: Facts;
  readonly #checker: Checker;
  readonly #ends: ProcessEnd;
  readonly #caller: Caller;
  readonly #campaigner: Campaigner;
  readonly #apps: (Application | undefined)[];
  readonly #starts: number[];
  /** Until when something is still in progress. */
  #busyUntil = 0;

  constructor(
    private readonly library: Library,
    private readonly plan: Plan,
    private readonly lua: Lua,
    { isTraced = false, watch }: RunOptions,
  ) {
    const { seed, profile, slots } = plan;
    this.#world = new World(isTraced);
    this.#network = new Network(this.#world, profile.network, seed);
    this.#facts = new Facts(this.#world, this.#network, plan);
    this.#checker = new Checker(this.#facts, library, [...rulesFor(this.#facts), ...(watch ? [watch] : [])]);
    this.#ends = new ProcessEnd(this.#facts);
    this.#apps = slots.map(() => undefined);
    this.#caller = new Caller(library, this.#checker, new Adopter(this.#checker, (slot) => this.#apps[slot]));
    this.#campaigner = new Campaigner(this.#checker, plan.leads ?? []);
    this.#starts = slots.map(() => 0);
    this.#addServers();
  }

  async run(): Promise<Report> {
    const { plan } = this;
    const world = this.#world;
    const onUnhandled = (error: unknown): void =>
      world.violate('nothing is left unhandled', error instanceof Error ? error.stack! : String(error));
    process.on('unhandledRejection', onUnhandled);
    this.library.network = this.#network;
    for (const slot of plan.slots.keys()) this.#start(slot);
    for (const call of plan.calls) world.at(call.at, null, 'plan', () => this.#call(call));
    const faults = new FaultRunner(this.#facts, this);
    for (const fault of plan.faults) world.at(fault.at, null, 'fault', () => faults.run(fault));
    this.#tick();
    await world.run(plan.profile.ms);
    await this.#calmDown();
    process.off('unhandledRejection', onUnhandled);
    return this.#report();
  }

  in(slot: number): Application | undefined {
    return this.#apps[slot];
  }

  replace(app: Application, ms: number): void {
    this.#end(app);
    this.#world.after(ms, null, 'plan', () => this.#start(app.process.slot));
  }

  shutDown(app: Application, drainMs: number, ms: number): void {
    const { process } = app;
    process.isClosing = true;
    this.#apps[process.slot] = undefined;
    this.#world.log(() => `${process.name} shuts down within ${drainMs} ms`);
    void this.#close(app, drainMs);
    this.#world.after(ms, null, 'plan', () => this.#start(process.slot));
  }

  async #close(app: Application, drainMs: number): Promise<void> {
    const { process } = app;
    const moment = () => ({ at: this.#world.now, mono: process.clock.now() });
    const started = moment();
    await app.locker.close(drainMs);
    this.#ends.onLockerClosed(app, drainMs, started);
    const drained = moment();
    await app.store.close();
    this.#ends.onStoreClosed(app, drained);
    await process.sleep(AFTER_CLOSE_MS);
    this.#ends.onQuiet(app);
    this.#end(app);
  }

  #end(app: Application): void {
    const { process } = app;
    if (this.#apps[process.slot] === app) this.#apps[process.slot] = undefined;
    process.kill();
    this.#network.abandon(process);
    const { pending } = this.#facts;
    for (const call of pending) if (call.process === process) pending.delete(call);
  }

  #start(slot: number): void {
    if (this.#apps[slot]) return;
    const { plan } = this;
    const name = `P${slot}${'abcdefghijklmnopqrstuvwxyz'[this.#starts[slot]!] ?? this.#starts[slot]}`;
    this.#starts[slot]! += 1;
    const rng = new Rng(plan.seed, 'process', name);
    const process = new SimProcess(this.#world, name, slot, plan.slots[slot]!.rate, rng);
    this.#facts.started(process);
    this.#world.after(0, process, 'plan', () => {
      const app = new Application(process, this.library, this.#network, plan);
      this.#world.log(() => `${name} starts as ${app.store.clientId}`);
      this.#checker.watch(app);
      this.#apps[slot] = app;
      this.#campaigner.begin(app);
    });
  }

  #call(call: PlannedCall): void {
    const app = this.#apps[call.slot];
    const { atOnce } = this.plan.slots[call.slot]!;
    if (app && this.#pendingIn(app) < atOnce)
      this.#world.after(0, app.process, 'plan', () => void this.#caller.run(call, app));
  }

  #pendingIn(app: Application): number {
    let pending = 0;
    for (const call of this.#facts.pending) if (call.app === app) pending += 1;
    return pending;
  }

  #tick(): void {
    this.#world.after(TICK_MS, null, 'plan', () => {
      this.#checker.tick();
      this.#tick();
    });
  }

  /** No more faults and calls: whatever waits or is held comes to its end. */
  async #calmDown(): Promise<void> {
    const world = this.#world;
    for (const { subscriptions } of this.#network.servers) subscriptions.faults = { lost: 0, late: 0, lateMaxMs: 0 };
    const until = world.now + QUIET_MS;
    do await world.run(world.now + LOOK_MS);
    while (world.violations.length === 0 && world.now < until && this.#isBusy());
    if (world.violations.length > 0) return;
    await this.#endCampaigns();
    this.#checker.end();
    this.#network.calmDown();
    await world.run(world.now + AFTER_CLOSE_MS);
    await new Probe(this.#facts, this.#caller).run(this.#apps.filter((app) => app !== undefined));
    await world.run(world.now + AFTER_CLOSE_MS);
    if (world.violations.length > 0) return;
    for (const app of this.#apps) if (app) this.#ends.onEnd(app);
  }

  async #endCampaigns(): Promise<void> {
    const { leads = [] } = this.plan;
    this.#facts.history.stoppingAt = this.#world.now;
    if (leads.length === 0) return;
    this.#campaigner.end();
    await this.#world.run(this.#world.now + END_OF_LEADS_MS);
  }

  #isBusy(): boolean {
    const { pending, held, plan, world } = this.#facts;
    if (pending.size > 0 || held.size > 0 || this.#isAnyParked()) this.#busyUntil = world.now + LAST_MS;
    const quietMs = plan.profile.isCalm ? LAST_MS : RECOVERY_MS + 4_000;
    const recoveredAt = plan.profile.ms + quietMs + (plan.leads?.length ? LEADS_MS : 0);
    return world.now < Math.max(recoveredAt, this.#busyUntil);
  }

  /** Whether a lock is kept because of its `holdAtLeastMs`. */
  #isAnyParked(): boolean {
    return this.#network.servers.some((server) =>
      server.keys.some((key) =>
        [...lockOn(server, key).holds.values()].some(({ deadline, token }) => token === 0 && deadline > server.nowMs),
      ),
    );
  }

  #addServers(): void {
    const { plan } = this;
    const { seed, profile, serverRates, serverOffsets } = plan;
    const world = this.#world;
    for (let id = 0; id < serverCount(profile); id += 1) {
      const settings = { rate: serverRates[id]!, offsetMs: serverOffsets[id]! };
      const rng = new Rng(seed, 'server', id);
      const server = new SimServer(id, world, rng, settings, this.lua, this.#checker);
      server.subscriptions.faults = profile.messages;
      this.#network.servers.push(server);
    }
    this.#network.topology = buildTopology(this.#network, plan, this.#facts.failovers);
  }

  #report(): Report {
    this.#checker.conclude();
    const { violations, digest, count, now, trace } = this.#world;
    const { counts, publicCalls: calls } = this.#facts;
    const commands = this.#network.servers.reduce((sum, server) => sum + server.commands, 0);
    return {
      plan: this.plan,
      violations,
      digest: digest.hex,
      calls,
      events: count,
      commands,
      virtualMs: now,
      counts,
      trace,
    };
  }
}
