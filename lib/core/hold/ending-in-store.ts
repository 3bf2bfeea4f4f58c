import { type AwaitedCalls } from '../awaited-calls.js';
import { type LockEvents } from '../lock.events.js';
import { type ReleaseReply } from '../store/lock-store.js';
import { type ScheduledCall, type TimerQueue } from '../timer-queue.js';
import { Ending } from './ending.js';
import { type ReleaseListener } from './releaser.js';
import { type StoreHold } from './store-hold.js';

/** The collaborators of an `EndingInStore`. */
export interface EndingParts {
  readonly timers: TimerQueue;
  readonly events: LockEvents;
  readonly awaited: AwaitedCalls;
  /** Called when a hold has ended. */
  readonly onGone: () => void;
}

/** The end of a hold while the store is asked to release its keys. Reports the release, or a loss that it finds. */
export class EndingInStore extends Ending implements ReleaseListener {
  readonly keys: readonly string[];
  readonly #endedAt: number;
  /** How many keys have no answer yet. */
  #waitingFor: number;
  #wereHeld = true;
  /** How many others hold the first key. */
  #holds: number | undefined;
  readonly #patience: ScheduledCall;

  /** Its caller waits for the answers for `patienceMs` from `now` on, a time of the monotonic clock. */
  constructor(
    readonly hold: StoreHold,
    { now, patienceMs }: { readonly now: number; readonly patienceMs: number },
    private readonly parts: EndingParts,
  ) {
    super();
    this.#endedAt = now;
    this.keys = hold.keys;
    this.#waitingFor = this.keys.length;
    parts.awaited.begin();
    this.#patience = parts.timers.schedule(now + patienceMs, () => this.settle(false), now);
  }

  /** A key was released, or its release was given up. */
  onReleased(key: string, reply: ReleaseReply | undefined, tries: number): void {
    const { hold } = this;
    if (!this.#wasHeld(key, reply, tries)) this.#wereHeld = false;
    if (key === this.keys[0]) this.#holds = reply?.holds;
    this.#waitingFor -= 1;
    if (this.#waitingFor > 0) return;
    if (!hold.lost) {
      const heldMs = Math.round(this.#endedAt - hold.sentAt);
      this.parts.events.emit('released', () => ({ ...hold.event, heldMs, holds: this.#holds }));
    }
    this.settle(this.#wereHeld);
  }

  protected override onEnd(): void {
    const { awaited, onGone } = this.parts;
    this.#patience.cancel();
    awaited.end();
    onGone();
  }

  /** Whether this key was held until its release. If the only try finds that it was not, the lock is lost. */
  #wasHeld(key: string, reply: ReleaseReply | undefined, tries: number): boolean {
    const { hold } = this;
    const wasHeld = reply?.outcome === 'released' || reply?.outcome === 'again';
    // After a try without an answer, any other reply proves nothing: that try may have released it.
    if (reply && tries === 1 && !wasHeld) {
      const { fencingToken } = hold.refs.find((ref) => ref.key === key)!;
      const { lastToken } = reply;
      hold.loseAtEnd(hold.lossReason(fencingToken, { lastToken, revoked: reply.outcome === 'revoked' }));
    }
    return wasHeld;
  }
}
