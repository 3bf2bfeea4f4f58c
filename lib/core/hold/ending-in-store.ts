import { type LockEvents } from '../lock.events.js';
import { type ReleaseReply } from '../store/lock-store.js';
import { type EndingParts, LimitedEnding } from './ending.js';
import { type ReleaseListener } from './releaser.js';
import { type StoreHold } from './store-hold.js';

/** The end of a hold while the store is asked to release its keys. Reports the release, or a loss that it finds. */
export class EndingInStore extends LimitedEnding implements ReleaseListener {
  readonly keys: readonly string[];
  readonly #endedAt: number;
  /** How many keys have no answer yet. */
  #waitingFor: number;
  #wereHeld = true;
  /** How many others hold the first key. */
  #holds: number | undefined;
  readonly #events: LockEvents;

  constructor(
    readonly hold: StoreHold,
    { now, patienceMs }: { readonly now: number; readonly patienceMs: number },
    parts: EndingParts & { readonly events: LockEvents },
  ) {
    super(now, patienceMs, parts);
    this.#endedAt = now;
    this.#events = parts.events;
    this.keys = hold.keys;
    this.#waitingFor = this.keys.length;
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
      this.#events.emit('released', () => ({ ...hold.event, heldMs, holds: this.#holds }));
    }
    // The calls that have handed it on had it, too; without an answer, they have no proof.
    if (this.#wereHeld) hold.handover?.prove(hold.handover.count);
    else hold.handover?.giveUp();
    this.settle(this.#wereHeld);
  }

  /** Whether this key was held until its release. If the only try finds that it was not, the lock is lost. */
  #wasHeld(key: string, reply: ReleaseReply | undefined, tries: number): boolean {
    const { hold } = this;
    const wasHeld = reply?.outcome === 'released' || reply?.outcome === 'again';
    // After a try without an answer, any other reply proves nothing: that try may have released it.
    if (reply && tries === 1 && !wasHeld) {
      const { fencingToken } = hold.refs.find((ref) => ref.key === key)!;
      const { lastToken } = reply;
      hold.loseInStore(hold.lossReason(fencingToken, { lastToken, revoked: reply.outcome === 'revoked' }));
    }
    return wasHeld;
  }
}
