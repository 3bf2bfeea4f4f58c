import { Inject, Injectable, type NestInterceptor, type Type } from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';
import { EMPTY, type Observable, concat, defer, from } from 'rxjs';
import { type Hold } from '../core/hold/hold.js';
import { Iteration } from '../core/reentry/iteration.js';
import { runHolding, runUnlocked } from '../core/reentry/context.js';
import { LockConfigurationError, LockNotHeldError, type LockStoreError } from '../core/lock.errors.js';
import { type Locker } from '../core/acquire/locker.js';
import { type ScheduledCall } from '../core/timer-queue.js';
import { type UnlockedHandle } from '../core/reentry/unlocked-run.js';
import { endWork, runWithLock } from '../core/reentry/run.js';
import { type KeySpec } from '../keys/key-spec.js';
import { type KeyOfAny } from '../keys/key-template.types.js';
import type { ResolvedModuleOptions } from '../redis-lock.options.js';
import { RedisLockService } from '../redis-lock.service.js';
import { LOCKER, OWN_SERVICE, RESOLVED_OPTIONS } from '../redis-lock.tokens.js';
import { FireFinder } from '../schedule/fire-finder.js';
import { HandlerCalls } from './request/handler-calls.js';
import { isAsyncIterable, isObservableLike, refuseStream } from './streams/stream-kind.js';
import { logger } from './lock-logger.js';
import { type LockedCall } from './locked-call.js';
import { type EntryHost, enterCall } from './enter-call.js';
import { type RequestLockOptions, requestLock } from './request/request-lock.js';
import { ofThisCopy, lockedObservable } from './streams/stream-observable.js';
import { type StreamLock } from './streams/stream-lock.js';
import { finishStream } from './streams/stream-result.js';
import { lockedAsyncIterable } from './streams/stream-iterator.js';

/** Asked first, because a stream needs more of its lock than most calls ever do. */
const goesOn = (result: unknown): boolean => isObservableLike(result) || isAsyncIterable(result);

/** The around advice of the decorators: fills the key, acquires, runs the method under the watchdog, releases. */
@Injectable()
export class LockInterceptor implements NestInterceptor {
  readonly #host: EntryHost;

  /**
   * An interceptor for `@UseInterceptors`, which locks by a key of the request:
   * `LockInterceptor.for('user:<0.params.id>')`. `<0>`, `<1>`, … are what Nest gives its handlers: of HTTP the request
   * and the response, of a message its data and context, of a WebSocket the client and the data, of GraphQL the parent,
   * the arguments, the context and the info. The lock is held from before the pipes until all interceptors inside (such
   * as the ClassSerializerInterceptor) are done, and the handler has settled, also when nobody waits for it any more.
   * @throws LockKeyError, LockConfigurationError; (the request) what a method with `@Locked` rejects with
   */
  static for<const K extends KeySpec>(key: K & KeyOfAny<K>, options: RequestLockOptions = {}): Type<NestInterceptor> {
    return requestLock(key, options);
  }

  /** Internal: Nest calls it. */
  constructor(
    @Inject(OWN_SERVICE) private readonly locks: RedisLockService,
    @Inject(LOCKER) private readonly locker: Locker,
    @Inject(RESOLVED_OPTIONS) { leaseMs, onUnavailable }: ResolvedModuleOptions,
    @Inject(ModulesContainer) modules: ModulesContainer,
  ) {
    const { clock } = locker;
    const fires = new FireFinder(modules, () => clock.wallNow());
    this.#host = { locks, fires, clock, leaseMs, onUnavailable };
  }

  /** The name of the connection whose locks these are. */
  get connection(): string | undefined {
    return this.locks.connection;
  }

  /**
   * Internal: the decorators call it. Runs `proceed` under the lock of a decorated call; gives what such a call
   * returns: a promise, an Observable or an async iterable.
   * @throws (the promise, the stream) what `RedisLockService.withLock` throws; LockConfigurationError when the method
   *   returned a stream of another kind
   */
  run(call: LockedCall, self: unknown, args: readonly unknown[], proceed: () => unknown): unknown {
    if (call.kind === 'promise') return this.#runPromise(call, self, args, proceed);
    const open = (signal: AbortSignal): Promise<StreamLock | null> => this.#open(call, self, args, signal);
    return call.kind === 'observable' ? lockedObservable(open, proceed) : lockedAsyncIterable(open, proceed);
  }

