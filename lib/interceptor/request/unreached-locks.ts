import 'reflect-metadata';
import { type Type } from '@nestjs/common';
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
  for (const place of classesOf(modules).flatMap((type) => unreachedIn(type, token))) {
    reporter.warn(
      `${place} has LockInterceptor.for(), which Nest calls for controllers, gateways and resolvers only: unless ` +
        'another library calls it, the method runs WITHOUT its lock. Use @Locked there.',
    );
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
  for (const [, method] of classesOf(modules).flatMap(methodsOf)) {
    const call = hasSchedule(method) ? lockedCallOf(method) : undefined;
    if (call?.options.oncePer === 'fire' && call.options.connection === connection) jobs.add(call.where);
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
  const methods = methodsOf(type).filter(([, method]) => isLocked(method, token) && !isReached(method));
  return methods.map(([name]) => `${type.name}.${name}`);
}

/** The classes of all providers. */
const classesOf = (modules: Pick<ModulesContainer, 'values'>): Function[] =>
  [...modules.values()]
    .flatMap(({ providers }) => [...providers.values()].map(({ metatype }) => metatype))
    .filter((type): type is Type => typeof type === 'function' && Boolean(type.prototype));

/** The methods that a class has itself. */
const methodsOf = ({ prototype }: Function): (readonly [name: string, method: Function])[] =>
  Object.entries(Object.getOwnPropertyDescriptors(prototype as object)).flatMap(([name, { value }]) =>
    typeof value === 'function' ? [[name, value as Function] as const] : [],
  );

const isReached = (target: Function): boolean => REACHED.some((key) => Reflect.hasMetadata(key, target));

function isLocked(target: Function, token: symbol): boolean {
  const interceptors = (Reflect.getMetadata(INTERCEPTORS, target) ?? []) as readonly unknown[];
  return interceptors.some((one) => (one as { [REQUEST_LOCK]?: symbol } | undefined)?.[REQUEST_LOCK] === token);
}
