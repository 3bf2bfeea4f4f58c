import 'reflect-metadata';
import { Inject } from '@nestjs/common';
import { type LockMode } from '../core/lock.errors.js';
import { type LockInterceptor } from '../interceptor/lock.interceptor.js';
import {
  type LockedCall,
  checkedInterceptor,
  compileCall,
  markLocked,
  plainEntryOf,
} from '../interceptor/locked-call.js';
import { type LockedOptions } from '../interceptor/locked.options.js';
import { interceptorFor } from '../interceptor/running-modules.js';
import { mayBeStream, resultKindOf } from '../interceptor/streams/stream-kind.js';
import { streamPromise } from '../interceptor/streams/stream-result.js';
import { type KeySpec } from '../keys/key-spec.js';
import { getLockInterceptorToken } from '../redis-lock.tokens.js';
import { copyMetadata } from './copy-metadata.js';
import { type AnyMethod, decoratedMethod } from './decorated-method.js';

/**
 * Puts a lock around a method when its class is defined; nothing else touches descriptors. A proxy with all metadata
 * copied keeps routes, cron jobs, guards, name and length, above and below other decorators. No explorer runs at start-up,
 * so nobody can have taken the bare method before.
 */
export function lockMethod(
  mode: LockMode,
  key: KeySpec,
  options: LockedOptions = {},
  permits?: LockedOptions['permits'],
) {
  return (target: object, name: string | symbol, descriptor: PropertyDescriptor): void => {
    const { where, method } = decoratedMethod(target, name, descriptor);
    const returnType: unknown = Reflect.getMetadata('design:returntype', target, name);
    const compiled = compileCall(key, options, { where, mode, permits, kind: resultKindOf(method, returnType) });
    const property = injectInterceptor(target, compiled.options.connection);
    const isUnknown = mayBeStream(method, returnType);
    const wrap = (result: unknown) => (isUnknown ? streamPromise(result as Promise<unknown>, where) : result);
    const locked: AnyMethod = new Proxy(method, {
      apply: (_method, self: unknown, args: unknown[]) => wrap(runLocked(call, property, self, args, method)),
    });
    const call: LockedCall = { ...compiled, name, method: locked, inside: method, plain: plainEntryOf(compiled) };
    copyMetadata(method, locked);
    markLocked(call);
    descriptor.value = locked;
  };
}

function runLocked(call: LockedCall, property: symbol, self: unknown, args: unknown[], method: AnyMethod): unknown {
  const injected = (self as { [property]?: LockInterceptor } | null | undefined)?.[property];
  try {
    const interceptor = injected ?? interceptorFor(self, call.where, call.options.connection);
    return checkedInterceptor(interceptor, call.where).run(call, self, args, () => method.apply(self, args));
  } catch (error) {
    // A method that returns a promise rejects instead of throwing.
    if (call.kind === 'promise') return Promise.reject(error);
    throw error;
  }
}

/** Lets Nest set the interceptor on every instance that it builds, under a symbol that collides with nothing. */
function injectInterceptor(target: object, connection: string | undefined): symbol {
  const token = getLockInterceptorToken(connection);
  Inject(token)(target, token);
  return token;
}
