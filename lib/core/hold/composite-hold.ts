import { Hold, type WorkOutcome } from './hold.js';
import { type LockLostError, type LockLostReason, type LockMode } from '../lock.errors.js';
import { LossSignal } from './loss.js';

/**
 * For holds that were acquired one after the other: an earlier one may be gone when the last one comes.
 * @throws LockLostError
 */
export function throwIfLost(holds: readonly Hold[]): void {
  for (const { lost } of holds) if (lost) throw lost;
}

/** Several holds as one lock: keys that no one command may name together, or of which an outer call holds some. */
export class CompositeHold extends Hold {
  #lost: LockLostError | null = null;
  #signal: LossSignal | null = null;
  readonly #callbacks = new Set<(error: LockLostError) => void>();
  readonly #stops: readonly (() => void)[];

  constructor(
    keys: readonly string[],
    private readonly parts: readonly Hold[],
  ) {
    super(keys);
    this.#stops = parts.map((part) => part.onLost((error) => this.#lose(error)));
  }

  get keeper(): object {
    return this.parts[0]!.keeper;
  }

  get mode(): LockMode {
    return this.parts.some(({ mode }) => mode === 'read') ? 'read' : 'write';
  }

  get owner(): string {
    return this.parts[0]!.owner;
  }

  get fencingTokens(): readonly number[] {
    return this.keys.map((key) => {
      const part = this.#partOf(key);
      return part.fencingTokens[part.keys.indexOf(key)]!;
    });
  }

  get signal(): AbortSignal {
    this.#signal ??= new LossSignal();
    if (this.lost) this.#signal.abort(this.lost);
    return this.#signal.signal;
  }

  get provenMs(): number {
    return this.lost ? 0 : Math.min(...this.parts.map((part) => part.provenMs));
  }

  /** Loss of one is loss of all. */
  get lost(): LockLostError | null {
    const error = this.parts.find((part) => part.lost)?.lost;
    if (error) this.#lose(error);
    return this.#lost;
  }

  get isWatched(): boolean {
    return this.#signal !== null;
  }

  lose(reason: LockLostReason, cause?: unknown): void {
    for (const part of this.parts) part.lose(reason, cause);
  }

  checkDowngrade(): void {
    this.checkHeld('downgrading');
    this.checkNoWriter();
    // All before any: a part that went alone would have given up its exclusion although the caller sees an error.
    for (const part of this.parts) part.checkDowngrade();
  }

  async downgrade(): Promise<void> {
    this.checkDowngrade();
    await Promise.all(this.parts.map((part) => part.downgrade()));
  }

  isPermit(key: string): boolean {
    return this.#partOf(key).isPermit(key);
  }

  limitOf(key: string): number {
    return this.#partOf(key).limitOf(key);
  }

  keeps(hold: Hold): boolean {
    return this.parts.some((part) => part.keeps(hold));
  }

  onLost(callback: (error: LockLostError) => void): () => void {
    this.#callbacks.add(callback);
    return () => void this.#callbacks.delete(callback);
  }

  async extendBy(leaseMs: number): Promise<void> {
    await Promise.all(this.parts.map((part) => part.extendBy(leaseMs)));
  }

  protected async end(outcome: WorkOutcome | undefined): Promise<boolean> {
    const werePartsHeld = await Promise.all(this.parts.map((part) => part.finish(outcome)));
    for (const stop of this.#stops) stop();
    return werePartsHeld.every(Boolean);
  }

  #partOf(key: string): Hold {
    return this.parts.find(({ keys }) => keys.includes(key))!;
  }

  #lose(error: LockLostError): void {
    if (this.#lost) return;
    this.#lost = error;
    this.tracker?.forget(this);
    this.#signal?.abort(error);
    for (const callback of this.#callbacks) callback(error);
    // The others are not renewed any more: a holder that does not listen would keep them for ever.
    for (const part of this.parts) part.lose(error.reason, error);
  }
}
