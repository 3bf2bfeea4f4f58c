import { LockConfigurationError, LockStoreError } from '../../core/lock.errors.js';
import { isRetryable } from '../redis-errors.js';
import { type RedisLockStore } from '../redis-lock-store.js';

/** How long a node may take to say which server it is. */
const IDENTITY_TIMEOUT_MS = 1_000;

/** One master of a quorum. */
export class QuorumNode {
  #runId: Promise<string> | null = null;
  #known: string | null = null;
  #epoch = -1;

  constructor(readonly store: RedisLockStore) {}

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
    if (outage) throw new LockStoreError(outage.message, { cause: outage, retryable: isRetryable(outage) });
    return send(this.store);
  }

  /**
   * The same for a vote that counts, after it is sure that no other node leads to the same server.
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

async function readRunId({ commands }: RedisLockStore): Promise<string> {
  const client = commands.liveClient();
  const info = () => (client as { info(section: string): Promise<string> }).info('server');
  const text = await commands.ask(client, info, { key: 'INFO server', timeoutMs: IDENTITY_TIMEOUT_MS });
  const runId = /^run_id:(\w+)/m.exec(text)?.[1];
  if (runId === undefined) throw new LockStoreError('The server does not tell its run id (INFO server).');
  return runId;
}
