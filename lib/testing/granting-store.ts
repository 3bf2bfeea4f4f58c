import { newClientId } from '../core/attempt-ids.js';
import { type Clock } from '../core/clock.js';
import { storedKey } from '../core/lock-key.js';
import { checkListOptions, listLocks, modeOf } from '../core/lock-listing.js';
import {
  type AcquireReply,
  type AcquireRequest,
  type LastRun,
  type LockHolder,
  type LockState,
  type HoldRef,
  type LockStore,
  type ReleaseReply,
  type ReleaseRequest,
  type RenewReply,
  type RenewRequest,
  type WakeUpListener,
} from '../core/lock-store.js';
import { readHolderText } from '../core/holder-text.js';

/** Grants whatever is asked, at once and to everybody: nothing excludes anything. */
export class GrantingStore implements LockStore {
  readonly clientId = newClientId();
  readonly #holders = new Map<string, LockHolder[]>();
  #listener: WakeUpListener | null = null;
  #token = 0;

  constructor(private readonly clock: Clock) {}

  checkKey(key: string): void {
    storedKey(key);
  }

  listen(listener: WakeUpListener): void {
    this.#listener = listener;
  }

  open(): void {}

  groups(keys: readonly string[]): readonly (readonly string[])[] {
    return [keys];
  }

  async acquire({ keys, attempt, owner = attempt, mode, leaseMs, holder }: AcquireRequest): Promise<AcquireReply> {
    const now = this.clock.wallNow();
    const since = new Date(now);
    const told = { owner, attempt, mode, ...readHolderText(holder), since, remainingMs: leaseMs };
    const fencingTokens = keys.map((key) => {
      const fencingToken = (this.#token += 1);
      this.#holders.set(key, [...this.#holdersOf(key), { ...told, fencingToken }]);
      return fencingToken;
    });
    return { outcome: 'granted', fencingTokens, remainingMs: leaseMs, serverTimeMs: now };
  }

  async renew(requests: readonly RenewRequest[]): Promise<readonly RenewReply[]> {
    return requests.map(({ leaseMs }) => ({ outcome: 'renewed', remainingMs: leaseMs }));
  }

  async release({ key, attempt }: ReleaseRequest): Promise<ReleaseReply> {
    const holders = this.#holdersOf(key).filter((holder) => holder.attempt !== attempt);
    if (holders.length > 0) this.#holders.set(key, holders);
    else this.#holders.delete(key);
    return { outcome: 'released', holds: holders.length, lastToken: this.#token };
  }

  async downgrade({ key, attempt }: HoldRef): Promise<{ readonly outcome: 'downgraded' }> {
    const downgraded = this.#holdersOf(key).map((one) =>
      one.attempt === attempt ? { ...one, mode: 'read' as const } : one,
    );
    if (downgraded.length > 0) this.#holders.set(key, downgraded);
    return { outcome: 'downgraded' };
  }

  async forceRelease(key: string): Promise<boolean> {
    const holders = this.#holdersOf(key);
    for (const { attempt } of holders) this.#listener?.onWakeUp(attempt, { kind: 'revoked' });
    this.#holders.delete(key);
    return holders.length > 0;
  }

  async inspect(key: string): Promise<LockState> {
    const holders = this.#holdersOf(key);
    return { key, mode: modeOf(holders), holders, waiters: 0, fencingToken: holders.at(-1)?.fencingToken ?? 0 };
  }

  async lastRun(): Promise<LastRun | null> {
    return null;
  }

  list(options: { readonly prefix: string; readonly limit: number }): AsyncIterable<LockState> {
    checkListOptions(options);
    const keys = [...this.#holders.keys()].filter((key) => key.startsWith(options.prefix));
    return listLocks(keys, options.limit, (key) => this.inspect(key));
  }

  async close(): Promise<void> {}

  #holdersOf(key: string): LockHolder[] {
    return this.#holders.get(key) ?? [];
  }
}
