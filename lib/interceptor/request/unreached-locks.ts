import 'reflect-metadata';
import { type ModulesContainer } from '@nestjs/core';
import { type Reporter } from '../../core/reporter.js';

/** What the interceptors of `LockInterceptor.for` are known by, of every copy of the package: the module that they use. */
const REQUEST_LOCK = Symbol.for('nestjs-redis-lock:request-lock');

/** Where Nest keeps what `@UseInterceptors` says, and what classes and methods it calls interceptors for. */
const INTERCEPTORS = '__interceptors__';
const REACHED = ['websockets:is_gateway', 'graphql:resolver_type', 'graphql:resolve_property'];

/** Marks the class of an interceptor as one of `LockInterceptor.for`; `token` is that of the interceptor which it uses. */
export function markRequestLock(type: Function, token: symbol): void {
  Object.defineProperty(type, REQUEST_LOCK, { value: token });
}

/**
 * Nest calls interceptors for controllers, gateways and resolvers only: on another provider `LockInterceptor.for` has no
 * effect. Another library may call them there, as some do for their handlers, so it is a warning and no error. Each module
 * tells of its own locks, by the token of its interceptor.
 */
export function warnOfUnreachedLocks(
  modules: Pick<ModulesContainer, 'values'>,
  token: symbol,
  reporter: Pick<Reporter, 'warn'>,
): void {
  for (const module of modules.values()) {
    for (const { metatype } of module.providers.values()) {
      if (typeof metatype !== 'function' || !metatype.prototype) continue;
      for (const place of unreachedIn(metatype, token)) {
        reporter.warn(
          `${place} has LockInterceptor.for(), which Nest calls for controllers, gateways and resolvers only: unless ` +
            'another library calls it, the method runs WITHOUT its lock. Use @Locked there.',
        );
      }
    }
  }
}

function unreachedIn(type: Function, token: symbol): string[] {
  if (isReached(type)) return [];
  if (isLocked(type, token)) return [type.name];
  const prototype = type.prototype as object;
  const methods = Object.entries(Object.getOwnPropertyDescriptors(prototype)).flatMap(([name, { value }]) =>
    typeof value === 'function' && isLocked(value as Function, token) && !isReached(value as Function) ? [name] : [],
  );
  return methods.map((name) => `${type.name}.${name}`);
}

const isReached = (target: Function): boolean => REACHED.some((key) => Reflect.hasMetadata(key, target));

function isLocked(target: Function, token: symbol): boolean {
  const interceptors = (Reflect.getMetadata(INTERCEPTORS, target) ?? []) as readonly unknown[];
  return interceptors.some((one) => (one as { [REQUEST_LOCK]?: symbol } | undefined)?.[REQUEST_LOCK] === token);
}
