import 'reflect-metadata';
import { Inject } from '@nestjs/common';
import { LockConfigurationError, type LockMode } from '../core/lock.errors.js';
import { checkConnectionName, checkLockOptions } from '../core/lock-options.js';
import { type LockedCall, type LockedOptions } from '../interceptor/locked-call.js';
import { type LockInterceptor } from '../interceptor/lock.interceptor.js';
import { onlyLivingModule } from '../interceptor/living-modules.js';
import { getLockInterceptorToken } from '../redis-lock.tokens.js';
import { type KeySpec, compileKeySpec } from './key-spec.js';

type AnyMethod = (...args: unknown[]) => unknown;

/**
 * Puts a lock around a method when its class is defined: the only place that touches descriptors. A proxy with all
 * metadata copied keeps routes, cron jobs, guards, name and length, above and below other decorators; and since no
 * explorer at start-up is involved, nobody can have taken the bare method before.
 */
export function lockMethod(mode: LockMode, key: KeySpec, options: LockedOptions = {}) {
  return (target: object, name: string | symbol, descriptor: PropertyDescriptor): void => {
    const where = `${typeof target === 'function' ? target.name : target.constructor.name}.${String(name)}`;
    const method = methodOf(target, descriptor, where);
    checkOptions(options, where);
    const call: LockedCall = { where, keyOf: compileKeySpec(key, where), options: { ...options, mode } };
    const property = injectInterceptor(target, options.connection);
    const locked = new Proxy(method, {
      apply: (_method, self: unknown, args: unknown[]) => runLocked(call, property, self, args, method),
    });
    copyMetadata(method, locked);
    descriptor.value = locked;
  };
}

async function runLocked(
  call: LockedCall,
  property: symbol,
  self: unknown,
  args: unknown[],
  method: AnyMethod,
): Promise<unknown> {
  const injected = (self as { [property]?: LockInterceptor } | null | undefined)?.[property];
  const interceptor = injected ?? onlyLivingModule(call.where, call.options.connection);
  return interceptor.run(call, self, args, () => method.apply(self, args));
}

function methodOf(target: object, descriptor: PropertyDescriptor | undefined, where: string): AnyMethod {
  const advice = 'put the decorator on a method of a class';
  if (typeof target === 'function') {
    throw new LockConfigurationError(
      `${where}: a static method cannot be locked, because Nest injects nothing there; ${advice}.`,
    );
  }
  if (typeof descriptor?.value !== 'function') {
    throw new LockConfigurationError(`${where}: expected a method to lock, got a property or an accessor; ${advice}.`);
  }
  return descriptor.value as AnyMethod;
}

function checkOptions(options: LockedOptions, where: string): void {
  const { ifBusy } = options;
  try {
    if ('mode' in options)
      throw new LockConfigurationError('`mode` is said by the decorator: use @ReadLocked or @WriteLocked.');
    checkLockOptions(options, ['ifBusy', 'connection']);
    checkConnectionName(options.connection, 'connection');
    if (ifBusy !== undefined && !['wait', 'skip', 'throw'].includes(ifBusy as string) && typeof ifBusy !== 'function') {
      throw new LockConfigurationError(
        `Expected \`ifBusy\` to be 'wait', 'skip', 'throw' or a function, got ${typeof ifBusy}.`,
      );
    }
    if (ifBusy !== undefined && ifBusy !== 'wait' && options.waitMs) {
      throw new LockConfigurationError(
        `\`waitMs: ${options.waitMs}\` has no effect beside this \`ifBusy\`, which tries once; leave one out.`,
      );
    }
  } catch (error) {
    throw new LockConfigurationError(`${where}: ${(error as Error).message}`, { cause: error });
  }
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
