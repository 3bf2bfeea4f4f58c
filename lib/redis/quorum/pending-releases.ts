import { type Clock } from '../../core/clock.js';
import { type ReleaseRequest } from '../../core/lock-store.js';
import type { QuorumNode } from './quorum-node.js';

/** How often a node is asked that did not answer. */
const RETRY_MS = 250;
/** More than that end with their leases. */
const MAX_PENDING = 10_000;

interface Pending {
  readonly request: ReleaseRequest;
  readonly timeoutMs: number;
  /** When the lease is over, and with it what there was to release. */
  readonly until: number;
}

/**
 * Releases that a node did not confirm. A majority did, so nobody waits for them; but what stays on the node would count
 * against the next holder as soon as another node is away.
 */
export class PendingReleases {
  readonly #pending = new Map<string, Pending>();
  #cancel: (() => void) | null = null;
  #isClosed = false;

  constructor(
    private readonly node: QuorumNode,
    private readonly clock: Clock,
  ) {}

  get size(): number {
    return this.#pending.size;
  }

  add(request: ReleaseRequest, timeoutMs: number, until = this.clock.now() + request.leaseMs): void {
    if (this.#isClosed || this.#pending.size >= MAX_PENDING) return;
    this.#pending.set(`${request.attempt} ${request.key}`, { request, timeoutMs, until });
    this.#cancel ??= this.clock.setTimer(() => this.#retry(), RETRY_MS);
  }

  close(): void {
    this.#isClosed = true;
    this.#cancel?.();
    this.#pending.clear();
  }

  #retry(): void {
    this.#cancel = null;
    for (const [id, pending] of this.#pending) {
      if (this.clock.now() >= pending.until) this.#pending.delete(id);
      // Sent when the node is back, and then all at once.
      else if (!this.node.isAway) this.#send(id, pending);
    }
    if (this.#pending.size > 0) this.#cancel = this.clock.setTimer(() => this.#retry(), RETRY_MS);
  }

  #send(id: string, { request, timeoutMs, until }: Pending): void {
    this.#pending.delete(id);
    this.node.ask((store) => store.release(request, timeoutMs)).catch(() => this.add(request, timeoutMs, until));
  }
}
