import { Inject, Injectable, type NestInterceptor, type Type } from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';
import { EMPTY, type Observable, concat, defer, from } from 'rxjs';
import { type Locker } from '../core/acquire/locker.js';
import { withEither } from '../core/abort-listener.js';
import { type Hold } from '../core/hold/hold.js';
import { LockConfigurationError } from '../core/lock.errors.js';
import { type LockOptions, resolveLockOptions } from '../core/lock.options.js';
import { keysOf } from '../core/call-arguments.js';
import { runHolding } from '../core/reentry/context.js';
import { enterLock } from '../core/reentry/enter-lock.js';
import { runWithLock } from '../core/reentry/run.js';
import { type KeySpec } from '../keys/key-spec.js';
import { type KeyOfAny } from '../keys/key-template.types.js';
import type { ResolvedModuleOptions } from '../redis-lock.options.js';
import { partsOf } from '../redis-lock.parts.js';
import { RedisLockService } from '../redis-lock.service.js';
import { LOCKER, OWN_SERVICE, RESOLVED_OPTIONS } from '../redis-lock.tokens.js';
import { type FireClaim } from '../core/store/fires.js';
import { FireFinder } from '../schedule/fire-finder.js';
import { type Caller, claimOf, type EntryHost, notEntered, optionsOf, type Refused } from './enter-call.js';
import { logger } from './lock-logger.js';
import { type LockedCall, markInterceptor } from './locked-call.js';
import { HandlerCalls } from './request/handler-calls.js';
import { type RequestLockOptions, requestLock } from './request/request-lock.js';
import { lockedAsyncIterable } from './streams/stream-iterator.js';
import { takeRunNow } from './run-now.js';
import { SharedCalls } from './shared-calls.js';
import {
  isAsyncIterable,
  isObservableLike,
  isOpenStream,
  refuseSharedStream,
  refuseStream,
} from './streams/stream-kind.js';
import { type StreamLock, heldStreamLock, unlockedStreamLock } from './streams/stream-lock.js';
import { lockedObservable, ofThisCopy } from './streams/stream-observable.js';
import { finishStream } from './streams/stream-result.js';

/** Checked first: most results are not streams, and a `StreamLock` is made only for streams. */
const isStream = (result: unknown): boolean => isObservableLike(result) || isAsyncIterable(result);

/** The around advice of the decorators: fills the key, enters the lock, runs the method, and releases the lock. */
@Injectable()
export class LockInterceptor implements NestInterceptor {
  readonly #host: EntryHost;
  readonly #shared: SharedCalls;
  /** Private to this class: it has the secrets of the connection, and apps log objects. */
  readonly #defaults: ResolvedModuleOptions;
  readonly connection: string | undefined;

  /**
   * Makes an interceptor for `@UseInterceptors` that locks by a key of the request, such as `'user:<0.params.id>'`. `<0>`, `<1>`, …
   * are the arguments of Nest's handlers: request and response for HTTP; data and context for a message; client and data for a
   * WebSocket; parent, arguments, context and info for GraphQL. The lock is held from before the pipes until all interceptors inside
   * are done and the handler has settled, even if the request was given up.
   * @throws LockKeyError, LockConfigurationError
   */
  static for<const K extends KeySpec>(key: K & KeyOfAny<K>, options: RequestLockOptions = {}): Type<NestInterceptor> {
    return requestLock(key, options);
  }

  /** Internal: Nest calls it. */
  constructor(
    @Inject(OWN_SERVICE) locks: RedisLockService,
    @Inject(LOCKER) private readonly locker: Locker,
    @Inject(RESOLVED_OPTIONS) defaults: ResolvedModuleOptions,
    @Inject(ModulesContainer) modules: ModulesContainer,
  ) {
    const { name, leaseMs, waitMs, onUnavailable } = defaults;
    this.connection = name;
    this.#defaults = defaults;
    const fires = new FireFinder(modules, () => locker.clock.wallNow());
    this.#host = { locks, locker, fires, leaseMs, onUnavailable };
    this.#shared = new SharedCalls(locker, waitMs);
    markInterceptor(this, partsOf(locks) !== undefined);
  }

  /**
   * Internal: the decorators call it. Runs `proceed` under the lock of a decorated call, and returns what such a call
   * returns: a promise, an Observable or an async iterable.
   * @throws (the promise, the stream) what `RedisLockService.withLock` throws; LockConfigurationError when the method
   *   returned a stream of another kind
   */
  run(call: LockedCall, self: unknown, args: readonly unknown[], proceed: () => unknown): unknown {
    if (call.kind === 'promise') {
      // Not async: a nested call, which enters at once, would create two more promises.
      try {
        if (call.options.ifBusy === 'share') return this.#share(call, self, args, proceed);
        return this.#runLocked(call, { self, args, key: call.keyOf(self, args) }, proceed);
      } catch (error) {
        return Promise.reject(error);
      }
    }
    const open = (signal: AbortSignal): Promise<StreamLock | null> => this.#open(call, self, args, signal);
    return call.kind === 'observable' ? lockedObservable(open, proceed) : lockedAsyncIterable(open, proceed);
  }

