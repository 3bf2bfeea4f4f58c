import { type ModulesContainer } from '@nestjs/core';
import { LockConfigurationError } from '../core/lock.errors.js';
import { type LockInterceptor } from './lock.interceptor.js';

/** A `RedisLockModule`, by its interceptor and the modules of its app. */
export interface LockModule {
  readonly interceptor: LockInterceptor;
  readonly modules: Pick<ModulesContainer, 'values'>;
}

/** Those whose app has started, in this process, of every copy of the package. */
const LIVING = Symbol.for('nestjs-redis-lock:living-modules');

/** Those whose app has not started yet, or has failed to, of which Nest tells nobody: what is left of it is not kept here. */
const STARTING = Symbol.for('nestjs-redis-lock:starting-modules');

const shared = globalThis as { [LIVING]?: Set<LockModule>; [STARTING]?: Set<WeakRef<LockModule>> };

const living = (shared[LIVING] ??= new Set());
const starting = (shared[STARTING] ??= new Set());

/** The module was built; it counts for what its own app provides. */
export function addStartingModule(module: LockModule): void {
  for (const one of starting) if (!one.deref()) starting.delete(one);
  starting.add(new WeakRef(module));
}

/** The app of the module has started: it counts for all objects that Nest did not build. */
export function addModule(module: LockModule): void {
  removeModule(module);
  living.add(module);
}

export function removeModule(module: LockModule): void {
  living.delete(module);
  for (const one of starting) if (one.deref() === module) starting.delete(one);
}

/**
 * The interceptor for an object that Nest did not build (`new Service()`, `useFactory`, `useValue`): that of the only
 * living module of the connection. With none, or several, the call must not run: it would be unlocked, or locked elsewhere.
 * What an app provides that starts (`onModuleInit`) is locked by its own module.
 */
export function onlyLivingModule(self: unknown, where: string, connection: string | undefined): LockInterceptor {
  const isFitting = ({ interceptor }: LockModule): boolean => interceptor.connection === connection;
  const fitting = [...living].filter(isFitting);
  const own = startingWith(self).find(isFitting);
  if (own && !fitting.some((module) => provides(module, self))) return own.interceptor;
  // Several modules may share a fake in a test.
  const [interceptor, another] = new Set(fitting.map((module) => module.interceptor));
  if (interceptor && !another) return interceptor;
  const name = connection === undefined ? '' : ` of the connection "${connection}"`;
  const found =
    fitting.length === 0 ? `no RedisLockModule${name} is running` : `several RedisLockModules${name} are running`;
  throw new LockConfigurationError(
    `${where} is locked, but ${found}, and the call was made on an object that was not built by Nest (or not yet, in a ` +
      'constructor, or on no object at all, or before the app has started). Let Nest build the class (list it in `providers`) ' +
      'and call the method on it after that, or import RedisLockModule.forRoot() exactly once.',
  );
}

/** The last one first. */
const startingWith = (self: unknown): LockModule[] =>
  [...starting]
    .toReversed()
    .flatMap((one) => one.deref() ?? [])
    .filter((module) => provides(module, self));

const provides = ({ modules }: LockModule, self: unknown): boolean =>
  [...modules.values()].some(({ providers }) => [...providers.values()].some(({ instance }) => instance === self));
