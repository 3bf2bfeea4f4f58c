import { type Clock } from '../../core/clock.js';
import { type WakeUp, type WakeUpListener } from '../../core/store/lock-store.js';
import { WAKE_UP_SPREAD_MS } from '../timing.js';
import { type QuorumNode } from './quorum-node.js';
import { majorityOf } from './votes.js';

/**
 * Listens to all nodes. A release reaches them one after the other, and a waiter that sent its request at the first message
 * would split the votes. Therefore it is woken when a majority has sent a message, or soon after the first message.
 */
export class QuorumWakeUps {
  readonly #reports = new Map<string, Report>();
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
      onMessagesMissed: () => this.listener.onMessagesMissed(),
    });
  }

  close(): void {
    this.#isClosed = true;
    for (const { cancel } of this.#reports.values()) cancel();
    this.#reports.clear();
  }

  #onWakeUp(node: QuorumNode, attempt: string, wakeUp: WakeUp): void {
    if (this.#isClosed) return;
    if (wakeUp.kind === 'revoked') return this.listener.onWakeUp(attempt, wakeUp);
    // A second message of a node belongs to another release.
    if (this.#reports.get(attempt)?.nodes.has(node)) this.#settle(attempt);
    const report = this.#reports.get(attempt) ?? this.#expect(attempt);
    report.nodes.add(node);
    if (report.nodes.size === majorityOf(this.nodes)) this.#wake(attempt, report);
  }

  #expect(attempt: string): Report {
    const cancel = this.clock.setTimer(() => this.#settle(attempt), WAKE_UP_SPREAD_MS);
    const report: Report = { nodes: new Set(), cancel, hasWoken: false };
    this.#reports.set(attempt, report);
    return report;
  }

  #settle(attempt: string): void {
    const report = this.#reports.get(attempt);
    if (!report) return;
    report.cancel();
    this.#reports.delete(attempt);
    this.#wake(attempt, report);
  }

  #wake(attempt: string, report: Report): void {
    if (report.hasWoken) return;
    report.hasWoken = true;
    this.listener.onWakeUp(attempt, { kind: 'wake' });
  }
}

/** The nodes that have reported one release so far. */
interface Report {
  readonly nodes: Set<QuorumNode>;
  readonly cancel: () => void;
  hasWoken: boolean;
}
