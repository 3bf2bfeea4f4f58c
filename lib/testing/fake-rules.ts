/** How a request ends; `full`: the lock is busy, and more calls wait than any other call accepts. */
export type FakeOutcome = 'grant' | 'refuse' | 'full' | 'fail';

/** Which locks a rule applies to: a key, a pattern of keys, or (left out) all. */
export type FakeKey = string | RegExp | undefined;

/** Whether a rule applies to a key. */
export const matches = (which: FakeKey, key: string): boolean =>
  which === undefined || (typeof which === 'string' ? which === key : key.search(which) >= 0);

/** The rules that a test has set. */
export class FakeRules {
  /** The latest that applies to a key decides. */
  readonly #rules: { readonly which: FakeKey; readonly outcome: FakeOutcome }[] = [];

  add(which: FakeKey, outcome: FakeOutcome): void {
    // A rule for all keys replaces all earlier ones.
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
