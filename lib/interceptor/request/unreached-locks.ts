import 'reflect-metadata';
import { type Type } from '@nestjs/common';
import { LockConfigurationError } from '../../core/lock.errors.js';
import { type Reporter } from '../../core/reporter.js';
import { hasSchedule, methodsOf, type Modules, registriesOf } from '../../schedule/scheduler.js';
import { lockedCallOf, lockedCallsOf } from '../locked-call.js';

/** Marks the interceptors of `LockInterceptor.for`, in every copy of the package, with the token of their module. */
const REQUEST_LOCK = Symbol.for('nestjs-redis-lock:request-lock');

/** The metadata of `@UseInterceptors`, and of the classes and methods for which Nest calls interceptors. */
const INTERCEPTORS = '__interceptors__';
const REACHED = ['websockets:is_gateway', 'graphql:resolver_type', 'graphql:resolve_property'];

/** The metadata of a handler for messages: its patterns. That of `@GrpcStreamMethod` contains the kind of stream. */
const PATTERN = 'microservices:pattern';
const GRPC_STREAM = 'rx_stream';

/** Marks the class of an interceptor as made by `LockInterceptor.for`; `token` is that of the `LockInterceptor` it uses. */
export function markRequestLock(type: Function, token: symbol): void {
  Object.defineProperty(type, REQUEST_LOCK, { value: token });
}

/**
 * Warns of each `LockInterceptor.for` that Nest does not call: it calls interceptors only for controllers, gateways and resolvers.
 * Another library may call them elsewhere, as some do for their handlers, so this is not an error. Each module warns of its
 * own locks, by the token of its interceptor.
 */
export function warnOfUnreachedLocks(modules: Modules, token: symbol, reporter: Pick<Reporter, 'warn'>): void {
  for (const place of classesOf(modules, 'providers').flatMap((type) => unreachedIn(type, token))) {
    reporter.warn(
      `${place} has LockInterceptor.for(), which Nest calls for controllers, gateways and resolvers only: unless ` +
        'another library calls it, the method runs WITHOUT its lock. Use @Locked there.',
    );
  }
}

/** Warns of the jobs of a connection that never fire, because the app has no scheduler. */
export function warnOfUnscheduledJobs(
  modules: Modules,
  connection: string | undefined,
  reporter: Pick<Reporter, 'warn'>,
): void {
  if (!registriesOf(modules).next().done) return;
  const jobs = new Set<string>();
  for (const [, method] of classesOf(modules, 'providers', 'controllers').flatMap(namedMethodsOf)) {
    for (const { options, where } of hasSchedule(method) ? lockedCallsOf(method) : [])
      if (options.oncePer === 'fire' && options.connection === connection) jobs.add(where);
  }
  if (jobs.size === 0) return;
  const names = new Intl.ListFormat('en').format(jobs);
  reporter.warn(
    `Nothing fires ${names}: the app has no scheduler. Import ScheduleModule.forRoot() of @nestjs/schedule.`,
  );
}

/**
 * Refuses a lock below `@GrpcStreamMethod`, which delivers the messages as soon as the method inside it has returned. A method
 * that returns a stream returns before it has its lock, and Nest does not keep the messages.
 */
export function refuseLostMessages(modules: Modules, connection: string | undefined): void {
  for (const [, method] of classesOf(modules, 'controllers').flatMap(namedMethodsOf)) {
    const call = lockedCallOf(method);
    if (!call || call.kind === 'promise' || call.options.connection !== connection) continue;
    if (!isGrpcStream(method) || isGrpcStream(call.inside)) continue;
    throw new LockConfigurationError(
      `${call.where}: its lock is below @GrpcStreamMethod, which drops what the client sends before the lock is granted. Write ` +
        'the decorator of the lock above @GrpcStreamMethod.',
    );
  }
}

function isGrpcStream(method: Function | undefined): boolean {
  const patterns = method ? (Reflect.getMetadata(PATTERN, method) as readonly unknown[] | undefined) : undefined;
  return (patterns ?? []).some((one) => (one as { streaming?: unknown } | null)?.streaming === GRPC_STREAM);
}

function unreachedIn(type: Function, token: symbol): string[] {
  if (isReached(type)) return [];
  if (isLocked(type, token)) return [type.name];
  const methods = namedMethodsOf(type).filter(([, method]) => isLocked(method, token) && !isReached(method));
  return methods.map(([name]) => `${type.name}.${name}`);
}

const classesOf = (modules: Modules, ...kinds: readonly ('providers' | 'controllers')[]): Function[] =>
  [...modules.values()]
    .flatMap((module) => kinds.flatMap((kind) => [...module[kind].values()].map(({ metatype }) => metatype)))
    .filter((type): type is Type => typeof type === 'function' && Boolean(type.prototype));

/** The methods of a class whose name is a string: Nest ignores others. */
const namedMethodsOf = ({ prototype }: Function): (readonly [string, Function])[] =>
  [...methodsOf(prototype as object | null)].filter((one): one is [string, Function] => typeof one[0] === 'string');

const isReached = (target: Function): boolean => REACHED.some((key) => Reflect.hasMetadata(key, target));

function isLocked(target: Function, token: symbol): boolean {
  const interceptors = (Reflect.getMetadata(INTERCEPTORS, target) ?? []) as readonly unknown[];
  return interceptors.some((one) => (one as { [REQUEST_LOCK]?: symbol } | undefined)?.[REQUEST_LOCK] === token);
}
