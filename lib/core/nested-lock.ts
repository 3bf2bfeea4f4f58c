import { HeldHandle } from './held-handle.js';
import { type LockLostError, type LockMode, LockReentryError } from './lock.errors.js';

/** The handle of a nested call: the hold is the outer one, and only its place under it is its own. */
export class NestedLock extends HeldHandle {
  /** The caller has entered the slots of all keys, and retained the outer hold. */
  constructor(
    private readonly outer: HeldHandle,
    keys: readonly string[],
    readonly mode: LockMode,
  ) {
    super(keys);
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

  lose(): void {}

  checkDowngrade(): void {
    this.checkHeld('downgrading');
    if (this.mode === 'read') return;
    const text = `The lock "${this.key}" belongs to an outer call, which goes on writing. Downgrade it there.`;
    throw new LockReentryError(text, this);
  }

  async downgrade(): Promise<void> {
    this.checkDowngrade();
  }

  keeps(hold: HeldHandle): boolean {
    return this.outer === hold || this.outer.keeps(hold);
  }

  onLost(callback: (error: LockLostError) => void): () => void {
    return this.outer.onLost(callback);
  }

  extendBy(leaseMs: number): Promise<void> {
    return this.outer.extendBy(leaseMs);
  }

  protected async end(): Promise<void> {
    for (const key of this.keys) this.outer.slotOf(key).leave(this.mode);
    this.outer.letGo();
  }
}
