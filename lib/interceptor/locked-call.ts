import 'reflect-metadata';
import { isGeneratedName } from '../core/key.js';
import { LockConfigurationError } from '../core/lock.errors.js';
import { type LockLabel } from '../core/lock.events.js';
import { LOCK_OPTIONS, type LockOptions } from '../core/lock.options.js';
import { type KeyOfCall, type KeySpec, compileKeySpec, describeKeySpec } from '../keys/key-spec.js';
import { IN_A_TEST } from '../redis-lock.tokens.js';
import { type LockedBy, type LockedOptions, PER_CALL, checkLockedOptions } from './locked.options.js';
import { type ResultKind } from './streams/stream-kind.js';

/** A locked method, compiled when its class is defined. Its options and key templates have been checked. */
export interface LockedCall {
  /** Class and method, for error texts and events. */
  readonly where: string;
  readonly name: string | symbol;
  /** The locked method, with all metadata of the decorated one; for a request, its handler. */
  readonly method: Function;
  /** For a decorated method: the method inside the lock, with only the metadata of the decorators below the lock. */
  readonly inside?: Function;
  /** The kind of result that a call returns before its lock is acquired. */
  readonly kind: ResultKind;
  readonly template: string;
  readonly keyOf: KeyOfCall;
  readonly options: LockedOptions & Pick<LockOptions, 'mode'>;
  /** The options of the acquisition, without those that are functions of the arguments. */
  readonly lock: LockOptions;
  /** The options of the acquisition that are functions of the arguments. */
  readonly perCall: readonly (typeof PER_CALL)[number][];
  /** Whether `lock` has the options of all calls. */
  readonly isSame: boolean;
  /** The label of its acquisitions; one object, so that its holds share their terms. */
  readonly label: LockLabel;
}

/**
 * The name of a job, the same in each build and process: the option `job`, or `Class.method` with the class of the instance, because
 * each subclass of a base with a schedule is a separate job. A subclass with a generated name is the same job as its base.
 */
export function jobOf({ where, name, options }: Pick<LockedCall, 'where' | 'name' | 'options'>, self: unknown): string {
  if (options.job !== undefined) return options.job;
  let one = prototypeOf(self);
  for (; one && one !== Object.prototype; one = prototypeOf(one)) {
    const type = one.constructor as Function | undefined;
    if (type && !isGeneratedName(type.name)) return type.name + where.slice(where.indexOf('.'));
    // `mixin()` renames a class after its decorators have read the original name.
    if (Object.hasOwn(one, name)) break;
  }
  return where;
}

const prototypeOf = (value: unknown): object | null =>
  typeof value === 'object' && value !== null ? (Object.getPrototypeOf(value) as object | null) : null;

const LOCKED_CALL = Symbol.for('nestjs-redis-lock:locked-call');

export const markLocked = (call: LockedCall): void => Reflect.defineMetadata(LOCKED_CALL, call, call.method);

export const lockedCallOf = (method: Function): LockedCall | undefined =>
  Reflect.getMetadata(LOCKED_CALL, method) as LockedCall | undefined;

/** The calls of a method that several decorators lock, the outermost first. */
export function* lockedCallsOf(method: Function | undefined): Generator<LockedCall> {
  for (let call = method && lockedCallOf(method); call; call = call.inside && lockedCallOf(call.inside)) yield call;
}

/** A property of the interceptors of every copy of the package. An auto-mock has another value under this name, as under any name. */
const IS_REAL = Symbol.for('nestjs-redis-lock:real-interceptor');

/** Marks whether an interceptor runs calls under locks: not if a test has replaced its service by a mock. */
export function markInterceptor(interceptor: object, isReal: boolean): void {
  Object.defineProperty(interceptor, IS_REAL, { value: isReal });
}

/** Returns the interceptor if it runs calls. A mock instead of it would return undefined, and the method would never run. */
export function checkedInterceptor<T extends object>(interceptor: T, where: string): T {
  if ((interceptor as { [IS_REAL]?: unknown })[IS_REAL] === true) return interceptor;
  throw new LockConfigurationError(
    `${where} needs its lock, but a mock replaces the LockInterceptor or the RedisLockService of the app. Do not mock them: ` +
      `import ${IN_A_TEST}, whose locks are real and need no Redis, or FakeLockModule.forRoot(), whose locks a test controls.`,
  );
}

/**
 * Checks and compiles the arguments of a decorator.
 * @throws LockKeyError, LockConfigurationError; their texts begin with `where`
 */
export function compileCall(key: KeySpec, options: LockedOptions, by: LockedBy): Omit<LockedCall, 'name' | 'method'> {
  const { where, kind } = by;
  const own = checkLockedOptions(options, by);
  if (own.perInstance !== undefined && typeof key !== 'function') checkIsOneKey(key, where, 'perInstance');
  const keyOf = own.oncePer === undefined ? compileKeySpec(key, where) : compileJobKey(key, where);
  const template = describeKeySpec(key);
  const perCall = PER_CALL.filter((name) => typeof own[name] === 'function');
  const isSame = perCall.length === 0 && !own.rerunOnLoss;
  return {
    where,
    kind,
    template,
    keyOf,
    options: own,
    lock: lockOptionsOf(own, perCall),
    perCall,
    isSame,
    label: { where, template },
  };
}

/** The options of the acquisition; a call that does not wait tries once. */
function lockOptionsOf(options: LockedCall['options'], perCall: readonly string[]): LockOptions {
  const { oncePer, ifBusy = oncePer === undefined ? 'wait' : 'skip' } = options;
  const names = Object.keys(LOCK_OPTIONS).filter((name) => name in options && !perCall.includes(name));
  const own: LockOptions = Object.fromEntries(names.map((name) => [name, options[name as keyof typeof options]]));
  return ifBusy === 'wait' || ifBusy === 'share' ? own : { ...own, waitMs: 0 };
}

/** A fire is claimed on one key. */
function compileJobKey(key: KeySpec, where: string): KeyOfCall {
  if (typeof key !== 'function') checkIsOneKey(key, where, 'oncePer');
  const keyOf = compileKeySpec(key, where);
  if (typeof key !== 'function') return keyOf;
  return (self, args) => {
    const keys = keyOf(self, args);
    checkIsOneKey(keys, where, 'oncePer');
    return keys;
  };
}

const INSTEAD = { oncePer: 'give the job one name', perInstance: 'leave it out, or lock the keys one by one' };

function checkIsOneKey(key: string | readonly string[], where: string, option: keyof typeof INSTEAD): void {
  if (!Array.isArray(key) || key.length < 2) return;
  throw new LockConfigurationError(`${where}: \`${option}\` needs one key, got ${key.length}; ${INSTEAD[option]}.`);
}
