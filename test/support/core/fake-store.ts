import { LockKeyError } from '../../../lib/core/lock.errors.js';
import {
  type AcquireReply,
  type AcquireRequest,
  type AdoptReply,
  type AdoptRequest,
  type LockStore,
  type LostReply,
  type ReleaseReply,
  type ReleaseRequest,
  type RenewReply,
  type RenewRequest,
  type WakeUpListener,
} from '../../../lib/core/store/lock-store.js';
import { type LastRun, type LockState } from '../../../lib/core/store/lock-state.js';
import { type Reporter } from '../../../lib/core/reporter.js';

/** One command that was sent to the store, which the test answers. */
export class Asked<Request, Reply> {
  readonly answer: Promise<Reply>;
  reply!: (reply: Reply) => void;
  fail!: (error: unknown) => void;

  constructor(
    readonly request: Request,
    readonly timeoutMs: number,
    /** Delivers a reply of the store after the caller got a time-out. */
    readonly replyLate: (reply: Reply) => void = () => undefined,
  ) {
    this.answer = new Promise((resolve, reject) => {
      this.reply = resolve;
      this.fail = reject;
    });
  }
}

type Answering<Request, Reply> = ((request: Request) => Reply) | null;

/** A store in memory that records its commands, and answers as the test says, at once or later. */
export class FakeStore implements LockStore {
  readonly acquires: Asked<AcquireRequest, AcquireReply>[] = [];
  readonly renews: Asked<readonly RenewRequest[], readonly RenewReply[]>[] = [];
  readonly releases: Asked<ReleaseRequest, ReleaseReply>[] = [];
  readonly adoptions: Asked<AdoptRequest, AdoptReply>[] = [];
  /** When set, commands are answered at once; null: the test answers each. */
  onAcquire: Answering<AcquireRequest, AcquireReply> = null;
  onRenew: Answering<readonly RenewRequest[], readonly RenewReply[]> = null;
  onRelease: Answering<ReleaseRequest, ReleaseReply> = null;
  onAdopt: Answering<AdoptRequest, AdoptReply> = null;
  onInspect = (key: string): Promise<LockState> =>
    Promise.resolve({ key, mode: 'free', holders: [], waiters: 0, queue: [], permits: null, fencingToken: 0 });
  listener: WakeUpListener | null = null;
  /** Which keys one command may name together; all of them, unless a test says otherwise. */
  groups: (keys: readonly string[]) => readonly (readonly string[])[] = (keys) => [keys.toSorted()];

  constructor(
    readonly clientId = 'client',
    /** Whether the calls of a process may hand a lock on. */
    readonly reservesTokens = false,
  ) {}

  /** The keys of each acquire so far. */
  get asked(): string[] {
    return this.acquires.map(({ request }) => request.keys.join('+'));
  }

  /** The key of each release so far. */
  get givenBack(): string[] {
    return this.releases.map(({ request }) => request.key);
  }

  /** The same, each with the time for which it stays taken. */
  get kept(): [key: string, holdAtLeastMs: number][] {
    return this.releases.map(({ request }) => [request.key, request.holdAtLeastMs]);
  }

  checkKey(key: string): void {
    if (key === '') throw new LockKeyError('Expected a key.');
  }

  open(): void {}

  listen(listener: WakeUpListener): void {
    this.listener = listener;
  }

  acquire(request: AcquireRequest, timeoutMs: number, onLate: (reply: AcquireReply) => void): Promise<AcquireReply> {
    return ask(this.acquires, new Asked(request, timeoutMs, onLate), this.onAcquire);
  }

  renew(requests: readonly RenewRequest[]): Promise<readonly RenewReply[]> {
    const timeoutMs = Math.max(...requests.map((request) => request.timeoutMs));
    return ask(this.renews, new Asked(requests, timeoutMs), this.onRenew);
  }

  release(request: ReleaseRequest, timeoutMs: number): Promise<ReleaseReply> {
    return ask(this.releases, new Asked(request, timeoutMs), this.onRelease);
  }

  adopt(request: AdoptRequest, timeoutMs: number): Promise<AdoptReply> {
    return ask(this.adoptions, new Asked(request, timeoutMs), this.onAdopt);
  }

  forceRelease(): Promise<boolean> {
    return Promise.resolve(false);
  }

  setPermits(): Promise<void> {
    return Promise.resolve();
  }

  inspect(key: string): Promise<LockState> {
    return this.onInspect(key);
  }

  lastRun(): Promise<LastRun | null> {
    return Promise.resolve(null);
  }

  async *list(): AsyncIterable<LockState> {}

  close(): Promise<void> {
    return Promise.resolve();
  }
}

async function ask<Request, Reply>(
  all: Asked<Request, Reply>[],
  asked: Asked<Request, Reply>,
  answering: Answering<Request, Reply>,
): Promise<Reply> {
  all.push(asked);
  return answering ? answering(asked.request) : asked.answer;
}

/** A grant; one fencing token per key. */
export const granted = (remainingMs: number, ...fencingTokens: number[]): AcquireReply => ({
  outcome: 'granted',
  fencingTokens: fencingTokens.length > 0 ? fencingTokens : [1],
  remainingMs,
  serverTimeMs: 0,
});

export const busy = (reply: Partial<AcquireReply & { outcome: 'busy' }> = {}): AcquireReply => ({
  outcome: 'busy',
  retryMs: 0,
  ahead: 0,
  holder: 'host:1',
  serverTimeMs: 0,
  ...reply,
});

export const released = (lastToken = 1): ReleaseReply => ({ outcome: 'released', holds: 0, lastToken });

/** What a renewal or a downgrade finds when the hold is gone. */
export const gone = (lastToken: number, revoked = false): LostReply => ({ outcome: 'lost', lastToken, revoked });

/** Records what was reported. */
export class FakeReporter implements Reporter {
  readonly lines: string[] = [];
  debug = (message: string): void => void this.lines.push(`debug ${message}`);
  warn = (message: string): void => void this.lines.push(`warn ${message}`);
  error = (message: string): void => void this.lines.push(`error ${message}`);
}
