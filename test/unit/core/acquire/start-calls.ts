import { type StoreHold } from '../../../../lib/core/hold/store-hold.js';
import { type LockEventMap, type LockEventName, NO_LABEL } from '../../../../lib/core/lock.events.js';
import { type ResolvedLockOptions } from '../../../../lib/core/lock.options.js';
import { type FireClaim } from '../../../../lib/core/store/fires.js';
import { type AcquireReply, type AcquireRequest, type WakeUp } from '../../../../lib/core/store/lock-store.js';
import { lockOptions, NOTHING, startLocker } from '../../../support/core/core-parts.js';
import { settled } from '../../../support/core/fake-clock.js';
import { granted } from '../../../support/core/fake-store.js';
import { outcomeOf } from '../../../support/waiting/outcome.js';

export const CLAIM: FireClaim = {
  job: 'Jobs.run',
  kind: 'at',
  ms: 60_000,
  calledAt: 0,
  rememberMs: 120_000,
  rerunOnLoss: false,
};

/** The state of a call, with its lock once it has one. */
export interface Call {
  readonly value?: StoreHold;
  readonly error?: any;
}

interface Caller {
  readonly keys?: readonly string[];
  readonly claim?: FireClaim | undefined;
  readonly where?: string;
}

/** The calls that have the lock, or had it. */
export const servedOf = (calls: readonly Call[]): boolean[] => calls.map(({ value }) => value !== undefined);

/** A locker on a store that grants each acquire with the next token, 1000, 2000, ..., unless a test suppresses its answers. */
export function startCalls(base: Partial<ResolvedLockOptions> = {}, reservesTokens = false) {
  const parts = startLocker({ reservesTokens });
  const { clock, store, locker } = parts;
  let token = 0;
  const answer = ({ keys, leaseMs }: AcquireRequest): AcquireReply =>
    granted(leaseMs, ...keys.map(() => (token += 1_000)));
  store.onAcquire = answer;
  /** Notes the events of this name from now on. */
  const heard = <Name extends LockEventName>(name: Name): LockEventMap[Name][] => {
    const events: LockEventMap[Name][] = [];
    locker.events.on(name, (event) => void events.push(event));
    return events;
  };
  const acquired = heard('acquired');
  /** Begins a call for the key `k`. */
  const call = (options: Partial<ResolvedLockOptions> = {}, { keys = ['k'], claim, where = '' }: Caller = {}): Call => {
    const label = where ? { where, template: 'k' } : NO_LABEL;
    const request = locker.request(keys, lockOptions({ ...base, ...options }), label, claim);
    return outcomeOf(locker.acquire(request) as Promise<StoreHold>);
  };
  const calls = (count: number, options?: Partial<ResolvedLockOptions>): Call[] =>
    Array.from({ length: count }, () => call(options));
  /** Begins a call, and resolves with its lock. */
  const hold = async (options?: Partial<ResolvedLockOptions>): Promise<StoreHold> => {
    const begun = call(options);
    await settled();
    return begun.value!;
  };
  /** The messages of the store for the attempt of an acquire that it was sent: by default, the last one. */
  const wake = (wakeUp: WakeUp, nth = -1): void =>
    store.listener!.onWakeUp(store.acquires.at(nth)!.request.attempt, wakeUp);
  const push = (fencingToken: number, remainingMs = 3_000, nth = -1): void =>
    wake({ kind: 'granted', fencingToken, remainingMs, serverTimeMs: 0 }, nth);
  const revoke = (nth = -1): void => wake({ kind: 'revoked' }, nth);
  /** The attempt of each acquire, in numbers from 1. */
  const ids = (): string[] => [...new Set(store.acquires.map(({ request }) => request.attempt))];
  const attempts = (): number[] => store.acquires.map(({ request }) => ids().indexOf(request.attempt) + 1);
  const givenBack = (): number[] => store.releases.map(({ request }) => ids().indexOf(request.attempt) + 1);
  /** Answers an acquire, by default the last one. */
  const reply = async (answered: AcquireReply, nth = -1): Promise<void> => {
    store.acquires.at(nth)!.reply(answered);
    await settled();
  };
  /** The number of acquires and releases that the store received. */
  const sent = (): [number, number] => [store.acquires.length, store.releases.length];
  /** The calls that got the lock from another one, in the order of their grants. */
  const local = (): boolean[] => acquired.map((event) => event.local);
  /** Releases the locks of these calls as soon as they have them. */
  const releaseAll = async (all: readonly Call[]): Promise<void> => {
    for (const { value } of all) {
      await value!.release();
      await settled();
    }
  };
  /** Releases what is held until no call waits, and checks that nothing is left. */
  const finish = async (): Promise<void> => {
    for (const lock of locker.holds) {
      await lock.release();
      await settled();
    }
    expect([locker.live, clock.keptAlive]).toEqual([NOTHING, 0]);
  };
  const acts = { heard, call, calls, hold, wake, push, revoke, reply, releaseAll, finish };
  return { ...parts, ...acts, answer, acquired, attempts, givenBack, sent, local };
}

/** A call that has just begun, and whose commands the test answers. */
export function startCall(options?: Partial<ResolvedLockOptions>, caller?: Caller) {
  const parts = startCalls();
  const { clock, store, call } = parts;
  store.onAcquire = null;
  const outcome = call(options, caller);
  /** Answers all commands from the first on; notes when they came. */
  const answerAll = (replyTo: (n: number) => AcquireReply): number[] => {
    const times = [clock.now()];
    store.acquires[0]!.reply(replyTo(0));
    store.onAcquire = () => {
      times.push(clock.now());
      return replyTo(times.length - 1);
    };
    return times;
  };
  return { ...parts, outcome, answerAll };
}
