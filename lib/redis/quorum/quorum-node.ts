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
import { type NodeIdentity } from './node-identity.js';
import { PendingReleases } from './pending-releases.js';

/** For so many attempts a node is remembered not to have answered. */
const MAX_UNANSWERED = 1_000;

type Send<T> = (store: RedisLockStore) => Promise<T>;

/** One master of a quorum. */
export class QuorumNode {
  readonly pendingReleases: PendingReleases;
  /** Attempts whose acquire has no answer yet. */
  readonly #acquiring = new Set<string>();
  /** Attempts of which an acquire had no answer, and may still arrive there. */
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

  /** The run id of the server to which it leads; undefined: not known. */
  get runId(): string | undefined {
    return this.identity.runId;
  }

  /** Whether it has to be met before a vote, because it was never seen, or is set up wrongly as far as seen. */
  get isStranger(): boolean {
    return this.identity.isNew || this.misfit !== null;
  }

  /** Why it cannot be a node of this quorum. */
  get misfit(): LockConfigurationError | null {
    const { fault } = this.identity;
    return fault instanceof LockConfigurationError ? fault : null;
  }

  /** Learns which server it leads to. @throws LockStoreError */
  async meet(): Promise<void> {
    await this.identity.identify();
  }

  /**
   * Asks for an answer that counts: of a master of its own. At once, or fails at once when the node is known to be
   * away: others wait for its vote.
   * @throws LockStoreError; LockConfigurationError for a node that is set up wrongly
   */
  async ask<T>(send: Send<T>, onDoubt?: (answer: T) => void): Promise<T> {
    const { outage } = this.store.commands;
    if (!outage) return this.askPatiently(send, onDoubt);
    const retryable = isRetryable(outage);
    throw new LockStoreError(readableText(outage), { cause: outage, retryable, wasSent: false });
  }

  /** The same, and waits for a node that is away. `onDoubt` hears an answer that does not count. */
  async askPatiently<T>(send: Send<T>, onDoubt?: (answer: T) => void): Promise<T> {
    const runId = await this.identity.check();
    const answer = await send(this.store);
    if ((await this.identity.check().catch(() => undefined)) === runId) return answer;
    // The command was sent again after a lost connection, maybe to another server.
    onDoubt?.(answer);
    throw new LockStoreError(`The connection to ${this.name} was lost, and another server may have answered.`);
  }

  /** `onLate` hears also a reply that does not count. */
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

  /** Asks about an attempt, unless an acquire of it is under way: what replicas do not confirm in time is given back then. */
  async askAbout<T>(attempt: string, send: Send<T>, onDoubt?: (answer: T) => void): Promise<T> {
    if (!this.#acquiring.has(attempt)) return this.ask(send, onDoubt);
    throw new LockStoreError(`${this.name} has not answered yet whether it grants the lock.`);
  }

  /** Gives back now, or as soon as the node can be asked, until the lease is over. @throws LockStoreError when not now */
  async release(asked: ReleaseRequest, timeoutMs: number): Promise<ReleaseReply> {
    const { attempt } = asked;
    // Known when it is sent: an acquire that was asked before is sent before.
    const request = (): ReleaseRequest => {
      const mayArrive = this.#acquiring.has(attempt) || this.#unanswered.has(attempt);
      return mayArrive ? { ...asked, unanswered: true } : asked;
    };
    try {
      return await this.ask((store) => store.release(request(), timeoutMs));
    } catch (error) {
      // Nothing was ever asked of a node that does not belong there.
      if (!(error instanceof LockConfigurationError)) this.pendingReleases.add(request(), timeoutMs);
      throw error;
    }
  }

  /** More than that are not known any more; an acquire of theirs is still refused when it is too old. */
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
