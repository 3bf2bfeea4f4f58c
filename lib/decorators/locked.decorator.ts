import 'reflect-metadata';
import { Inject } from '@nestjs/common';
import { type LockMode } from '../core/lock.errors.js';
import { type LockInterceptor } from '../interceptor/lock.interceptor.js';
import { type LockedCall, checkedInterceptor, compileCall, markLocked } from '../interceptor/locked-call.js';
import { type LockedOptions } from '../interceptor/locked.options.js';
import { interceptorFor } from '../interceptor/running-modules.js';
import { mayBeStream, resultKindOf } from '../interceptor/streams/stream-kind.js';
import { streamPromise } from '../interceptor/streams/stream-result.js';
import { type KeySpec } from '../keys/key-spec.js';
import { getLockInterceptorToken } from '../redis-lock.tokens.js';
import { type AnyMethod, copyMetadata, decoratedMethod, refuseBareDecorator } from './decorated-method.js';
import {
  type IfBusy,
  type IfUnavailable,
  type LockedMethodDecorator,
  type OncePer,
  type SkipOptions,
  type SkippedBy,
} from './locked-method.types.js';

/**
 * Runs the method under a lock in mode `write`: at most one call per key at a time, on all instances of the app.
 *
 * `@Locked('order:<0.id>')`: the `id` of the first argument fills `<0.id>`.
 * @throws LockWaitTimeoutError, LockBusyError, LockLostError, LockStoreError, LockKeyError, LockReentryError, LockShutdownError,
 *   LockConfigurationError
 */
export function Locked<const K extends KeySpec, B extends IfBusy, P extends OncePer, U extends IfUnavailable>(
  key: K,
  options?: LockedOptions & SkipOptions<B, P, U>,
): LockedMethodDecorator<K, SkippedBy<B, P, U>> {
  refuseBareDecorator("@Locked('order:<0.id>')", key, options, '@Locked or @WriteLocked');
  return lockMethod('write', key, options);
}

/** The same as `Locked`: no reader and no other writer of the key runs at the same time. */
export const WriteLocked = Locked;

/**
 * Runs the method under a lock in mode `read`: at the same time as other readers of the key, never as a writer.
 * @throws LockWaitTimeoutError, LockBusyError, LockLostError, LockStoreError, LockKeyError, LockReentryError, LockShutdownError,
 *   LockConfigurationError
 */
export function ReadLocked<const K extends KeySpec, B extends IfBusy, P extends OncePer, U extends IfUnavailable>(
  key: K,
  options?: LockedOptions & SkipOptions<B, P, U>,
): LockedMethodDecorator<K, SkippedBy<B, P, U>> {
  refuseBareDecorator("@ReadLocked('order:<0.id>')", key, options);
  return lockMethod('read', key, options);
}

/**
 * Runs at most `permits` calls per key at a time, on all instances together: a counting semaphore in which each permit has a
 * lease. The calls lock the key in mode `read`, so a writer of the key excludes all of them. `@Limited('tenant:<0>', 5)`: at most
 * five at a time per tenant. A function of the arguments may return the number.
 * @throws LockWaitTimeoutError, LockBusyError, LockLostError, LockStoreError, LockKeyError, LockReentryError, LockShutdownError,
 *   LockConfigurationError
 */
export function Limited<const K extends KeySpec, B extends IfBusy, P extends OncePer, U extends IfUnavailable>(
  key: K,
  permits: NonNullable<LockedOptions['permits']>,
  options: Omit<LockedOptions, 'permits'> & SkipOptions<B, P, U> = {},
): LockedMethodDecorator<K, SkippedBy<B, P, U>> {
  refuseBareDecorator("@Limited('tenant:<0>', 5)", key, permits);
  // Without type checks, `permits` may be undefined, which would mean no limit.
  return lockMethod('read', key, options, permits ?? NaN);
}

/**
 * Puts a lock around a method when its class is defined; no other code changes descriptors. A proxy with all metadata
 * copied keeps routes, cron jobs, guards, name and length, above and below other decorators. No explorer runs at start-up,
 * so no other code can have read the bare method before.
 */
function lockMethod(mode: LockMode, key: KeySpec, options: LockedOptions = {}, permits?: LockedOptions['permits']) {
  return (target: object, name: string | symbol, descriptor: PropertyDescriptor): void => {
    const { where, method } = decoratedMethod(target, name, descriptor);
    const returnType: unknown = Reflect.getMetadata('design:returntype', target, name);
    const compiled = compileCall(key, options, { where, mode, permits, kind: resultKindOf(method, returnType) });
    const { connection } = compiled.options;
    const property = injectInterceptor(target, connection);
    const isUnknown = mayBeStream(method, returnType);
    const answer = (result: unknown) => (isUnknown ? streamPromise(result as Promise<unknown>, where) : result);
    const locked: AnyMethod = new Proxy(method, {
      apply: (_method, self: Instance | null | undefined, args: unknown[]) => {
        try {
          const interceptor = self?.[property] ?? interceptorFor(self, where, connection);
          return answer(checkedInterceptor(interceptor, where).run(call, self, args, () => method.apply(self, args)));
        } catch (error) {
          // A method that returns a promise rejects instead of throwing.
          if (call.kind === 'promise') return answer(Promise.reject(error));
          throw error;
        }
      },
    });
    const call: LockedCall = { ...compiled, name, method: locked, inside: method };
    copyMetadata(method, locked);
    markLocked(call);
    descriptor.value = locked;
  };
}

type Instance = { readonly [property: symbol]: LockInterceptor | undefined };

/** Makes Nest set the interceptor on every instance that it builds, under a unique symbol. */
function injectInterceptor(target: object, connection: string | undefined): symbol {
  const token = getLockInterceptorToken(connection);
  Inject(token)(target, token);
  return token;
}
