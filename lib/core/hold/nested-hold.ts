import { Hold } from './hold.js';
import { type SlotOutcome, type SlotUse } from '../reentry/local-slot.js';
import { type ResolvedLockOptions } from '../lock.options.js';
import { type LockLostError, type LockLostReason, type LockMode, LockReentryError } from '../lock.errors.js';

/** The handle of a nested call: the hold is the outer one, and only its place under it is its own. */
export class NestedHold extends Hold {
  readonly mode: LockMode;
  readonly #permits: number;

  /** The caller has retained the outer hold, and enters the slots of all keys. */
  constructor(
    private readonly outer: Hold,
    keys: readonly string[],
    { mode, permits }: Pick<ResolvedLockOptions, 'mode' | 'permits'>,
  ) {
    super(keys);
    this.mode = mode;
    this.#permits = permits;
  }

  /** Takes its place under the outer hold, at once or in its turn; gives a function that leaves the queue. */
  enter(key: string, settle: (outcome: SlotOutcome) => void): () => void {
    return this.outer.slotOf(key).enter(this.#useOf(key), settle);
  }

  leave(key: string): void {
    this.outer.slotOf(key).leave(this.#useOf(key));
  }

  get keeper(): object {
    return this.outer.keeper;
  }

  get owner(): string {
    return this.outer.owner;
  }

  get fencingTokens(): readonly number[] {
    const { keys, fencingTokens } = this.outer;
    return this.keys.map((key) => fencingTokens[keys.indexOf(key)]!);
  }

  get signal(): AbortSignal {
    return this.outer.signal;
  }

  get provenMs(): number {
    return this.outer.provenMs;
  }

  get lost(): LockLostError | null {
    return this.outer.lost;
  }

  get isWatched(): boolean {
    return false;
  }

  /** The hold is the outer one, which has a holder of its own until that has given it back. */
  lose(reason: LockLostReason, cause?: unknown): void {
    if (this.outer.isReleased) this.outer.lose(reason, cause);
  }

  checkDowngrade(): void {
    this.checkHeld('downgrading');
    if (this.mode === 'read') return;
    const text = `The lock "${this.key}" belongs to an outer call, which goes on writing. Downgrade it there.`;
    throw new LockReentryError(text, this);
  }

  async downgrade(): Promise<void> {
    this.checkDowngrade();
  }

  isPermit(key: string): boolean {
    return this.mode === 'read' && (this.#permits > 0 || this.outer.isPermit(key));
  }

  limitOf(key: string): number {
    if (this.mode === 'write') return 1;
    return this.isPermit(key) ? this.outer.limitOf(key) : Infinity;
  }

  keeps(hold: Hold): boolean {
    return this.outer === hold || this.outer.keeps(hold);
  }

  onLost(callback: (error: LockLostError) => void): () => void {
    return this.outer.onLost(callback);
  }

  extendBy(leaseMs: number): Promise<void> {
    return this.outer.extendBy(leaseMs);
  }

  protected async end(): Promise<boolean> {
    for (const key of this.keys) this.leave(key);
    this.outer.letGo();
    return false;
  }

  #useOf(key: string): SlotUse {
    return this.isPermit(key) ? 'permit' : this.mode;
  }
}
