import { AsyncLocalStorage } from 'node:async_hooks';
import { newClientId, randomAttempt } from '../core/store/attempt-ids.js';
import {
  type AdoptingStore,
  type FireStore,
  type HistoryStore,
  type OperatorStore,
  type PermitStore,
} from '../core/store/capabilities.js';
import {
  type AcquireReply,
  type AcquireRequest,
  type AdoptReply,
  type AdoptRequest,
  type HoldRef,
  type LockStore,
  type ReleaseReply,
  type ReleaseRequest,
  type RenewReply,
  type RenewRequest,
  type WakeUpListener,
} from '../core/store/lock-store.js';
import {
  type JobOfKey,
  type LastRun,
  lastRunOf,
  type ListOptions,
  type LockState,
  type UnreadableKey,
} from '../core/store/lock-state.js';
import { Acquirer } from './acquirer.js';
import { Batcher } from './batcher.js';
import { openClient } from './client/client-libraries.js';
import { type RedisClient } from './client/cluster.js';
import { type LeadsToMaster, type MasterWatch } from './client/redis-client.js';
import { RedisKeys, groupKeys } from './codec/redis-keys.js';
import { ScriptCalls } from './codec/script-calls.js';
import {
  checkSetPermitsReply,
  readAdoptReply,
  readForceReleaseReply,
  readLockState,
  readReleaseReply,
  readRenewReply,
  readRuns,
  readWriteBackReply,
} from './codec/replies.js';
import { Connection } from './connection/connection.js';
import { ServerCheck } from './connection/server-check.js';
import { RedisHistory } from './redis-history.js';
import { type RedisLockStoreOptions } from './redis-lock-store.options.js';
import { ReplicaAcks } from './replica-acks.js';
import { jobsOf, listOf, scanKeys } from './scan.js';
import { MAX_REVOKE_TRIES } from './timing.js';
import { WakeUpChannel } from './wake-ups/wake-up-channel.js';

/** Locks in one Redis: turns requests into scripts, and their replies into outcomes. */
export class RedisLockStore implements LockStore, AdoptingStore, PermitStore, FireStore, OperatorStore, HistoryStore {
  readonly clientId: string;
  readonly keyPrefix: string;
  readonly reservesTokens = true;
  readonly commands: Connection;
  readonly history: RedisHistory;
  readonly #client: RedisClient;
  readonly #keys: RedisKeys;
  readonly #calls: ScriptCalls;
  readonly #replicas: ReplicaAcks | null;
  /** Private, so that a log of the store does not show its passwords. */
  readonly #options: RedisLockStoreOptions;
  readonly #batcher: Batcher;
  readonly #check: ServerCheck;
  readonly #acquirer: Acquirer;
  /** Connections and timers belong to the module, whichever call made them necessary. */
  readonly #inOurContext = AsyncLocalStorage.snapshot();
  #channel: WakeUpChannel | null = null;
  #masters: MasterWatch | null = null;
  #listener: WakeUpListener | null = null;
  #stopAwaitingMove = (): void => undefined;

