import { type Clock } from '../core/clock.js';
import {
  type AcquireReply,
  type AcquireRequest,
  type ReleaseReply,
  type ReleaseRequest,
} from '../core/store/lock-store.js';
import { LockStoreError } from '../core/lock.errors.js';
import { FakeRules } from './fake-rules.js';
import { MemoryLockServer } from './memory/memory-lock-server.js';
import { closedError, MemoryLockStore } from './memory/memory-lock-store.js';
import { type MemoryLocks } from './memory/memory-locks.js';

/** Who holds what a test has refused, for people; who has the permits of a semaphore nobody tells. */
export const holderFor = (permits: number): string | undefined => (permits > 0 ? undefined : 'the test');

/** Answers at once, in the turn of who asks, unless the test has it fail. */
class GrantingServer extends MemoryLockServer {
  isClosed = false;

  constructor(
    clock: Clock,
    private readonly rules: FakeRules,
  ) {
    super({ clock });
    this.locks.excludes = false;
  }

  override async run<T>(key: string, command: (locks: MemoryLocks) => T): Promise<T> {
    if (this.isClosed) throw closedError(key);
    if (this.rules.outcomeOf([key]) === 'fail') throw awayError(key);
    this.locks.forgetUnused();
    return command(this.locks);
  }
}

/**
 * Grants whatever is asked, at once and to everybody, unless the test has told otherwise: nothing excludes anything. All else
 * (owners, tokens, leases, what is told of a lock) is as with locks in memory.
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
    if (outcome === 'refuse') return this.#busy(request);
    // Every call of a job is a fire of its own.
    if (claim) this.server.locks.lock(keys[0]!).jobs.delete(claim.job);
    return super.acquire(request);
  }

  /** Also while the test has Redis be away: a real one is asked again, for a second of the test's time. */
  override async release(request: ReleaseRequest): Promise<ReleaseReply> {
    return this.server.locks.release(request);
  }

  /** It goes on to listen: a fake may outlive its app. */
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

/** What a call finds that cannot ask. */
export const awayError = (key: string): LockStoreError =>
  new LockStoreError(`The test has the lock "${key}" fail as if Redis were away.`, { key });
