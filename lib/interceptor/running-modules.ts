import { LockConfigurationError } from '../core/lock.errors.js';
import { type Modules } from '../schedule/scheduler.js';
import { type LockInterceptor } from './lock.interceptor.js';

/** A `RedisLockModule`: its interceptor, and all modules of its app. */
export interface LockModule {
  readonly interceptor: LockInterceptor;
  readonly modules: Modules;
}

/** The modules in this process whose app has started, of every copy of the package. */
const RUNNING = Symbol.for('nestjs-redis-lock:running-modules');

/** The modules whose app has not started yet, or failed to start. Nest does not report such a failure, so the references are weak. */
const STARTING = Symbol.for('nestjs-redis-lock:starting-modules');

const shared = globalThis as { [RUNNING]?: Set<LockModule>; [STARTING]?: Set<WeakRef<LockModule>> };

const running = (shared[RUNNING] ??= new Set());
const starting = (shared[STARTING] ??= new Set());

/** The module was built: from now on, it counts for the objects that its own app provides. */
export function addStartingModule(module: LockModule): void {
  for (const ref of starting) if (!ref.deref()) starting.delete(ref);
  starting.add(new WeakRef(module));
}

/** The app of the module has started: from now on, it counts for all objects that Nest did not build. */
export function addRunningModule(module: LockModule): void {
  removeModule(module);
  running.add(module);
}

export function removeModule(module: LockModule): void {
  running.delete(module);
  for (const ref of starting) if (ref.deref() === module) starting.delete(ref);
}

/**
 * Returns the interceptor for an object that Nest did not build (`new Service()`, `useFactory`, `useValue`): that of the only
 * running module of the connection. Without a module, or with several, the call must not run: it would be unlocked, or locked
 * elsewhere. An object of an app that is starting (`onModuleInit`) is locked by the module of that app.
 * @throws LockConfigurationError
 */
export function interceptorFor(self: unknown, where: string, connection: string | undefined): LockInterceptor {
  const isOfConnection = ({ interceptor }: LockModule): boolean => interceptor.connection === connection;
  const candidates = [...running].filter(isOfConnection);
  const own = startingWith(self).find(isOfConnection);
  if (own && !candidates.some((module) => provides(module, self))) return own.interceptor;
  // Several modules may share a fake in a test.
  const [interceptor, another] = new Set(candidates.map((module) => module.interceptor));
  if (interceptor && !another) return interceptor;
  const name = connection === undefined ? '' : ` of the connection "${connection}"`;
  const found =
    candidates.length === 0 ? `no RedisLockModule${name} is running` : `several RedisLockModules${name} are running`;
  throw new LockConfigurationError(
    `${where} is locked, but ${found}, and the call was made on an object that was not built by Nest (or not yet, in a ` +
      'constructor, or on no object at all, or before the app has started). Let Nest build the class (list it in `providers`) ' +
      'and call the method on it after that, or import RedisLockModule.forRoot() exactly once.',
  );
}

const startingWith = (self: unknown): LockModule[] =>
  [...starting]
    .toReversed()
    .flatMap((ref) => ref.deref() ?? [])
    .filter((module) => provides(module, self));

const provides = ({ modules }: LockModule, self: unknown): boolean =>
  [...modules.values()].some(({ providers }) => [...providers.values()].some(({ instance }) => instance === self));