  constructor(options: RedisLockStoreOptions) {
    this.#options = options;
    const { connection, clock, random, reporter, keyPrefix, keepMs } = options;
    this.#client = openClient(connection, { clock, random, reporter });
    this.keyPrefix = keyPrefix;
    this.clientId = options.clientId ?? newClientId(options.random);
    this.#keys = new RedisKeys(keyPrefix, options.hashTag);
    // A node of a cluster counts only its own subscribers.
    const countReceivers = !this.#client.isCluster;
    const { operatorTimeoutMs } = options;
    const callOptions = { keepMs, channelPrefix: this.#keys.channelPrefix, countReceivers, operatorTimeoutMs };
    this.#calls = new ScriptCalls(options.scripts, this.#keys, callOptions);
    this.commands = new Connection(this.#client, clock, reporter);
    this.history = new RedisHistory(this.commands, options.scripts, this.#keys, clock);
    this.#check = new ServerCheck({ ...options, commands: this.commands });
    this.commands.refusal = (key) => this.#check.refusal(key);
    this.#replicas = options.minReplicas > 0 || options.durable ? new ReplicaAcks(this.#client, options) : null;
    this.#batcher = new Batcher({
      commands: this.commands,
      calls: this.#calls,
      afterTurn: options.afterTurn,
      reporter,
      timesOf: (operation) => this.#acquirer.timesOf(operation),
    });
    this.#acquirer = new Acquirer({
      batcher: this.#batcher,
      commands: this.commands,
      calls: this.#calls,
      clock,
      replicas: this.#replicas,
      release: (request, timeoutMs) => this.release(request, timeoutMs),
      onWaiting: (isHeard, sentAt) => {
        this.#channel?.expectMessages();
        if (!isHeard) this.#channel?.replace(sentAt);
      },
    });
  }

  checkKey(key: string): void {
    this.#keys.check(key);
  }

  listen(listener: WakeUpListener): void {
    this.#listener = listener;
  }

  open(): void {
    if (this.#channel || !this.#listener) return;
    const listener = this.#listener;
    // Replicas have not confirmed a pushed grant, and an unsafe server may also push one.
    const acceptsGrants = (): boolean => this.#replicas === null && !this.#check.isUnsafe;
    const { commands } = this;
    commands.connect();
    const name = this.#keys.channelPrefix + this.clientId;
    this.#channel = this.#inOurContext(
      () => new WakeUpChannel({ ...this.#options, commands, name, listener, acceptsGrants }),
    );
    commands.onServerId = (info) => {
      this.#channel?.follow();
      this.#check.onServer(info);
    };
    this.#masters = this.#inOurContext(() => this.#client.watchMaster(this.#onMaster));
    this.#check.watch(this.#client, this.#masters !== null || this.#options.clientId !== undefined);
  }

  /** Writes to the old master after the promotion are lost, so all holders and waiters move to the new master at once. */
  readonly #onMaster = (leadsToMaster: LeadsToMaster): void => {
    for (const part of [this.#channel, this.#replicas]) part?.move(leadsToMaster);
    this.commands.move(leadsToMaster, (client) => {
      // The connection may be moved several times before it is ready.
      this.#stopAwaitingMove();
      this.#stopAwaitingMove = client.once('ready', () => this.#listener?.onMessagesMissed());
    });
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

  release(request: ReleaseRequest, timeoutMs: number): Promise<ReleaseReply> {
    const { epoch } = this.commands;
    return new Promise((resolve, reject) => {
      const operation = this.#calls.release(request, timeoutMs);
      const take = (reply: string[]): void =>
        resolve(readReleaseReply(request.key, reply, this.commands.epoch !== epoch));
      this.#batcher.add({ operation, resolve: take, reject });
    });
  }

  /** All renewals share one promise: thousands of leases may be renewed in one turn. */
  renew(requests: readonly RenewRequest[]): Promise<readonly RenewReply[]> {
    if (requests.length === 0) return Promise.resolve([]);
    return new Promise((resolve) => {
      const replies: RenewReply[] = [];
      let missing = requests.length;
      const settle = (place: number, reply: RenewReply): void => {
        replies[place] = reply;
        missing -= 1;
        if (missing === 0) resolve(replies);
      };
      for (const [place, request] of requests.entries()) {
        const reject = (cause: unknown): void => settle(place, { outcome: 'unknown', cause });
        const take = (reply: string[]): void => settle(place, readRenewReply(request, reply));
        try {
          this.#batcher.add({ operation: this.#calls.renew(request), resolve: take, reject });
        } catch (cause) {
          reject(cause);
        }
      }
    });
  }

  /** Replicas confirm an adoption as they confirm a grant. */
  async adopt(request: AdoptRequest, timeoutMs: number): Promise<AdoptReply> {
    this.open();
    const refusal = this.#check.refusal(request.key);
    if (refusal) throw refusal;
    const call = this.#calls.adopt(request, timeoutMs);
    const reply = await this.commands.run(call);
    const isUnconfirmed = this.#replicas !== null && reply[0] === 'adopted';
    return readAdoptReply(request.key, isUnconfirmed ? await this.#replicas.confirm(call) : reply);
  }

  async forceRelease(key: string, upToToken?: number): Promise<boolean> {
    const revoke = async (token: number): Promise<boolean> => {
      const call = this.#calls.forceRelease(key, randomAttempt(this.clientId, this.#options.random), token);
      return readForceReleaseReply(key, await this.commands.run(call));
    };
    if (upToToken !== undefined) return revoke(upToToken);
    for (let tries = 1; ; tries += 1) {
      const { holders, fencingToken } = await this.inspect(key);
      const hasEnded = await revoke(fencingToken);
      if (hasEnded || holders.length === 0 || tries === MAX_REVOKE_TRIES) return hasEnded;
    }
  }

  async setPermits(key: string, permits: number | null): Promise<void> {
    const call = this.#calls.setPermits(key, randomAttempt(this.clientId, this.#options.random), permits);
    checkSetPermitsReply(key, await this.commands.run(call));
  }

  async inspect(key: string): Promise<LockState> {
    return readLockState(key, await this.commands.run(this.#calls.inspect(key)));
  }

  async lastRun(key: string, job?: string): Promise<LastRun | null> {
    return lastRunOf(await this.runs(key), job);
  }

  /** The last run of each job. */
  async runs(key: string): Promise<readonly LastRun[]> {
    return readRuns(key, await this.commands.run(this.#calls.inspect(key)));
  }

  list(options: ListOptions): AsyncIterable<LockState> {
    return listOf(this, options);
  }

  jobs(options: ListOptions): AsyncIterable<JobOfKey | UnreadableKey> {
    return jobsOf(this, options);
  }

  /** The keys of locks, held or not, that begin with `prefix` and contain `contains`. */
  scan(prefix: string, contains?: string): AsyncIterable<string> {
    const { operatorTimeoutMs: timeoutMs } = this.#options;
    return scanKeys(this.commands, this.#keys, { prefix, contains, timeoutMs });
  }

  /** For a node of a quorum: replaces the token of a hold by the one that the quorum chose; false when the hold is lost. */
  async writeBack(hold: HoldRef, newToken: number, timeoutMs: number): Promise<boolean> {
    return readWriteBackReply(hold.key, await this.commands.run(this.#calls.writeBack(hold, newToken, timeoutMs)));
  }

  async close(): Promise<void> {
    this.#check.close();
    await Promise.all([this.#masters, this.#channel, this.commands, this.#replicas].map(async (one) => one?.close()));
  }
}
