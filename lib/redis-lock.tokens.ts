import { Inject } from '@nestjs/common';

/** Provider token: the Lua scripts of the module, as `createLockScripts` returns them; override it to replace one. */
export const LOCK_SCRIPTS = Symbol.for('nestjs-redis-lock:scripts');

/** Provider token: the `LockStore` of the module; internal. */
export const LOCK_STORE = Symbol.for('nestjs-redis-lock:store');

/** Provider token: the `Clock` of the module; internal. */
export const LOCK_CLOCK = Symbol.for('nestjs-redis-lock:clock');

/** Provider token: the `Locker` that acquires and keeps the locks of the module; internal. */
export const LOCKER = Symbol.for('nestjs-redis-lock:locker');

/** Provider tokens: the service and the interceptor of the module itself, whatever its name; internal. */
export const OWN_SERVICE = Symbol.for('nestjs-redis-lock:own-service');
export const OWN_INTERCEPTOR = Symbol.for('nestjs-redis-lock:own-interceptor');

/** Provider token: the checked options of the module; internal. */
export const RESOLVED_OPTIONS = Symbol.for('nestjs-redis-lock:resolved-options');

/** The module to import in a test, for error texts about a missing module. */
export const IN_A_TEST = 'in a test RedisLockTestingModule.forRoot() of nestjs-redis-lock/testing';

/**
 * Returns the provider token of the lock service of a named connection, or without a name of the default one. Nest prints
 * the text of the token when the module is missing.
 */
export const getLockServiceToken = (name?: string): symbol =>
  tokenOf('RedisLockService', name, 'import RedisLockModule.forRoot() to use it');

/** Returns the provider token of the interceptor that the decorators of a connection call. */
export const getLockInterceptorToken = (name?: string): symbol =>
  tokenOf('LockInterceptor', name, 'import RedisLockModule.forRoot() to use @Locked');

const tokenOf = (type: string, name: string | undefined, advice: string): symbol =>
  Symbol.for(`${type}${name === undefined ? '' : ` "${name}"`} (${advice}), ${IN_A_TEST}`);

/** Injects the lock service of a named connection; without a name, that of the default one. */
export const InjectLockService = (name?: string): ParameterDecorator & PropertyDecorator =>
  Inject(getLockServiceToken(name));
