import { ofCallError, outerWriterError } from '../error-texts.js';
import { type LockLostError, type LockLostReason, type LockMode } from '../lock.errors.js';
import { type ResolvedLockOptions } from '../lock.options.js';
import { type SlotOutcome, type SlotUse } from '../reentry/local-slot.js';
import { Hold, type HoldModule } from './hold.js';

/** The hold of a nested call: it shares the outer hold, and takes its own turn under it. */
export class NestedHold extends Hold {
  readonly mode: LockMode;
  /** The outermost hold, which the store has: reading it takes no stack, however deep the call is nested. */
  readonly #root: Hold;
  /** The hold that decides whether this one is a permit: of a reader without `permits`, the one in which it is nested. */
  readonly #source: Hold;

  /** The caller must call `enter` or `tryEnter` for each key. */
  constructor(
    private readonly outer: Hold,
    keys: readonly string[],
    { mode, permits }: Pick<ResolvedLockOptions, 'mode' | 'permits'>,
  ) {
    super(keys);
    this.mode = mode;
    const [root, source] = outer instanceof NestedHold ? [outer.#root, outer.#source] : [outer, outer];
    this.#root = root;
    this.#source = mode === 'read' && permits === 0 ? source : this;
  }

  /** Enters the slot of `key` if it is free; returns whether it did. */
  tryEnter(key: string): boolean {
    const isInside = this.outer.slotOf(key).tryEnter(this.#useOf(key));
    if (isInside) this.outer.addNestedCall();
    return isInside;
  }

  /** Enters the slot of `key`, now or when its turn comes; returns a function that leaves the queue. */
  enter(key: string, settle: (outcome: SlotOutcome) => void): () => void {
    return this.outer.slotOf(key).enter(this.#useOf(key), (outcome) => {
      if (outcome === 'entered') this.outer.addNestedCall();
      settle(outcome);
    });
  }

  leave(key: string): void {
    this.outer.slotOf(key).leave(this.#useOf(key));
    this.outer.removeNestedCall();
  }

  get keeper(): HoldModule {
    return this.#root.keeper;
  }

  get owner(): string {
    return this.#root.owner;
  }

  get fencingTokens(): readonly number[] {
    const { keys, fencingTokens } = this.#root;
    return this.keys.map((key) => fencingTokens[keys.indexOf(key)]!);
  }

  get signal(): AbortSignal {
    return this.#root.signal;
  }

  /** The signal is that of the outer hold. */
  get hasSignal(): boolean {
    return false;
  }

  get provenMs(): number {
    return this.#root.provenMs;
  }

  get lost(): LockLostError | null {
    return this.#root.lost;
  }

  /** There is nothing to wait for. */
  get awaitRelease(): boolean {
    return true;
  }

  lose(reason: LockLostReason, cause?: unknown): void {
    if (this.outer.isReleased) this.outer.lose(reason, cause);
  }

  checkDowngrade(): void {
    this.checkHeld('downgrading');
    if (this.mode === 'write') throw outerWriterError(this);
  }

  async downgrade(): Promise<void> {
    this.checkDowngrade();
  }

  isPermit(key: string): boolean {
    const source = this.#source;
    return source instanceof NestedHold ? source.mode === 'read' : source.isPermit(key);
  }

  maxHoldersOf(key: string): number {
    if (this.mode === 'write') return 1;
    if (!this.isPermit(key)) return Infinity;
    let { outer } = this;
    // Without a recursion, as in `isInside`: the chain may have any depth.
    while (outer instanceof NestedHold && outer.isPermit(key))
      outer = outer.#source === outer ? outer.outer : outer.#source;
    return outer.maxHoldersOf(key);
  }

  override isInside(hold: Hold): boolean {
    let { outer } = this;
    while (outer !== hold && outer instanceof NestedHold) outer = outer.outer;
    return outer === hold || outer.isInside(hold);
  }

  onLost(callback: (error: LockLostError) => void): () => void {
    return this.#root.onLost(callback);
  }

  extendBy(leaseMs?: number): Promise<void> {
    return this.#root.extendBy(leaseMs);
  }

  /** A nested hold has no handle. */
  protected giveAway(): never {
    throw ofCallError(this);
  }

  protected end(): null {
    for (const key of this.keys) this.leave(key);
    return null;
  }

  #useOf(key: string): SlotUse {
    return this.isPermit(key) ? 'permit' : this.mode;
  }
}
