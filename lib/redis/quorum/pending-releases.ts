import { type Clock } from '../../core/clock.js';
import { type LockStore, type ReleaseRequest } from '../../core/store/lock-store.js';
import { MAX_PENDING_RELEASES, MAX_RELEASES_UNDER_WAY, RELEASE_RETRY_MS } from '../timing.js';

/** The node that the releases are for. */
interface ReleasingNode {
  /** Whether it is known that no command reaches it now. */
  readonly isAway: boolean;
  ask<T>(send: (store: Pick<LockStore, 'release'>) => Promise<T>): Promise<T>;
}

interface Pending {
  readonly request: ReleaseRequest;
  readonly timeoutMs: number;
  /** When the lease is over, and with it what there was to release. */
  readonly until: number;
}

/**
 * Releases that a node did not confirm. A majority did, so no caller waits for them. But a hold that stays on the node would
 * count against the next holder as soon as another node is away.
 */
export class PendingReleases {
  readonly #pending = new Map<string, Pending>();
  #underWay = 0;
  #cancel: (() => void) | null = null;
  #isClosed = false;

  constructor(
    private readonly node: ReleasingNode,
    private readonly clock: Clock,
  ) {}

  get size(): number {
    return this.#pending.size;
  }

  add(request: ReleaseRequest, timeoutMs: number, until = this.clock.now() + request.leaseMs): void {
    if (this.#isClosed) return;
    const [oldest] = this.#pending.keys();
    if (this.#pending.size >= MAX_PENDING_RELEASES) this.#pending.delete(oldest!);
    this.#pending.set(`${request.attempt} ${request.key}`, { request, timeoutMs, until });
    this.#schedule();
  }

  close(): void {
    this.#isClosed = true;
    this.#cancel?.();
    this.#pending.clear();
  }

  #schedule(): void {
    if (this.#pending.size > 0) this.#cancel ??= this.clock.setTimer(() => this.#retry(), RELEASE_RETRY_MS);
  }

  #retry(): void {
    this.#cancel = null;
    for (const [id, { until }] of this.#pending) if (this.clock.now() >= until) this.#pending.delete(id);
    for (let free = MAX_RELEASES_UNDER_WAY - this.#underWay; free > 0; free -= 1) this.#sendNext();
    this.#schedule();
  }

  /** Sends one when the node is back; its answer sends the next one. */
  #sendNext(): void {
    const [next] = this.#pending;
    if (!next || this.node.isAway) return;
    const [id, { request, timeoutMs, until }] = next;
    this.#pending.delete(id);
    this.#underWay += 1;
    this.node
      .ask((store) => store.release(request, timeoutMs))
      .finally(() => (this.#underWay -= 1))
      .then(
        () => this.#sendNext(),
        () => this.add(request, timeoutMs, until),
      );
  }
}
