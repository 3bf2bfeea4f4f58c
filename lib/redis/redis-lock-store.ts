import { randomBytes } from 'node:crypto';
import { type Clock } from '../core/clock.js';
import { LockKeyError } from '../core/lock.errors.js';
import {
  type AcquireReply,
  type AcquireRequest,
  type LockState,
  type LockStore,
  type ReleaseReply,
  type ReleaseRequest,
  type RenewReply,
  type RenewRequest,
  type WakeUpListener,
} from '../core/lock-store.js';
import { type Reporter } from '../core/reporter.js';
import { CommandRunner } from './command-runner.js';
import { readLockState } from './lock-record.js';
import {
  type RedisClient,
  type RedisConnection,
  checkClient,
  isCluster,
  isRedisClient,
  openClient,
} from './redis-client.js';
import { RedisKeys } from './redis-keys.js';
import { type LockScripts } from './scripts/lock-scripts.js';
import { WakeUpChannel } from './wake-up-channel.js';

export interface RedisLockStoreOptions {
  readonly connection: RedisConnection;
  readonly keyPrefix: string;
  readonly keepMs: number;
  readonly scripts: LockScripts;
  readonly clock: Clock;
  readonly reporter: Reporter;
}

/** How long a question of `inspect` or `list` may take. */
const INSPECT_TIMEOUT_MS = 5_000;

/** Locks in one Redis: turns requests into scripts, and their replies into outcomes. */
export class RedisLockStore implements LockStore {
  /** Drawn when the store is made and not when the module is loaded: a snapshot of a process must not be cloned with it. */
  readonly clientId = randomBytes(9).toString('base64url');
  readonly #keys: RedisKeys;
  readonly #commands: CommandRunner;
  readonly #client: RedisClient;
  #channel: WakeUpChannel | null = null;
  #listener: WakeUpListener | null = null;

  constructor(private readonly options: RedisLockStoreOptions) {
    const { connection, clock, reporter } = options;
    const given = isRedisClient(connection);
    this.#client = given ? connection : openClient(connection);
    checkClient(this.#client);
    if (!given) this.#client.on('error', (error: Error) => reporter.debug(`Redis connection: ${error.message}`));
    this.#keys = new RedisKeys(options.keyPrefix);
    this.#commands = new CommandRunner(this.#client, !given, clock, reporter);
  }

  checkKey(key: string): void {
    this.#keys.storageKey(key);
  }

  listen(listener: WakeUpListener): void {
    this.#listener = listener;
  }

  open(): void {
    if (this.#channel || !this.#listener) return;
    const listener = this.#listener;
    this.#commands.connect();
    this.#channel = new WakeUpChannel(
      this.#client,
      this.#channelPrefix + this.clientId,
      listener,
      this.options.reporter,
    );
  }

  async acquire(request: AcquireRequest, timeoutMs: number): Promise<AcquireReply> {
    this.open();
    const { key, attempt, owner, mode, leaseMs, waiterLeaseMs, fair, limit, holder } = request;
    const operands = this.options.scripts.acquire.operands({
      ...this.#shared(key),
      attempt,
      owner: owner === undefined ? '-' : encodeURIComponent(owner),
      mode,
      leaseMs,
      waiterLeaseMs,
      fair: fair ? 1 : 0,
      limit,
      holder,
    });
    const reply = await this.#commands.run(this.options.scripts.acquire, operands, key, timeoutMs, attempt);
    const [outcome, , now, first, second, third] = reply;
    if (outcome === 'granted') return { outcome, fencingToken: safeToken(key, first), remainingMs: Number(second) };
    if (outcome === 'refused') return { outcome, reason: first as 'released' | 'upgrade' };
    const holderText = third === '' ? undefined : third;
    return {
      outcome: 'busy',
      retryMs: Number(first),
      ahead: Number(second),
      holder: holderText,
      serverTimeMs: Number(now),
    };
  }

  renew(requests: readonly RenewRequest[], timeoutMs: number): Promise<readonly RenewReply[]> {
    return Promise.all(requests.map((request) => this.#renewOne(request, timeoutMs)));
  }

  async #renewOne({ key, attempt, fencingToken, leaseMs }: RenewRequest, timeoutMs: number): Promise<RenewReply> {
    const { renew } = this.options.scripts;
    const operands = renew.operands({ ...this.#shared(key), attempt, token: String(fencingToken), leaseMs });
    try {
      const [outcome, , , value] = await this.#commands.run(renew, operands, key, timeoutMs, attempt);
      if (outcome === 'renewed') return { outcome, remainingMs: Number(value) };
      return { outcome: 'lost', lastToken: Number(value) };
    } catch (cause) {
      return { outcome: 'unknown', cause };
    }
  }

  async release({ key, attempt, minHoldMs }: ReleaseRequest, timeoutMs: number): Promise<ReleaseReply> {
    const { release } = this.options.scripts;
    const operands = release.operands({ ...this.#shared(key), attempt, minHoldMs });
    const [outcome, , , holds, token] = await this.#commands.run(release, operands, key, timeoutMs, attempt);
    return { outcome: outcome as ReleaseReply['outcome'], holds: Number(holds), lastToken: Number(token) };
  }

  async inspect(key: string): Promise<LockState> {
    const { inspect } = this.options.scripts;
    const operands = inspect.operands({ lock: this.#keys.storageKey(key) });
    return readLockState(key, await this.#commands.run(inspect, operands, key, INSPECT_TIMEOUT_MS));
  }

  async *list({ prefix, limit }: { readonly prefix: string; readonly limit: number }): AsyncIterable<LockState> {
    const client = this.#commands.client;
    const seen = new Set<string>();
    for (const node of isCluster(client) ? client.nodes('master') : [client]) {
      // ioredis adds its own key prefix to keys, but neither to a pattern nor to what SCAN gives.
      const before = node.options.keyPrefix ?? '';
      let cursor = '0';
      do {
        const [next, found] = await node.scan(cursor, 'MATCH', this.#keys.pattern(prefix, before), 'COUNT', 100);
        for (const storageKey of found) {
          if (seen.size >= limit) return;
          const key = this.#keys.keyOf(storageKey.slice(before.length));
          if (seen.has(key)) continue;
          const state = await this.inspect(key);
          // A key without holders is the remembered token of a lock that is free.
          if (state.mode === 'free' && state.waiters === 0) continue;
          seen.add(key);
          yield state;
        }
        cursor = next;
      } while (cursor !== '0');
    }
  }

  async close(): Promise<void> {
    await Promise.all([this.#channel?.close(), this.#commands.close()]);
  }

  /** Passed as an argument, because the key prefix of ioredis does not reach channels. */
  get #channelPrefix(): string {
    return `${this.options.keyPrefix}wake:`;
  }

  #shared(key: string) {
    return {
      lock: this.#keys.storageKey(key),
      keepMs: this.options.keepMs,
      channelPrefix: this.#channelPrefix,
      // A node of a cluster counts only the subscribers that are connected to itself.
      countReceivers: isCluster(this.#client) ? 0 : 1,
    };
  }
}

function safeToken(key: string, text: string | undefined): number {
  const token = Number(text);
  if (Number.isSafeInteger(token)) return token;
  throw new LockKeyError(`The fencing token of the lock "${key}" is no safe integer: ${text}.`, { key });
}
