import { type Locker } from './acquire/locker.js';
import { type Key, checkForceReleaseOptions, checkJob, type ForceReleaseOptions, keysOf } from './call-arguments.js';
import { jobName } from './key.js';
import { kindOf, MAX_PERMITS } from './option-checks.js';
import { printable } from './printable.js';
import { readOptions } from './read-options.js';
import { type LastRun, LIST_OPTION_NAMES, type ListOptions, type LockState } from './store/lock-state.js';
import { checkKeyOf, hasFires, hasOperators, hasPermits, storeWith } from './store/capabilities.js';
import { type LockStore } from './store/lock-store.js';

/** A number of permits from now on. */
const SET_PERMITS = kindOf(
  `a whole number from 0 (no reader gets in) to ${MAX_PERMITS}, or null (the calls set it again)`,
  (value) => value === null || (Number.isSafeInteger(value) && value >= 0 && value <= MAX_PERMITS),
);

/** The calls of operators, who do not hold the locks. The service documents them. */
export class OperatorCalls {
  constructor(
    private readonly locker: Locker,
    private readonly store: LockStore,
  ) {}

  async inspect(key: Key): Promise<LockState | LockState[]> {
    const store = storeWith(this.store, hasOperators, '`inspect()`');
    const states = await this.#askEach(key, async (one) => this.locker.withWaiters(await store.inspect(one)));
    return typeof key === 'string' ? states[0]! : states;
  }

  async isLocked(key: Key): Promise<boolean> {
    const store = storeWith(this.store, hasOperators, '`isLocked()`');
    const states = await this.#askEach(key, (one) => store.inspect(one));
    return states.some(({ mode }) => mode !== 'free');
  }

  list(options: Partial<ListOptions>): AsyncIterable<LockState> {
    const { prefix = '', contains = '', limit = 1_000 }: typeof options = readOptions(options, LIST_OPTION_NAMES);
    return this.locker.awaited.keepAliveEach(this.#list({ prefix, contains, limit }));
  }

  async *#list(options: ListOptions): AsyncGenerator<LockState> {
    const store = storeWith(this.store, hasOperators, '`list()`');
    for await (const state of store.list(options)) yield this.locker.withWaiters(state);
  }

  async forceRelease(key: Key, options: ForceReleaseOptions): Promise<boolean> {
    const { by, upToToken } = checkForceReleaseOptions(options);
    const store = storeWith(this.store, hasOperators, '`forceRelease()`');
    const answers = await this.#askEach(key, async (one) => {
      const wasHeld = await store.forceRelease(one, upToToken);
      if (wasHeld) this.#tellForced(one, by);
      return wasHeld;
    });
    return answers.some(Boolean);
  }

  async setPermits(key: string, permits: number | null): Promise<void> {
    SET_PERMITS.check(permits, 'permits');
    const store = storeWith(this.store, hasPermits, '`setPermits()`');
    await this.#askEach(key, (one) => store.setPermits(one, permits));
  }

  async lastRun(key: string, job: string | undefined): Promise<LastRun | null> {
    checkKeyOf(this.store, key);
    const store = storeWith(this.store, hasFires, '`lastRun()`');
    const name = job === undefined ? undefined : jobName(checkJob(key, job));
    return this.locker.awaited.keepAlive(store.lastRun(key, name));
  }

  #tellForced(key: string, by: string | undefined): void {
    const { events, reporter } = this.locker;
    const who = by === undefined ? '' : ` by ${by}`;
    reporter.warn(printable(`The lock "${key}" was revoked with forceRelease${who}: its holders have lost it.`));
    const lock = { key, keys: [key], template: undefined, mode: 'write', where: '', note: undefined } as const;
    events.emit('forced', () => ({ ...lock, by }));
  }

  /** Checks all keys, then asks for each of them; rejects only after all answers have come. */
  async #askEach<T>(key: Key, ask: (key: string) => Promise<T>): Promise<T[]> {
    const keys = keysOf(key);
    for (const one of keys) checkKeyOf(this.store, one);
    const answers = await this.locker.awaited.keepAlive(Promise.allSettled(keys.map(ask)));
    return answers.map((answer) => {
      if (answer.status === 'rejected') throw answer.reason;
      return answer.value;
    });
  }
}
