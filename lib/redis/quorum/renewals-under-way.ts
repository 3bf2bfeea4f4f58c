/** The renewals of one attempt. */
export interface Renewals {
  /** How much of them is not answered yet. */
  underWay: number;
  /** A release of it was sent since they began. */
  isReleased: boolean;
}

/** Which attempts are renewed now: one that is released meanwhile is not to get anything again by a late answer. */
export class RenewalsUnderWay {
  readonly #byAttempt = new Map<string, Renewals>();

  get size(): number {
    return this.#byAttempt.size;
  }

  /** Does what belongs to a renewal, which is under way until all of that is done. */
  async during<T>(attempt: string, work: (renewals: Renewals) => Promise<T>): Promise<T> {
    const renewals = this.#byAttempt.get(attempt) ?? { underWay: 0, isReleased: false };
    this.#byAttempt.set(attempt, renewals);
    renewals.underWay += 1;
    try {
      return await work(renewals);
    } finally {
      renewals.underWay -= 1;
      if (renewals.underWay === 0) this.#byAttempt.delete(attempt);
    }
  }

  onRelease(attempt: string): void {
    const renewals = this.#byAttempt.get(attempt);
    if (renewals) renewals.isReleased = true;
  }
}
