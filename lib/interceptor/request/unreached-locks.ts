import 'reflect-metadata';
import { type ModulesContainer } from '@nestjs/core';
import { type Reporter } from '../../core/reporter.js';
import { hasSchedule } from '../../schedule/schedule-metadata.js';
import { registriesOf } from '../../schedule/scheduler.js';
import { lockedCallOf } from '../locked-call.js';

/** Marks the interceptors of `LockInterceptor.for`, in every copy of the package, with the token of the module that they use. */
const REQUEST_LOCK = Symbol.for('nestjs-redis-lock:request-lock');

/** The metadata of `@UseInterceptors`, and of the classes and methods for which Nest calls interceptors. */
const INTERCEPTORS = '__interceptors__';
const REACHED = ['websockets:is_gateway', 'graphql:resolver_type', 'graphql:resolve_property'];

/** Marks the class of an interceptor as made by `LockInterceptor.for`; `token` is that of the `LockInterceptor` it uses. */
export function markRequestLock(type: Function, token: symbol): void {
  Object.defineProperty(type, REQUEST_LOCK, { value: token });
}

/**
 * Warns of each `LockInterceptor.for` that Nest does not call: it calls interceptors for controllers, gateways and resolvers
 * only. Another library may call them elsewhere, as some do for their handlers, so this is no error. Each module warns of its
 * own locks, by the token of its interceptor.
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

/** Warns of the jobs of a connection that nothing fires, since the app has no scheduler. */
export function warnOfUnscheduledJobs(
  modules: Pick<ModulesContainer, 'values'>,
  connection: string | undefined,
  reporter: Pick<Reporter, 'warn'>,
): void {
  if (!registriesOf(modules).next().done) return;
  const jobs = new Set<string>();
  for (const module of modules.values()) {
    for (const { metatype } of module.providers.values()) {
      const prototype = (typeof metatype === 'function' && (metatype.prototype as object | undefined)) || {};
      for (const { value } of Object.values(Object.getOwnPropertyDescriptors(prototype))) {
        const call = typeof value === 'function' && hasSchedule(value as Function) && lockedCallOf(value as Function);
        const isFired = call && call.options.oncePer === 'fire' && call.options.connection === connection;
        if (isFired) jobs.add(call.where);
      }
    }
  }
  if (jobs.size === 0) return;
  const names = new Intl.ListFormat('en').format(jobs);
  reporter.warn(
    `Nothing fires ${names}: the app has no scheduler. Import ScheduleModule.forRoot() of @nestjs/schedule.`,
  );
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
