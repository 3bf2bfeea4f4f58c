import { type Clock } from '../../core/clock.js';
import {
  type AcquireReply,
  type AcquireRequest,
  type ReleaseReply,
  type ReleaseRequest,
} from '../../core/store/lock-store.js';
import { LockConfigurationError, LockStoreError, mayBeCarriedOut } from '../../core/lock.errors.js';
import { isRetryable } from '../connection/redis-errors.js';
import { readableText } from '../connection/error-advice.js';
import { type RedisLockStore } from '../redis-lock-store.js';
import { MAX_UNANSWERED } from '../timing.js';
import { type NodeIdentity } from './node-identity.js';
import { PendingReleases } from './pending-releases.js';

type Send<T> = (store: RedisLockStore) => Promise<T>;

/** One master of a quorum. */
export class QuorumNode {
  readonly pendingReleases: PendingReleases;
  /** Attempts whose acquire is under way. */
  readonly #acquiring = new Set<string>();
  /** Attempts of which an acquire had no answer, and may still reach the node. */
  readonly #unanswered = new Set<string>();

  constructor(
    readonly store: RedisLockStore,
    private readonly identity: NodeIdentity,
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

  /** The run id of the server that it leads to; undefined: unknown. */
  get runId(): string | undefined {
    return this.identity.runId;
  }

  /** Whether it has to be identified before a vote: it never was, or it is set up wrongly as far as known. */
  get isUnidentified(): boolean {
    return this.identity.isNew || this.configurationError !== null;
  }

  /** Why it cannot be a node of this quorum. */
  get configurationError(): LockConfigurationError | null {
    const { fault } = this.identity;
    return fault instanceof LockConfigurationError ? fault : null;
  }

  /** Learns which server it leads to. @throws LockStoreError */
  async identify(): Promise<void> {
    await this.identity.identify();
  }

  /**
   * Asks for an answer that counts: that of an independent master. Rejects at once when the node is known to be away, so that
   * nobody waits for its vote.
   * @throws LockStoreError; LockConfigurationError for a node that is set up wrongly
   */
  async ask<T>(send: Send<T>, onUncounted?: (answer: T) => void): Promise<T> {
    const { outage } = this.store.commands;
    if (!outage) return this.askPatiently(send, onUncounted);
    const retryable = isRetryable(outage);
    throw new LockStoreError(readableText(outage), { cause: outage, retryable, wasSent: false });
  }

  /** The same, but waits for a node that is away. `onUncounted` receives an answer that does not count. */
  async askPatiently<T>(send: Send<T>, onUncounted?: (answer: T) => void): Promise<T> {
    const runId = await this.identity.check();
    const answer = await send(this.store);
    if (await this.identity.isStill(runId)) return answer;
    // The command was sent again after a lost connection, perhaps to another server; or the server was demoted.
    onUncounted?.(answer);
    const { fault } = this.identity;
    const text = fault?.message ?? `The connection to ${this.name} was lost, and another server may have answered.`;
    throw new LockStoreError(text);
  }

  /** `onLate` also receives a reply that does not count. */
  async acquire(
    request: AcquireRequest,
    timeoutMs: number,
    onLate: (reply: AcquireReply) => void,
  ): Promise<AcquireReply> {
    const { attempt } = request;
    const send = async (store: RedisLockStore): Promise<AcquireReply> => {
      this.#acquiring.add(attempt);
      try {
        const reply = await store.acquire(request, timeoutMs, onLate);
        if ('unanswered' in reply && reply.unanswered) this.#noteUnanswered(attempt);
        return reply;
      } catch (error) {
        if (mayBeCarriedOut(error)) this.#noteUnanswered(attempt);
        throw error;
      } finally {
        this.#acquiring.delete(attempt);
      }
    };
    return this.askAbout(attempt, send, onLate);
  }

  /** Asks about an attempt, unless its acquire is under way: a grant that replicas do not confirm will be given back. */
  async askAbout<T>(attempt: string, send: Send<T>, onUncounted?: (answer: T) => void): Promise<T> {
    if (!this.#acquiring.has(attempt)) return this.ask(send, onUncounted);
    throw new LockStoreError(`${this.name} has not answered yet whether it grants the lock.`);
  }

  /** Releases now, or as soon as the node is back, until the lease is over. @throws LockStoreError when it is not done now */
  async release(given: ReleaseRequest, timeoutMs: number): Promise<ReleaseReply> {
    const { attempt } = given;
    // Built when it is sent: an acquire that was requested before it has been sent by then.
    const request = (): ReleaseRequest => {
      const mayArrive = this.#acquiring.has(attempt) || this.#unanswered.has(attempt);
      return mayArrive ? { ...given, unanswered: true } : given;
    };
    try {
      return await this.ask((store) => store.release(request(), timeoutMs));
    } catch (error) {
      // A node that is set up wrongly was never asked for the lock.
      if (!(error instanceof LockConfigurationError)) this.pendingReleases.add(request(), timeoutMs);
      throw error;
    }
  }

  /** Forgets the oldest attempt when there are too many; its acquire is still refused when it is too old. */
  #noteUnanswered(attempt: string): void {
    const [oldest] = this.#unanswered;
    if (this.#unanswered.size >= MAX_UNANSWERED) this.#unanswered.delete(oldest!);
    this.#unanswered.add(attempt);
  }

  async close(): Promise<void> {
    this.pendingReleases.close();
    await this.store.close();
  }
}
