import { type RedisOptions } from 'ioredis';
import { type DemotionReason } from '../../../lib/core/lock.events.js';
import { type Leadership, type LeaderTerm } from '../../../lib/leader/leadership.js';
import { type Checker } from '../checker/checker.js';
import { waitWithin } from './call.js';
import { type Plan, type PlannedLead } from './plan.js';
import { type Locker } from '../../../lib/core/acquire/locker.js';
import { type StoreHold } from '../../../lib/core/hold/store-hold.js';
import { type FullLockStore } from '../../../lib/core/store/capabilities.js';
import { type ResolvedModuleOptions } from '../../../lib/redis-lock.options.js';
import { type RedisLockService } from '../../../lib/redis-lock.service.js';
import { SimCluster, SimRedis } from '../client/sim-redis.js';
import { type Library } from '../library/library.js';
import { type Network } from '../network/network.js';
import { type SimProcess } from '../world/sim-process.js';

/** The campaign of a process. */
export class Candidate {
  readonly leadership: Leadership;

  constructor(
    readonly app: Application,
    readonly plan: PlannedLead,
    lead: () => Leadership,
  ) {
    this.leadership = lead();
  }

  get text(): string {
    return `the leader of ${this.plan.key} in ${this.app.process.name}`;
  }
}

/** Has processes campaign, and does in each of them what its leaders do. */
export class Campaigner {
  readonly #candidates: Candidate[] = [];

  constructor(
    private readonly checker: Checker,
    private readonly leads: readonly PlannedLead[],
  ) {}

  /** A process has started. */
  begin(app: Application): void {
    for (const plan of this.leads) if (plan.slot === app.process.slot) this.#begin(plan, app);
  }

  /** Ends all campaigns, long after the last fault. */
  end(): void {
    for (const { app, leadership } of this.#candidates) {
      if (app.process.isDead || app.process.isClosing) continue;
      this.checker.facts.called('stop');
      this.checker.facts.world.after(0, app.process, 'plan', () => void leadership.stop());
    }
  }

  #begin(plan: PlannedLead, app: Application): void {
    const { key, leaseMs } = plan;
    this.checker.facts.called('lead');
    const candidate: Candidate = new Candidate(app, plan, () =>
      app.service.lead(key, {
        leaseMs,
        onElected: (term) => this.#lead(candidate, term),
        onDemoted: (term, reason) => this.#onDemoted(candidate, term, reason),
      }),
    );
    this.#candidates.push(candidate);
    this.checker.onCampaign(candidate);
  }

  async #lead(candidate: Candidate, term: LeaderTerm): Promise<void> {
    const { plan, app, leadership } = candidate;
    this.checker.onElected(candidate, term);
    if (plan.termMs === undefined) await waitWithin(app.process, term.signal, Infinity);
    else if (!(await waitWithin(app.process, term.signal, plan.termMs))) {
      this.checker.facts.called('resign');
      await leadership.resign();
    }
    if (plan.goesOnMs > 0) await app.process.sleep(plan.goesOnMs);
    this.checker.onWorked(candidate, term);
  }

  #onDemoted(candidate: Candidate, term: LeaderTerm, reason: DemotionReason): void {
    this.checker.onDemoted(candidate, term, reason);
  }
}

const KEEP_MS = 600_000;
const DEFAULTS = { leaseMs: 10_000, waitMs: 5_000, maxHoldMs: Infinity, awaitRelease: true, drainMs: 1_000 };

/** The module of the library in one process. */
export class Application {
  readonly store: Omit<FullLockStore, 'setPermits'>;
  readonly locker: Locker;
  readonly service: RedisLockService;
  readonly options: ResolvedModuleOptions;
  /** The client of the application, if it passed one in. */
  readonly given: SimRedis | SimCluster | null = null;
  /** How many listeners it had before. */
  readonly givenListeners: number;
  /** The label of the call that is made now. */
  #label = '';

  constructor(
    readonly process: SimProcess,
    library: Library,
    network: Network,
    { profile, slots }: Plan,
  ) {
    const { isGiven, opens } = slots[process.slot]!;
    const { topology } = network;
    const { minReplicas } = profile;
    const { clock, random } = process.runtime;
    const write = (line: string): void => process.world.log(() => `${process.name} logs: ${line}`);
    const reporter = { debug: write, warn: write, error: write };
    if (isGiven) this.given = givenClient(network, topology?.connection);
    this.givenListeners = this.given?.allListeners ?? 0;
    const addresses = network.servers.map(({ id }) => ({ host: 'redis', port: id }));
    const isQuorum = profile.servers > 1;
    const alone = topology?.connection ?? addresses[0]!;
    const connection = (isQuorum ? addresses : (this.given ?? alone)) as never;
    const afterTurn = (callback: () => void): void => process.world.soon(callback);
    const redis = { connection, keyPrefix: 'lock:', keepMs: KEEP_MS, minReplicas, replicaTimeoutMs: 500 };
    this.store = library.openStore({
      ...redis,
      hashTag: undefined,
      scripts: library.scripts,
      clock,
      random,
      afterTurn,
      reporter,
    });
    this.locker = new library.Locker(process.runtime, this.store, reporter, `${process.name}:1`);
    this.options = { ...DEFAULTS, isQuorum, name: undefined } as unknown as ResolvedModuleOptions;
    this.service = new library.RedisLockService(this.locker, this.store, this.options);
    this.#labelCalls();
    if (opens) this.store.open();
  }

  /** Makes a call whose requests name it: so the servers, and the checker, know which call a command belongs to. */
  labelled<T>(label: string, call: () => Promise<T>): Promise<T> {
    this.#label = label;
    try {
      return call();
    } finally {
      this.#label = '';
    }
  }

  /** The hold of an attempt. */
  holdOf(attempt: string): StoreHold | undefined {
    return [...this.locker.holds].find((hold) => hold.attempt === attempt);
  }

  #labelCalls(): void {
    const { locker } = this;
    const request = locker.request.bind(locker);
    locker.request = (keys, options, label, claim) => {
      const where = this.#label;
      return request(keys, options, where ? { where, template: undefined } : label, claim);
    };
  }
}

type Connection = { readonly cluster?: readonly object[] };

function givenClient(
  network: Network,
  connection: Connection = { host: 'redis', port: 0 } as object,
): Application['given'] {
  const { cluster } = connection;
  const options = { ...(connection as RedisOptions), lazyConnect: true };
  return cluster ? new SimCluster(network, cluster) : new SimRedis(network, options);
}
