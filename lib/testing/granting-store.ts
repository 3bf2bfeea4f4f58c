import { type Clock } from '../core/clock.js';
import {
  type AcquireReply,
  type AcquireRequest,
  type ReleaseReply,
  type ReleaseRequest,
} from '../core/store/lock-store.js';
import { LockStoreError } from '../core/lock.errors.js';
import { type Subject, keyOfSubject } from '../core/store/subject.js';
import { FakeRules } from './fake-rules.js';
import { MemoryLockServer } from '../memory/memory-lock-store.js';
import { closedError, MemoryLockStore } from '../memory/memory-lock-store.js';
import { type MemoryLocks } from '../memory/memory-locks.js';

/** The holder of a lock that a test refuses, for people; a semaphore reports none. */
export const holderFor = (permits: number): string | undefined => (permits > 0 ? undefined : 'the test');

/** Replies at once, in the turn of the caller, unless a rule fails the command. */
class GrantingServer extends MemoryLockServer {
  isClosed = false;

  constructor(
    clock: Clock,
    private readonly rules: FakeRules,
  ) {
    super({ clock });
    this.locks.excludes = false;
  }

  override async run<T>(subject: Subject, command: (locks: MemoryLocks) => T): Promise<T> {
    if (this.isClosed) throw closedError(subject);
    // What is about no lock fails only with all of them.
    if (this.rules.outcomeOf([keyOfSubject(subject) ?? '']) === 'fail') throw awayError(subject);
    this.locks.forgetUnused();
    return command(this.locks);
  }
}

/**
 * Grants every request at once unless a rule says otherwise: no hold excludes another. Everything else (owners, tokens,
 * leases, states) is as with locks in memory.
 */
export class GrantingStore extends MemoryLockStore {
  declare readonly server: GrantingServer;

  constructor(
    clock: Clock,
    private readonly rules = new FakeRules(),
  ) {
    super(new GrantingServer(clock, rules), { keyPrefix: '' });
  }

  override async acquire(request: AcquireRequest): Promise<AcquireReply> {
    const { keys, claim } = request;
    const outcome = this.rules.outcomeOf(keys);
    if (outcome === 'fail') throw awayError(keys.join(', '));
    if (outcome !== 'grant') return this.#busy(request);
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
    this.server.isClosed = true;
  }

  reopen(): void {
    this.server.isClosed = false;
  }

  #busy({ permits }: AcquireRequest): AcquireReply {
    const serverTimeMs = Math.floor(this.server.clock.wallNow());
    return { outcome: 'busy', retryMs: 0, ahead: 0, holder: holderFor(permits), owner: undefined, serverTimeMs };
  }
}

/** The error of a command that a rule fails. */
export const awayError = (subject: Subject): LockStoreError => {
  const what = typeof subject === 'string' ? `has the lock "${subject}" fail` : `does not let it ${subject.task},`;
  return new LockStoreError(`The test ${what} as if Redis were away.`, { key: keyOfSubject(subject) });
};