  /** Runs a handler of Nest under a lock, from the subscription on; internal: what `LockInterceptor.for` calls. */
  around(call: LockedCall, args: readonly unknown[], proceed: () => Observable<unknown>): Observable<unknown> {
    return defer(() => {
      const calls = new HandlerCalls(call.method, args, call.where);
      let answers: Observable<unknown> = EMPTY;
      const onSkip = (answer: unknown): void => {
        answers = isObservableLike(answer) ? ofThisCopy(answer) : answered(answer);
      };
      const open = (signal: AbortSignal) => this.#open(call, undefined, args, signal, onSkip);
      return concat(
        lockedObservable(open, proceed, calls),
        defer(() => answers),
      );
    });
  }

  /** `@UseInterceptors(LockInterceptor)` has no key: without this method, Nest would leave it out and run unlocked. */
  intercept(): never {
    throw new LockConfigurationError("Use LockInterceptor.for('<key>') with @UseInterceptors: a lock needs a key.");
  }

  async #runPromise(
    call: LockedCall,
    self: unknown,
    args: readonly unknown[],
    proceed: () => unknown,
  ): Promise<unknown> {
    const entered = await this.locker.awaited.keepAlive(enterCall(this.#host, call, self, args));
    if (entered.kind === 'skipped') return entered.answer;
    if (entered.kind === 'unlocked') {
      warnUnlocked(call, entered.cause);
      return runWithout(entered.run, proceed);
    }
    const { lock } = entered;
    const work = async (): Promise<unknown> => {
      const result = await proceed();
      refuseStream(result, call.where);
      return result;
    };
    return runWithLock(lock, work, (result) =>
      goesOn(result) ? finishStream(this.#streamLock(lock, call), result) : null,
    );
  }

  async #open(
    call: LockedCall,
    self: unknown,
    args: readonly unknown[],
    signal: AbortSignal,
    onSkip?: (answer: unknown) => void,
  ): Promise<StreamLock | null> {
    const entered = await this.locker.awaited.keepAlive(enterCall(this.#host, call, self, args, signal));
    if (entered.kind === 'skipped') {
      onSkip?.(entered.answer);
      return null;
    }
    if (entered.kind === 'locked') return this.#streamLock(entered.lock, call);
    warnUnlocked(call, entered.cause);
    return unlockedStream(entered.run);
  }

  /** Only the stream holds it, so that a stream which is dropped in its midst gives the lock back. */
  #streamLock(lock: Hold, { options: { leaseMs = this.#host.leaseMs } }: LockedCall): StreamLock {
    const { timers, clock, handles } = this.locker;
    let limit: ScheduledCall | undefined;
    const lose = (): void => {
      lock.lose('max-hold', new LockNotHeldError(LEFT, lock));
      // Inside another hold it may have nothing to lose yet.
      if (!lock.lost && !lock.isEnded) limit = timers.schedule(clock.now() + leaseMs, lose);
    };
    const streamLock: StreamLock = {
      get signal() {
        return lock.signal;
      },
      iteration: new Iteration(lock),
      run: (work) => runHolding(lock, work),
      limit: () => {
        limit ??= timers.schedule(clock.now() + leaseMs, lose);
      },
      end: async (outcome) => {
        limit?.cancel();
        const lost = await endWork(lock, outcome);
        if (lost) throw lost;
      },
    };
    return handles.track(streamLock, lock);
  }
}

/** Whoever asked may be gone before it is there. */
function answered(answer: unknown): Observable<unknown> {
  const settled = Promise.resolve(answer);
  settled.catch(() => undefined);
  return from(settled);
}

const LEFT = 'The iteration was ended while a value was under way, and that took longer than one more lease.';

/** For `run-unlocked`: there is nothing to lose and nothing to give back. */
const unlockedStream = (run: UnlockedHandle): StreamLock => ({
  get signal() {
    return run.signal;
  },
  run: (work) => runUnlocked(run, work),
  end: async () => void (run.isEnded = true),
});

/** A result that goes on after the method has returned is part of the run. */
async function runWithout(run: UnlockedHandle, proceed: () => unknown): Promise<unknown> {
  const stream = unlockedStream(run);
  let goesOnAs: unknown = null;
  try {
    const result = await stream.run(proceed);
    goesOnAs = finishStream(stream, result);
    return goesOnAs ?? result;
  } finally {
    if (goesOnAs === null) await stream.end('done');
  }
}

function warnUnlocked(call: LockedCall, cause: LockStoreError): void {
  logger.warn(`${call.where} runs WITHOUT its lock, as its \`onUnavailable\` says: ${cause.message}`);
}
