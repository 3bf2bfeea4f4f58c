import { type Clock } from '../../core/clock.js';
import { type WakeUp, type WakeUpListener } from '../../core/lock-store.js';
import { majorityOf } from './votes.js';
import { type QuorumNode } from './quorum-node.js';

/** How long the first node that tells of a release is ahead of the others at most, usually. */
const SETTLE_MS = 10;

/**
 * Listens to all nodes. A release reaches them one after the other: whoever asks at the first word of it splits the votes.
 * So a waiter is woken when a majority told it, or soon after the first did.
 */
export class QuorumWakeUps {
  readonly #told = new Map<string, { readonly nodes: Set<QuorumNode>; readonly cancel: () => void }>();

  constructor(
    private readonly clock: Clock,
    private readonly nodes: readonly QuorumNode[],
    private readonly listener: WakeUpListener,
  ) {}

  listenTo(node: QuorumNode): void {
    node.store.listen({
      onWakeUp: (attempt, wakeUp) => this.#onWakeUp(node, attempt, wakeUp),
      onGap: () => this.listener.onGap(),
    });
  }

  close(): void {
    for (const { cancel } of this.#told.values()) cancel();
    this.#told.clear();
  }

  #onWakeUp(node: QuorumNode, attempt: string, wakeUp: WakeUp): void {
    if (wakeUp.kind === 'revoked') return this.listener.onWakeUp(attempt, wakeUp);
    const { nodes } = this.#told.get(attempt) ?? this.#expect(attempt);
    nodes.add(node);
    if (nodes.size >= majorityOf(this.nodes)) this.#wake(attempt);
  }

  #expect(attempt: string) {
    const cancel = this.clock.setTimer(() => this.#wake(attempt), SETTLE_MS);
    const expected = { nodes: new Set<QuorumNode>(), cancel };
    this.#told.set(attempt, expected);
    return expected;
  }

  #wake(attempt: string): void {
    this.#told.get(attempt)?.cancel();
    this.#told.delete(attempt);
    this.listener.onWakeUp(attempt, { kind: 'wake' });
  }
}
