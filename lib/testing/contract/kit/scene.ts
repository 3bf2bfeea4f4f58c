import { randomUUID } from 'node:crypto';
import { inspect, isDeepStrictEqual } from 'node:util';
import { type LockStore, type ReleaseReply } from '../../../core/store/lock-store.js';
import { type ManualClock } from '../../manual-clock.js';
import { CaseTime } from './case-time.js';
import { Client } from './client.js';
import { promised, same } from './promised.js';

/** What a store promises beyond exclusion; by default all of it. */
export interface LockStoreSupport {
  /** Waiters are served in the order in which they arrived. @default true */
  readonly queue?: boolean;
  /** At most `permits` readers share a lock. @default true */
  readonly permits?: boolean;
  /** One acquire can name several keys. @default true */
  readonly severalKeys?: boolean;
  /** Fires of jobs are granted once. @default true */
  readonly claims?: boolean;
  /**
   * An acquire that is sent again after its grant returns that grant; several servers may return a greater token.
   * @default true
   */
  readonly sameGrant?: boolean;
  /**
   * A lease may be shorter than the time that its grant takes; several servers may be asked more than once.
   * @default true
   */
  readonly shortLeases?: boolean;
  /** The store sends wake-ups to waiters and holders, through `listen`. @default true */
  readonly wakeUps?: boolean;
  /** The store has a `history`. @default true */
  readonly history?: boolean;
}

/** The store under test. */
export interface LockStoreContractOptions {
  /**
   * Opens one more client of the same server; the case closes it. All keys of one case begin with the same text up to a
   * colon, so that a store can place them together.
   */
  readonly open: () => LockStore | Promise<LockStore>;
  /** The clock of the server, if a test can move it; then no case has to wait. */
  readonly clock?: ManualClock;
  readonly supports?: LockStoreSupport;
  /** By how many milliseconds two times of a store of several servers may differ. @default 0 */
  readonly spreadMs?: number;
  /** How many milliseconds a case waits for a promise to be kept; less than the limit of the test runner. @default 4_000 */
  readonly deadlineMs?: number;
}

const ALL: Required<LockStoreSupport> = {
  queue: true,
  permits: true,
  severalKeys: true,
  claims: true,
  sameGrant: true,
  shortLeases: true,
  wakeUps: true,
  history: true,
};

/** One case: its clients, and keys of its own. */
export class Scene {
  /** What the keys of this case begin with, up to the colon. */
  readonly prefix = `contract-${randomUUID()}:`;
  readonly key = `${this.prefix}a`;
  readonly time: CaseTime;
  readonly supports: Required<LockStoreSupport>;
  readonly spreadMs: number;
  readonly #stores: LockStore[] = [];

  constructor(private readonly options: LockStoreContractOptions) {
    this.time = new CaseTime(options.clock, options.deadlineMs ?? 4_000);
    this.supports = { ...ALL, ...options.supports };
    this.spreadMs = options.spreadMs ?? 0;
  }

  /** A client that listens. */
  async client(): Promise<Client> {
    const client = await this.silentClient();
    client.store.open();
    if (this.supports.wakeUps) await this.time.until('`onListening`', () => client.listenings > 0 || undefined);
    return client;
  }

  async clients(): Promise<[Client, Client, Client]> {
    return [await this.client(), await this.client(), await this.client()];
  }

  /** A client that was not opened. */
  async silentClient(): Promise<Client> {
    const store = await this.options.open();
    this.#stores.push(store);
    return new Client(store, this.key, this.time);
  }

  /** Waits until nobody holds the lock. */
  async leaseEnds({ store }: Client): Promise<void> {
    await this.time.until('the lease to end', async () => (await store.inspect(this.key)).mode === 'free' || undefined);
  }

  /** Waits until nobody waits for the lock; one of several servers may learn of it late. */
  async nobodyWaits({ store }: Client): Promise<void> {
    await this.time.until('nobody to wait', async () => (await store.inspect(this.key)).waiters === 0 || undefined);
  }

  /** Two keys, in the order of the store; each name gives two others. */
  twoKeys({ store }: Client, name = ''): [string, string] {
    const groups = store.groups([`${this.prefix}${name}a`, `${this.prefix}${name}b`]);
    same(groups.length, 1, 'the number of groups of two keys that one acquire may name');
    return groups[0] as [string, string];
  }

  /** Checks that a lock did not become free before a moment, by the time of the reply that found it free. */
  notBefore(what: string, momentMs: number, { serverTimeMs }: { readonly serverTimeMs: number }): void {
    const earlyMs = momentMs - serverTimeMs;
    promised(earlyMs <= this.spreadMs, `${what} not to end before its time`, `${earlyMs} ms too early`);
  }

  /** Compares two times of the store. */
  sameTime(actual: number, expected: number, what: string): void {
    promised(Math.abs(actual - expected) <= this.spreadMs, `${what} to be ${expected}`, actual);
  }

  /** Checks how many holds a release left; one of several servers may report a hold that has ended. */
  holdsLeft({ holds }: ReleaseReply, expected: number): void {
    this.#counted('the number of holds that remain', holds, expected);
  }

  /** Checks what a store reports after a change; one of several servers may learn of the change late. */
  async reports<T>(what: string, expected: T, look: () => Promise<T>): Promise<void> {
    if (this.spreadMs === 0) return same(await look(), expected, what);
    await this.time.until(`${what} to be ${inspect(expected)}`, async () => {
      return isDeepStrictEqual(await look(), expected) || undefined;
    });
  }

  /** Checks the last fencing token of a lock; one of several servers may report a greater one. */
  lastToken(actual: number, expected: number): void {
    this.#counted('the last fencing token', actual, expected);
  }

  #counted(what: string, actual: number, expected: number): void {
    const isKept = this.spreadMs > 0 ? actual >= expected : actual === expected;
    promised(isKept, `${what} to be ${expected}`, actual);
  }

  async close(): Promise<void> {
    await Promise.allSettled(this.#stores.map((store) => store.close()));
  }
}
