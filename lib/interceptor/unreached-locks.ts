import 'reflect-metadata';
import { type ModulesContainer } from '@nestjs/core';
import { type Reporter } from '../core/reporter.js';

/** What the interceptors of `LockInterceptor.for` are known by; of every copy of the package. */
const REQUEST_LOCK = Symbol.for('nestjs-redis-lock:request-lock');

/** Where Nest keeps what `@UseInterceptors` says, and what classes and methods it calls interceptors for. */
const INTERCEPTORS = '__interceptors__';
const REACHED = ['websockets:is_gateway', 'graphql:resolver_type', 'graphql:resolve_property'];

/** Marks the class of an interceptor as one of `LockInterceptor.for`. */
export function markRequestLock(type: Function): void {
  Object.defineProperty(type, REQUEST_LOCK, { value: true });
}

/**
 * Nest calls interceptors for controllers, gateways and resolvers only: on another provider `LockInterceptor.for` has no
 * effect. Another library may call them there, as some do for their handlers, so it is a warning and no error.
 */
export function warnOfUnreachedLocks(
  modules: Pick<ModulesContainer, 'values'>,
  reporter: Pick<Reporter, 'warn'>,
): void {
  for (const module of modules.values()) {
    for (const { metatype } of module.providers.values()) {
      if (typeof metatype !== 'function' || !metatype.prototype) continue;
      for (const place of unreachedIn(metatype)) {
        reporter.warn(
          `${place} has LockInterceptor.for(), which Nest calls for controllers, gateways and resolvers only: unless ` +
            'another library calls it, the method runs WITHOUT its lock. Use @Locked there.',
        );
      }
    }
  }
}

function unreachedIn(type: Function): string[] {
  if (isReached(type)) return [];
  if (isLocked(type)) return [type.name];
  const prototype = type.prototype as object;
  const methods = Object.entries(Object.getOwnPropertyDescriptors(prototype)).flatMap(([name, { value }]) =>
    typeof value === 'function' && isLocked(value as Function) && !isReached(value as Function) ? [name] : [],
  );
  return methods.map((name) => `${type.name}.${name}`);
}

const isReached = (target: Function): boolean => REACHED.some((key) => Reflect.hasMetadata(key, target));

function isLocked(target: Function): boolean {
  const interceptors = (Reflect.getMetadata(INTERCEPTORS, target) ?? []) as readonly unknown[];
  return interceptors.some((one) => (one as { [REQUEST_LOCK]?: boolean } | undefined)?.[REQUEST_LOCK] === true);
}
