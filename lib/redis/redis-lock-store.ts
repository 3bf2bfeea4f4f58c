import { AsyncLocalStorage } from 'node:async_hooks';
import { newClientId, randomAttempt } from '../core/store/attempt-ids.js';
import { type Clock } from '../core/clock.js';
import {
  type AcquireReply,
  type AcquireRequest,
  type HoldRef,
  type LastRun,
  type LockState,
  type LockStore,
  type LostReply,
  type ReleaseReply,
  type ReleaseRequest,
  type RenewReply,
  type RenewRequest,
  type WakeUpListener,
} from '../core/store/lock-store.js';
import { lastRunOf, checkListOptions, type ListOptions, listLocks } from '../core/store/lock-state.js';
import { type Reporter } from '../core/reporter.js';
import { encodeJob } from './codec/script-calls.js';
import { Acquirer } from './acquire/acquirer.js';
import { CommandRunner } from './connection/command-runner.js';
import { groupKeys } from './connection/cluster-slots.js';
import { noneOfOurs, scanKeys } from './scan.js';
import { readRuns, readLockState } from './codec/lock-record.js';
import {
  type RedisClient,
  type RedisConnection,
  checkClient,
  isCluster,
  isRedisClient,
  openClient,
} from './connection/redis-client.js';
import { serveQueue } from './queue-serving.js';
import { RedisKeys } from './codec/redis-keys.js';
import { ReplicaAcks } from './acquire/replica-acks.js';
import { type LockScripts } from './scripts/lock-scripts.js';
import { type IsThere, type SentinelWatch, watchSentinels } from './connection/sentinel-watch.js';
import { readLostReply } from './codec/store-replies.js';
import { WakeUpChannel, withoutGrants } from './wake-ups/wake-up-channel.js';

export interface RedisLockStoreOptions {
  /** Of the quorum of which this is a node; else the store has its own. */
  readonly clientId?: string;
  readonly connection: RedisConnection;
  readonly keyPrefix: string;
  readonly keepMs: number;
  readonly minReplicas: number;
  readonly replicaTimeoutMs: number;
  readonly hashTag?: ((key: string) => string | undefined) | undefined;
  readonly scripts: LockScripts;
  readonly clock: Clock;
  readonly reporter: Reporter;
}

/** How long one command may take that nobody's lease depends on. */
const OPERATOR_TIMEOUT_MS = 5_000;
/** How often a revocation looks at the lock: between look and command the lock may be handed over to the next. */
const MAX_LOOKS = 3;

/** Locks in one Redis: turns requests into scripts, and their replies into outcomes. */
export class RedisLockStore implements LockStore {
  readonly clientId: string;
  readonly commands: CommandRunner;
  readonly #keys: RedisKeys;
  readonly #client: RedisClient;
  readonly #replicas: ReplicaAcks | null;
  readonly #acquirer: Acquirer;
  /** Connections and timers are the module's, whoever's call made them necessary. */
  readonly #inOurContext = AsyncLocalStorage.snapshot();
  #channel: WakeUpChannel | null = null;
  #sentinels: SentinelWatch | null = null;
  #listener: WakeUpListener | null = null;

  constructor(private readonly options: RedisLockStoreOptions) {
    const { connection, clock, reporter } = options;
    const given = isRedisClient(connection);
    this.#client = given ? connection : openClient(connection);
    checkClient(this.#client);
    this.clientId = options.clientId ?? newClientId();
    this.#keys = new RedisKeys(options.keyPrefix, options.hashTag);
    this.commands = new CommandRunner(this.#client, !given, clock, reporter);
    this.#replicas =
      options.minReplicas > 0 ? new ReplicaAcks((storageKey) => this.commands.liveClient(storageKey), options) : null;
    this.#acquirer = new Acquirer({
      ...options,
      commands: this.commands,
      replicas: this.#replicas,
      storageKey: (key) => this.#keys.storageKey(key),
      shared: () => this.#shared,
      release: (request, timeoutMs) => this.release(request, timeoutMs),
      onWaiting: (isListenedTo, sentAt) => {
        this.#channel?.expectMessages();
        if (!isListenedTo) this.#channel?.replace(sentAt);
      },
    });
  }

  checkKey(key: string): void {
    this.#keys.storageKey(key);
  }

  listen(listener: WakeUpListener): void {
    this.#listener = listener;
  }

