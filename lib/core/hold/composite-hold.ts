import { type LockLostError, type LockLostReason, type LockMode } from '../lock.errors.js';
import { Ending } from './ending.js';
import { Hold, type HoldModule, type WorkOutcome } from './hold.js';
import { Loss } from './loss.js';
import { type TransferredHold } from './transfer-text.js';

/**
 * Checks holds that were acquired one after the other: an early one may be lost when the last one is granted.
 * @throws LockLostError
 */
export function throwIfLost(holds: readonly Hold[]): void {
  for (const { lost } of holds) if (lost) throw lost;
}

/** Several holds as one lock, for keys that one command cannot acquire together, or when an outer call holds some of them. */
export class CompositeHold extends Hold {
  readonly #loss = new Loss();
  readonly #stops: readonly (() => void)[];

  constructor(
    keys: readonly string[],
    private readonly parts: readonly Hold[],
  ) {
    super(keys);
    this.#stops = parts.map((part) => part.onLost((error) => this.#lose(error)));
  }

  get keeper(): HoldModule {
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
    this.#checkParts();
    return this.#loss.signal;
  }

  get hasSignal(): boolean {
    return this.#loss.hasSignal;
  }

  get provenMs(): number {
    return this.lost ? 0 : Math.min(...this.parts.map((part) => part.provenMs));
  }

  /** The loss of one part is the loss of all. */
  get lost(): LockLostError | null {
    this.#checkParts();
    return this.#loss.error;
  }

  /** True if a part that is not nested waits for its release. */
  get awaitRelease(): boolean {
    return this.parts.every(({ awaitRelease }) => awaitRelease);
  }

  lose(reason: LockLostReason, cause?: unknown): void {
    for (const part of this.parts) part.lose(reason, cause);
  }

  checkDowngrade(): void {
    this.checkHeld('downgrading');
    this.checkNoWriter();
    // All are checked first: otherwise some parts could be downgraded although the caller gets an error.
    for (const part of this.parts) part.checkDowngrade();
  }

  async downgrade(): Promise<void> {
    this.checkDowngrade();
    await Promise.all(this.parts.map((part) => part.downgrade()));
  }

  isPermit(key: string): boolean {
    return this.#partOf(key).isPermit(key);
  }

  maxHoldersOf(key: string): number {
    return this.#partOf(key).maxHoldersOf(key);
  }

  override isInside(hold: Hold): boolean {
    return this.parts.some((part) => part.isInside(hold));
  }

  onLost(callback: (error: LockLostError) => void): () => void {
    return this.#loss.onLost(callback);
  }

  async extendBy(leaseMs?: number): Promise<void> {
    await Promise.all(this.parts.map((part) => part.extendBy(leaseMs)));
  }

  protected giveAway(): TransferredHold {
    this.#stopListening();
    const all = this.parts.map((part) => part.endTransferred());
    const holds = this.keys.map((key) => all.flatMap((one) => one.holds).find((hold) => hold.key === key)!);
    return { ...all[0]!, holds, maxHoldMs: Math.min(...all.map(({ maxHoldMs }) => maxHoldMs)) };
  }

  protected end(outcome: WorkOutcome | undefined): Ending {
    const ending = new Ending();
    void Promise.all(this.parts.map((part) => part.releaseAfter(outcome))).then((werePartsHeld) => {
      this.#stopListening();
      ending.settle(werePartsHeld.every(Boolean));
    });
    return ending;
  }

  #stopListening(): void {
    for (const stop of this.#stops) stop();
  }

  #partOf(key: string): Hold {
    return this.parts.find(({ keys }) => keys.includes(key))!;
  }

  #checkParts(): void {
    const error = this.parts.find((part) => part.lost)?.lost;
    if (error) this.#lose(error);
  }

  #lose(error: LockLostError): void {
    if (this.#loss.error) return;
    this.tracker?.forget();
    this.#loss.announce(error);
    // The other parts are no longer renewed: a holder that ignores the loss would keep them forever.
    for (const part of this.parts) part.lose(error.reason, error);
  }
}
