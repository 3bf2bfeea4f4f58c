import { type Clock } from '../../core/clock.js';
import { type WakeUp, type WakeUpListener } from '../../core/store/lock-store.js';
import { majorityOf } from './votes.js';
import { type QuorumNode } from './quorum-node.js';

/** How long the first node that tells of a release is ahead of the others at most, usually. */
const SETTLE_MS = 10;

/**
 * Listens to all nodes. A release reaches them one after the other: whoever asks at the first word of it splits the votes.
 * So a waiter is woken when a majority told it, or soon after the first did.
 */
export class QuorumWakeUps {
  readonly #told = new Map<string, Told>();
  #isClosed = false;

  constructor(
    private readonly clock: Clock,
    private readonly nodes: readonly QuorumNode[],
    private readonly listener: WakeUpListener,
  ) {}

  listenTo(node: QuorumNode): void {
    node.store.listen({
      onWakeUp: (attempt, wakeUp) => this.#onWakeUp(node, attempt, wakeUp),
      onListening: () => this.listener.onListening(),
      onGap: () => this.listener.onGap(),
    });
  }

  close(): void {
    this.#isClosed = true;
    for (const { cancel } of this.#told.values()) cancel();
    this.#told.clear();
  }

  #onWakeUp(node: QuorumNode, attempt: string, wakeUp: WakeUp): void {
    if (this.#isClosed) return;
    if (wakeUp.kind === 'revoked') return this.listener.onWakeUp(attempt, wakeUp);
    // A node that tells again tells of another release.
    if (this.#told.get(attempt)?.nodes.has(node)) this.#settle(attempt);
    const told = this.#told.get(attempt) ?? this.#expect(attempt);
    told.nodes.add(node);
    if (told.nodes.size === majorityOf(this.nodes)) this.#wake(attempt, told);
  }

  #expect(attempt: string): Told {
    const cancel = this.clock.setTimer(() => this.#settle(attempt), SETTLE_MS);
    const told: Told = { nodes: new Set(), cancel, hasWoken: false };
    this.#told.set(attempt, told);
    return told;
  }

  #settle(attempt: string): void {
    const told = this.#told.get(attempt);
    if (!told) return;
    told.cancel();
    this.#told.delete(attempt);
    this.#wake(attempt, told);
  }

  #wake(attempt: string, told: Told): void {
    if (told.hasWoken) return;
    told.hasWoken = true;
    this.listener.onWakeUp(attempt, { kind: 'wake' });
  }
}

/** Who has told of a release so far. */
interface Told {
  readonly nodes: Set<QuorumNode>;
  readonly cancel: () => void;
  hasWoken: boolean;
}
