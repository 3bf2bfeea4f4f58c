/** How an acquisition is to end. */
export type FakeOutcome = 'grant' | 'refuse' | 'fail';

/** Which locks: one by its key, some by a pattern, or (left out) all. */
export type FakeKey = string | RegExp | undefined;

/** Whether a key is one of those that are meant. */
export const matches = (which: FakeKey, key: string): boolean =>
  which === undefined || (typeof which === 'string' ? which === key : key.search(which) >= 0);

/** What a test has told a fake. */
export class FakeRules {
  /** The latest that fits counts. */
  readonly #rules: { readonly which: FakeKey; readonly outcome: FakeOutcome }[] = [];

  add(which: FakeKey, outcome: FakeOutcome): void {
    // A rule for all keys comes before all earlier ones: they never count again.
    if (which === undefined) this.clear();
    this.#rules.unshift({ which, outcome });
  }

  clear(): void {
    this.#rules.length = 0;
  }

  outcomeOf(keys: readonly string[]): FakeOutcome {
    return this.#rules.find(({ which }) => keys.some((key) => matches(which, key)))?.outcome ?? 'grant';
  }
}
