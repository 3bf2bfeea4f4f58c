import { ofCallError, outerWriterError } from '../error-texts.js';
import { type LockLostError, type LockLostReason, type LockMode } from '../lock.errors.js';
import { type ResolvedLockOptions } from '../lock.options.js';
import { type SlotOutcome, type SlotUse } from '../reentry/local-slot.js';
import { Hold, type HoldModule } from './hold.js';

/** The hold of a nested call: it shares the outer hold, and takes its own turn under it. */
export class NestedHold extends Hold {
  readonly mode: LockMode;
  readonly #permits: number;
  /** The outermost hold, which the store has: reading it takes no stack, however deep the call is nested. */
  readonly #root: Hold;

  /** The caller must call `addNestedCall` of the outer hold, and `enter` or `tryEnter` for each key. */
  constructor(
    private readonly outer: Hold,
    keys: readonly string[],
    { mode, permits }: Pick<ResolvedLockOptions, 'mode' | 'permits'>,
  ) {
    super(keys);
    this.mode = mode;
    this.#permits = permits;
    this.#root = outer instanceof NestedHold ? outer.#root : outer;
  }

  /** Enters the slot of `key` if it is free; returns whether it did. */
  tryEnter(key: string): boolean {
    return this.outer.slotOf(key).tryEnter(this.#useOf(key));
  }

  /** Enters the slot of `key`, now or when its turn comes; returns a function that leaves the queue. */
  enter(key: string, settle: (outcome: SlotOutcome) => void): () => void {
    return this.outer.slotOf(key).enter(this.#useOf(key), settle);
  }

  leave(key: string): void {
    this.outer.slotOf(key).leave(this.#useOf(key));
  }

  get keeper(): HoldModule {
    return this.#root.keeper;
  }

  get owner(): string {
    return this.#root.owner;
  }

  get fencingTokens(): readonly number[] {
    const { keys, fencingTokens } = this.outer;
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
    if (this.mode !== 'read' || this.#permits > 0) return this.mode === 'read';
    let { outer } = this;
    // Without a recursion, as in `isInside`: the chain may have any depth.
    while (outer instanceof NestedHold && outer.mode === 'read' && outer.#permits === 0) outer = outer.outer;
    return outer instanceof NestedHold ? outer.mode === 'read' : outer.isPermit(key);
  }

  maxHoldersOf(key: string): number {
    if (this.mode === 'write') return 1;
    return this.isPermit(key) ? this.outer.maxHoldersOf(key) : Infinity;
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
    this.outer.removeNestedCall();
    return null;
  }

  #useOf(key: string): SlotUse {
    return this.isPermit(key) ? 'permit' : this.mode;
  }
}
