import { type Redis } from 'ioredis';
import { type Clock } from '../../core/clock.js';
import { type ReleaseReply, type ReleaseRequest } from '../../core/lock-store.js';
import { LockConfigurationError, LockStoreError } from '../../core/lock.errors.js';
import { isRetryable } from '../redis-errors.js';
import { type RedisLockStore } from '../redis-lock-store.js';
import { PendingReleases } from './pending-releases.js';

/** How long a node may take to tell of itself. */
const SERVER_TIMEOUT_MS = 1_000;

/** One master of a quorum. */
export class QuorumNode {
  #runId: Promise<string> | null = null;
  #known: string | null = null;
  #epoch = -1;

  readonly pendingReleases: PendingReleases;

  constructor(
    readonly store: RedisLockStore,
    clock: Clock,
  ) {
    this.pendingReleases = new PendingReleases(this, clock);
  }

  /** Whether it is known that no command reaches it now. */
  get isAway(): boolean {
    return this.store.commands.outage !== null;
  }

  /** Where it is, for people. */
  get name(): string {
    return this.store.commands.address;
  }

  /** The run id of its server, as last heard. */
  get runId(): string | null {
    return this.#known;
  }

  /** Asks at once, or fails at once when the node is known to be away: others wait for its vote. */
  async ask<T>(send: (store: RedisLockStore) => Promise<T>): Promise<T> {
    const { outage } = this.store.commands;
    if (outage) {
      const retryable = isRetryable(outage);
      throw new LockStoreError(outage.message, { cause: outage, retryable, wasSent: false });
    }
    return send(this.store);
  }

  /** Gives back now, or as soon as the node can be asked, until the lease is over. @throws LockStoreError when not now */
  async release(request: ReleaseRequest, timeoutMs: number): Promise<ReleaseReply> {
    try {
      return await this.ask((store) => store.release(request, timeoutMs));
    } catch (error) {
      this.pendingReleases.add(request, timeoutMs);
      throw error;
    }
  }

  async close(): Promise<void> {
    this.pendingReleases.close();
    await this.store.close();
  }

  /**
   * Asks for a vote that counts, after it is sure that no other node leads to the same server.
   * @throws LockConfigurationError
   */
  async vote<T>(others: readonly QuorumNode[], send: (store: RedisLockStore) => Promise<T>): Promise<T> {
    return this.ask(async (store) => {
      const runId = await this.#identify();
      const same = others.find((node) => node !== this && node.runId === runId);
      if (!same) return send(store);
      throw new LockConfigurationError(
        `Expected independent masters in \`connection\`, but ${same.name} and ${this.name} are the same server.`,
      );
    });
  }

  /** Asked again after each lost connection: an address may lead to another server then. */
  #identify(): Promise<string> {
    const { commands } = this.store;
    if (this.#runId && this.#epoch === commands.epoch) return this.#runId;
    this.#epoch = commands.epoch;
    this.#known = null;
    const asked = readRunId(this.store).then((runId) => (this.#known = runId));
    asked.catch(() => {
      if (this.#runId === asked) this.#runId = null;
    });
    this.#runId = asked;
    return asked;
  }
}

async function readRunId(store: RedisLockStore): Promise<string> {
  const text = await askServer(store, 'INFO', (client) => client.info('server'));
  const runId = /^run_id:(\w+)/m.exec(text)?.[1];
  if (runId === undefined) throw new LockStoreError('The server does not tell its run id (INFO server).');
  return runId;
}

/** The time of a server, in milliseconds. */
export async function readTime(store: RedisLockStore): Promise<number> {
  const [seconds, micros] = await askServer(store, 'TIME', (client) => client.time());
  return Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
}

function askServer<T>({ commands }: RedisLockStore, name: string, send: (client: Redis) => Promise<T>): Promise<T> {
  const client = commands.liveClient() as Redis;
  return commands.ask(client, () => send(client), { key: name, timeoutMs: SERVER_TIMEOUT_MS });
}
