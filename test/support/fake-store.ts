import { LockKeyError } from '../../lib/core/lock.errors.js';
import {
  type AcquireReply,
  type AcquireRequest,
  type LockState,
  type LockStore,
  type ReleaseReply,
  type ReleaseRequest,
  type RenewReply,
  type RenewRequest,
  type WakeUpListener,
} from '../../lib/core/lock-store.js';
import { type Reporter } from '../../lib/core/reporter.js';

/** One command that the store was asked; the test answers it when it likes. */
export class Asked<Request, Reply> {
  readonly answer: Promise<Reply>;
  reply!: (reply: Reply) => void;
  fail!: (error: unknown) => void;

  constructor(
    readonly request: Request,
    readonly timeoutMs: number,
  ) {
    this.answer = new Promise((resolve, reject) => {
      this.reply = resolve;
      this.fail = reject;
    });
  }
}

type Answering<Request, Reply> = ((request: Request) => Reply) | null;

/** A store in memory: it notes what it is asked, and answers as the test says, at once or later. */
export class FakeStore implements LockStore {
  readonly clientId = 'client';
  readonly acquires: Asked<AcquireRequest, AcquireReply>[] = [];
  readonly renews: Asked<readonly RenewRequest[], readonly RenewReply[]>[] = [];
  readonly releases: Asked<ReleaseRequest, ReleaseReply>[] = [];
  /** When set, commands are answered at once; null: the test answers each. */
  onAcquire: Answering<AcquireRequest, AcquireReply> = null;
  onRenew: Answering<readonly RenewRequest[], readonly RenewReply[]> = null;
  onRelease: Answering<ReleaseRequest, ReleaseReply> = null;
  listener: WakeUpListener | null = null;

  checkKey(key: string): void {
    if (key === '') throw new LockKeyError('Expected a key.');
  }

  open(): void {}

  listen(listener: WakeUpListener): void {
    this.listener = listener;
  }

  acquire(request: AcquireRequest, timeoutMs: number): Promise<AcquireReply> {
    return ask(this.acquires, new Asked(request, timeoutMs), this.onAcquire);
  }

  renew(requests: readonly RenewRequest[], timeoutMs: number): Promise<readonly RenewReply[]> {
    return ask(this.renews, new Asked(requests, timeoutMs), this.onRenew);
  }

  release(request: ReleaseRequest, timeoutMs: number): Promise<ReleaseReply> {
    return ask(this.releases, new Asked(request, timeoutMs), this.onRelease);
  }

  inspect(key: string): Promise<LockState> {
    return Promise.resolve({ key, mode: 'free', holders: [], waiters: 0, fencingToken: 0 });
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

export const granted = (remainingMs: number, fencingToken = 1): AcquireReply => ({
  outcome: 'granted',
  fencingToken,
  remainingMs,
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

/** Notes what was reported. */
export class FakeReporter implements Reporter {
  readonly lines: string[] = [];
  debug = (message: string): void => void this.lines.push(`debug ${message}`);
  warn = (message: string): void => void this.lines.push(`warn ${message}`);
  error = (message: string): void => void this.lines.push(`error ${message}`);
}