  open(): void {
    if (this.#channel || !this.#listener) return;
    // A grant that was pushed is not confirmed by replicas: whoever gets one has to ask.
    const listener = this.#replicas ? withoutGrants(this.#listener) : this.#listener;
    const { clock, reporter } = this.options;
    this.commands.connect();
    const name = this.#channelPrefix + this.clientId;
    this.#channel = this.#inOurContext(() => new WakeUpChannel(this.commands, name, listener, clock, reporter));
    this.commands.onServerId = () => this.#channel?.follow();
    this.#sentinels = this.#inOurContext(() => watchSentinels(this.#client, this.#onMaster, clock, reporter));
  }

  /** What the old master wrote since its replica was promoted is lost: all who hold or wait ask the new one at once. */
  readonly #onMaster = (isThere: IsThere): void => {
    for (const part of [this.#channel, this.#replicas]) part?.move(isThere);
    this.commands.move(isThere, (client) => client.once('ready', () => this.#listener?.onGap()));
  };

  groups(keys: readonly string[]): readonly (readonly string[])[] {
    return groupKeys(keys, (key) => this.#keys.storageKey(key), this.#client);
  }

  acquire(request: AcquireRequest, timeoutMs: number, onLate: (reply: AcquireReply) => void): Promise<AcquireReply> {
    this.open();
    return this.#acquirer.acquire(request, timeoutMs, onLate);
  }

  withdraw(attempt: string): boolean {
    return this.#acquirer.withdraw(attempt);
  }

  renew(requests: readonly RenewRequest[]): Promise<readonly RenewReply[]> {
    return Promise.all(requests.map((request) => this.#renewOne(request)));
  }

  async #renewOne({ key, attempt, fencingToken, leaseMs, mode, timeoutMs }: RenewRequest): Promise<RenewReply> {
    const { renew } = this.options.scripts;
    try {
      const operands = renew.operands({ ...this.#sharedOf(key), attempt, token: String(fencingToken), leaseMs, mode });
      const reply = await this.commands.run({ script: renew, operands, key, timeoutMs, echo: attempt });
      if (reply[0] === 'renewed') return { outcome: 'renewed', remainingMs: Number(reply[3]) };
      return readLostReply(reply);
    } catch (cause) {
      return { outcome: 'unknown', cause };
    }
  }

  async release(request: ReleaseRequest, timeoutMs: number): Promise<ReleaseReply> {
    const { key, attempt, holdAtLeastMs, runOutcome = '-' } = request;
    const { release } = this.options.scripts;
    const told = { holdAtLeastMs, job: encodeJob(request.job), runOutcome, unanswered: request.unanswered ? 1 : 0 };
    const operands = release.operands({ ...this.#sharedOf(key), attempt, ...told });
    const { epoch } = this.commands;
    const call = { script: release, operands, key, timeoutMs, echo: attempt };
    const reply = await this.commands.run(call);
    void serveQueue(this.commands, call, reply);
    const outcome = reply[0] as ReleaseReply['outcome'];
    // Sent twice by ioredis, whose first answer was lost: then no trace is no proof that the hold was lost before.
    const resent = this.commands.epoch !== epoch && (outcome === 'unknown' || outcome === 'expired');
    return { outcome: resent ? 'again' : outcome, holds: Number(reply[3]), lastToken: Number(reply[4]) };
  }

  async downgrade(hold: HoldRef, timeoutMs: number): Promise<{ readonly outcome: 'downgraded' } | LostReply> {
    const { key, attempt, fencingToken } = hold;
    const { downgrade } = this.options.scripts;
    const operands = downgrade.operands({ ...this.#sharedOf(key), attempt, token: String(fencingToken) });
    const reply = await this.commands.run({ script: downgrade, operands, key, timeoutMs, echo: attempt });
    return reply[0] === 'downgraded' ? { outcome: 'downgraded' } : readLostReply(reply);
  }

  async forceRelease(key: string): Promise<boolean> {
    const { forceRelease } = this.options.scripts;
    for (let looks = 1; ; looks += 1) {
      const { holders, fencingToken } = await this.inspect(key);
      const attempt = randomAttempt(this.clientId);
      const operands = forceRelease.operands({ ...this.#sharedOf(key), attempt, seenToken: String(fencingToken) });
      const call = { script: forceRelease, operands, key, timeoutMs: OPERATOR_TIMEOUT_MS, echo: attempt };
      const [outcome, , , holds] = await this.commands.run(call);
      const hasEnded = outcome === 'again' || Number(holds) > 0;
      if (hasEnded || holders.length === 0 || looks === MAX_LOOKS) return hasEnded;
    }
  }

  async inspect(key: string): Promise<LockState> {
    return readLockState(key, await this.#inspect(key));
  }

  async lastRun(key: string, job?: string): Promise<LastRun | null> {
    return lastRunOf(await this.runs(key), job);
  }

  /** The last run of each job. */
  async runs(key: string): Promise<readonly LastRun[]> {
    return readRuns(await this.#inspect(key));
  }

  list(options: ListOptions): AsyncIterable<LockState> {
    checkListOptions(options);
    return listLocks(this.scan(options.prefix), options.limit, (key) => this.inspect(key).catch(noneOfOurs));
  }

  /** The keys of locks, held or not, that begin with `prefix`. */
  scan(prefix: string): AsyncIterable<string> {
    return scanKeys(this.commands, { keys: this.#keys, prefix, timeoutMs: OPERATOR_TIMEOUT_MS });
  }

  /** For a node of a quorum: gives a hold the token that the nodes' grants add up to; false when it is lost. */
  async writeBack({ key, attempt, fencingToken }: HoldRef, newToken: number, timeoutMs: number): Promise<boolean> {
    const { writeBack } = this.options.scripts;
    const tokens = { token: String(fencingToken), newToken: String(newToken) };
    const operands = writeBack.operands({ ...this.#sharedOf(key), attempt, ...tokens });
    const reply = await this.commands.run({ script: writeBack, operands, key, timeoutMs, echo: attempt });
    return reply[0] === 'written';
  }

  async close(): Promise<void> {
    await Promise.all([this.#sentinels, this.#channel, this.commands, this.#replicas].map(async (one) => one?.close()));
  }

  #inspect(key: string): Promise<string[]> {
    const { inspect } = this.options.scripts;
    const operands = inspect.operands({ lock: this.#keys.storageKey(key) });
    return this.commands.run({ script: inspect, operands, key, timeoutMs: OPERATOR_TIMEOUT_MS });
  }

  /** Passed as an argument, because the key prefix of ioredis does not reach channels. */
  get #channelPrefix(): string {
    return `${this.options.keyPrefix}wake:`;
  }

  get #shared() {
    return {
      keepMs: this.options.keepMs,
      channelPrefix: this.#channelPrefix,
      // A node of a cluster counts only the subscribers that are connected to itself.
      countReceivers: isCluster(this.#client) ? 0 : 1,
    };
  }

  #sharedOf(key: string) {
    return { ...this.#shared, lock: this.#keys.storageKey(key) };
  }
}
