import 'reflect-metadata';
import { Inject } from '@nestjs/common';
import { type LockMode } from '../core/lock.errors.js';
import { type LockedCall } from '../interceptor/locked-call.js';
import { type LockedOptions, checkJobKey, checkLockedOptions } from '../interceptor/locked.options.js';
import { type LockInterceptor } from '../interceptor/lock.interceptor.js';
import { iterablePromise } from '../interceptor/streams/stream-result.js';
import { mayBeIterable, resultKindOf } from '../interceptor/streams/stream-kind.js';
import { onlyLivingModule } from '../interceptor/running-modules.js';
import { getLockInterceptorToken } from '../redis-lock.tokens.js';
import { type AnyMethod, decoratedMethod } from './decorated-method.js';
import { type KeySpec, compileKeySpec, describeKeySpec } from '../keys/key-spec.js';

/**
 * Puts a lock around a method when its class is defined: the only place that touches descriptors. A proxy with all
 * metadata copied keeps routes, cron jobs, guards, name and length, above and below other decorators; and since no
 * explorer at start-up is involved, nobody can have taken the bare method before.
 */
export function lockMethod(mode: LockMode, key: KeySpec, options: LockedOptions = {}) {
  return (target: object, name: string | symbol, descriptor: PropertyDescriptor): void => {
    const { where, method } = decoratedMethod(target, name, descriptor);
    const returnType: unknown = Reflect.getMetadata('design:returntype', target, name);
    const kind = resultKindOf(method, returnType);
    checkLockedOptions(options, { mode, kind, where });
    if (options.oncePer !== undefined) checkJobKey(key, where);
    const property = injectInterceptor(target, options.connection);
    const iterates = mayBeIterable(method, returnType);
    const finish = (result: unknown) => (iterates ? iterablePromise(result as Promise<unknown>, where) : result);
    const locked: AnyMethod = new Proxy(method, {
      apply: (_method, self: unknown, args: unknown[]) => finish(runLocked(call, property, self, args, method)),
    });
    const call: LockedCall = {
      where,
      name,
      method: locked,
      kind,
      keyOf: compileKeySpec(key, where),
      template: describeKeySpec(key),
      options: { ...options, mode },
    };
    copyMetadata(method, locked);
    descriptor.value = locked;
  };
}

function runLocked(call: LockedCall, property: symbol, self: unknown, args: unknown[], method: AnyMethod): unknown {
  const injected = (self as { [property]?: LockInterceptor } | null | undefined)?.[property];
  const run = (): unknown => {
    const interceptor = injected ?? onlyLivingModule(self, call.where, call.options.connection);
    return interceptor.run(call, self, args, () => method.apply(self, args));
  };
  // A method that gives a promise never throws in its caller's turn.
  return call.kind === 'promise' ? new Promise((resolve) => resolve(run())) : run();
}

/** Lets Nest set the interceptor on every instance that it builds, under a symbol that collides with nothing. */
function injectInterceptor(target: object, connection: string | undefined): symbol {
  const token = getLockInterceptorToken(connection);
  Inject(token)(target, token);
  return token;
}

function copyMetadata(from: object, to: object): void {
  for (const key of Reflect.getMetadataKeys(from) as unknown[]) {
    Reflect.defineMetadata(key, Reflect.getMetadata(key, from), to);
  }
}
