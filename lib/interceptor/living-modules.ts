import { LockConfigurationError } from '../core/lock.errors.js';
import { type LockInterceptor } from './lock.interceptor.js';

/** The interceptors of all modules that live in this process, of every copy of the package. */
const LIVING = Symbol.for('nestjs-redis-lock:living-modules');

const shared = globalThis as { [LIVING]?: Set<LockInterceptor> };

const living = (shared[LIVING] ??= new Set());

export const addModule = (interceptor: LockInterceptor): void => void living.add(interceptor);

export const removeModule = (interceptor: LockInterceptor): void => void living.delete(interceptor);

/**
 * The interceptor for an object that Nest did not build (`new Service()`, `useFactory`, `useValue`): that of the only
 * living module of the connection. With none, or several, the call must not run: it would be unlocked, or locked elsewhere.
 */
export function onlyLivingModule(where: string, connection: string | undefined): LockInterceptor {
  const fitting = [...living].filter((interceptor) => interceptor.connection === connection);
  if (fitting.length === 1) return fitting[0]!;
  const name = connection === undefined ? '' : ` of the connection "${connection}"`;
  const found =
    fitting.length === 0 ? `no RedisLockModule${name} is running` : `several RedisLockModules${name} are running`;
  throw new LockConfigurationError(
    `${where} is locked, but ${found}, and the call was made on an object that was not built by Nest (or not yet, in a ` +
      'constructor, or on no object at all). Let Nest build the class (list it in `providers`) and call the method on it ' +
      'after that, or import RedisLockModule.forRoot() exactly once.',
  );
}