  /** Internal: `LockInterceptor.for` calls it. Runs a handler of Nest under a lock, from the subscription on. */
  around(call: LockedCall, args: readonly unknown[], proceed: () => Observable<unknown>): Observable<unknown> {
    return defer(() => {
      const calls = new HandlerCalls(call.method, args, call.where);
      let answers: Observable<unknown> = EMPTY;
      const onSkip = (answer: unknown): void => {
        answers = isObservableLike(answer) ? ofThisCopy(answer) : ignoringRejection(answer);
      };
      const open = (signal: AbortSignal) => this.#open(call, undefined, args, signal, onSkip);
      return concat(
        lockedObservable(open, proceed, calls),
        defer(() => answers),
      );
    });
  }

  /** Refuses `@UseInterceptors(LockInterceptor)`, which has no key: without this method, Nest would run handlers unlocked. */
  intercept(): never {
    throw new LockConfigurationError("Use LockInterceptor.for('<key>') with @UseInterceptors: a lock needs a key.");
  }

  #share(call: LockedCall, self: unknown, args: readonly unknown[], proceed: () => unknown): Promise<unknown> {
    return this.#shared.run(call, self, args, (key, onInside) => {
      const whole = async (): Promise<unknown> => (onInside(), wholeResult(await proceed(), call.where));
      return this.#runLocked(call, { self, args, key }, whole);
    });
  }

  #claim(call: LockedCall, caller: Caller): Promise<FireClaim> {
    return this.locker.awaited.keepAlive(claimOf(this.#host, call, caller));
  }

  #runLocked(call: LockedCall, caller: Caller, proceed: () => unknown, claim?: FireClaim): Promise<unknown> {
    if (call.options.oncePer !== undefined && !claim && !caller.isByHand) {
      if (takeRunNow()) return this.#runLocked(call, { ...caller, isByHand: true }, proceed);
      return this.#claim(call, caller).then((own) => this.#runLocked(call, caller, proceed, own));
    }
    const options = call.isSame ? call.lock : optionsOf(this.#host, call, caller);
    const takeOver = (result: unknown, lock: Hold): unknown => {
      if (isOpenStream(result)) runHolding(lock, () => refuseStream(result, call.where));
      return isStream(result) ? finishStream(this.#streamLock(lock, call), result) : null;
    };
    return runWithLock(this.#enter(call, caller, options, claim), proceed, takeOver, (error) => {
      const refused = notEntered(this.#host, call, error, caller, options.note);
      return refused.kind === 'skipped' ? refused.answer : runWithoutLock(unlocked(call, refused), proceed);
    });
  }

  #enter(call: LockedCall, { key }: Caller, options: LockOptions, claim?: FireClaim): Hold | Promise<Hold> {
    const resolved = resolveLockOptions(options, this.#defaults);
    return enterLock(this.locker, this.locker.request(keysOf(key), resolved, call.label, claim));
  }

  /** Enters the lock of a stream; null if its call is skipped. */
  async #open(
    call: LockedCall,
    self: unknown,
    args: readonly unknown[],
    signal: AbortSignal,
    onSkip?: (answer: unknown) => void,
  ): Promise<StreamLock | null> {
    const caller = { self, args, key: call.keyOf(self, args) };
    const claim = call.options.oncePer === undefined ? undefined : await this.#claim(call, caller);
    const options = call.isSame ? call.lock : optionsOf(this.#host, call, caller);
    const enter = async (either?: AbortSignal) => this.#enter(call, caller, { ...options, signal: either }, claim);
    try {
      return this.#streamLock(await withEither(options.signal, signal, enter), call);
    } catch (error) {
      const refused = notEntered(this.#host, call, error, caller, options.note);
      if (refused.kind === 'unlocked') return unlocked(call, refused);
      onSkip?.(refused.answer);
      return null;
    }
  }

  #streamLock(lock: Hold, { options: { leaseMs = this.#host.leaseMs } }: LockedCall): StreamLock {
    return heldStreamLock(lock, this.locker, leaseMs);
  }
}

const wholeResult = (result: unknown, where: string): unknown =>
  isStream(result) || isOpenStream(result) ? refuseSharedStream(result, where) : result;

/** The stand-in lock of a run without its lock, with a warning. */
function unlocked({ where }: LockedCall, { run, cause }: Refused & { readonly kind: 'unlocked' }): StreamLock {
  logger.warn(`${where} runs WITHOUT its lock, because of its \`onUnavailable\`: ${cause.message}`);
  return unlockedStreamLock(run);
}

/** Ignores a rejection that comes after the subscriber is gone. */
function ignoringRejection(answer: unknown): Observable<unknown> {
  const settled = Promise.resolve(answer);
  settled.catch(() => undefined);
  return from(settled);
}

/** Runs a method without its lock. If it resolves to a stream, the run ends with that stream. */
async function runWithoutLock(lock: StreamLock, proceed: () => unknown): Promise<unknown> {
  let stream: unknown = null;
  try {
    const result = await lock.run(proceed);
    stream = finishStream(lock, result);
    return stream ?? result;
  } finally {
    if (stream === null) await lock.end('done');
  }
}
