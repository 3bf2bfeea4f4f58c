import { type Clock } from '../core/clock.js';
import { LockStoreError } from '../core/lock.errors.js';
import {
  type AcquireReply,
  type AcquireRequest,
  type ReleaseReply,
  type ReleaseRequest,
} from '../core/store/lock-store.js';
import { keyOfSubject, type Subject } from '../core/store/subject.js';
import { closedError, MemoryLockServer, MemoryLockStore } from '../memory/memory-lock-store.js';
import { type MemoryLocks } from '../memory/memory-locks.js';

/** How a request ends; `full`: the lock is busy, and more calls wait than any other call accepts. */
export type FakeOutcome = 'grant' | 'refuse' | 'full' | 'fail';

/** Which locks a rule applies to: a key, a pattern of keys, or (left out) all. */
export type FakeKey = string | RegExp | undefined;

/** Whether a rule applies to a key. */
export const matches = (which: FakeKey, key: string): boolean =>
  which === undefined || (typeof which === 'string' ? which === key : key.search(which) >= 0);

/** Who holds a lock that a test refuses; a semaphore reports no holder. */
export const holderFor = (permits: number): string | undefined => (permits > 0 ? undefined : 'the test');

/**
 * A store in memory that grants every request at once unless a test sets a rule: no hold excludes another. Everything else
 * (owners, tokens, leases, states) is as in `MemoryLockStore`.
 */
export class FakeStore extends MemoryLockStore {
  /** The latest that applies to a key decides. */
  readonly #rules: { readonly which: FakeKey; readonly outcome: FakeOutcome }[] = [];

  constructor(clock: Clock) {
    super(new MemoryLockServer({ clock }), { keyPrefix: '' });
    this.server.locks.excludes = false;
  }

  rule(which: FakeKey, outcome: FakeOutcome): void {
    // A rule for all keys replaces all earlier ones.
    if (which === undefined) this.#rules.length = 0;
    this.#rules.unshift({ which, outcome });
  }

  outcomeOf(keys: readonly string[]): FakeOutcome {
    return this.#rules.find(({ which }) => keys.some((key) => matches(which, key)))?.outcome ?? 'grant';
  }

  override async acquire(request: AcquireRequest): Promise<AcquireReply> {
    const { keys, claim, permits } = request;
    const outcome = this.outcomeOf(keys);
    if (outcome === 'fail') throw awayError(keys.join(', '));
    if (outcome !== 'grant') {
      const serverTimeMs = Math.floor(this.server.clock.wallNow());
      return { outcome: 'busy', retryMs: 0, ahead: 0, holder: holderFor(permits), serverTimeMs };
    }
    // Every call of a job is a fire of its own.
    if (claim) this.server.locks.all.get(keys[0]!)?.jobs.delete(claim.job);
    return super.acquire(request);
  }

  /** Works even while a rule says `fail`: retries would take a second of the test's time. */
  override async release(request: ReleaseRequest): Promise<ReleaseReply> {
    return this.server.locks.release(request);
  }

  /** Keeps listening: a fake may outlive its app. */
  override async close(): Promise<void> {
    this.isClosed = true;
  }

  reopen(): void {
    this.isClosed = false;
  }

  /** Replies at once, in the turn of the caller, unless a rule fails the command. */
  protected override async run<T>(subject: Subject, command: (locks: MemoryLocks) => T): Promise<T> {
    if (this.isClosed) throw closedError(subject);
    // What is about no lock fails only with all of them.
    if (this.outcomeOf([keyOfSubject(subject) ?? '']) === 'fail') throw awayError(subject);
    const { locks } = this.server;
    locks.forgetUnused();
    return command(locks);
  }
}

/** The error of a command that a rule fails. */
export const awayError = (subject: Subject): LockStoreError => {
  const what = typeof subject === 'string' ? `has the lock "${subject}" fail` : `does not let it ${subject.task},`;
  return new LockStoreError(`The test ${what} as if Redis were away.`, { key: keyOfSubject(subject) });
};
