import 'reflect-metadata';
import { LockConfigurationError } from '../core/lock.errors.js';

export type AnyMethod = (...args: unknown[]) => unknown;

const ADVICE = 'put the decorator on a method of a class';

/**
 * Returns the decorated method, and its name for error texts.
 * @throws LockConfigurationError for anything but a method that Nest calls on an instance
 */
export function decoratedMethod(
  target: object,
  name: string | symbol,
  descriptor: PropertyDescriptor | undefined,
): { readonly where: string; readonly method: AnyMethod } {
  refuseStandardDecorator(name);
  if (name === undefined) {
    throw new LockConfigurationError(
      `${(target as Function | undefined)?.name ?? 'the decorator'}: a class cannot be locked; ${ADVICE}.`,
    );
  }
  const where = memberName(target, name);
  if (typeof target === 'function') {
    throw new LockConfigurationError(
      `${where}: a static method cannot be locked, because Nest injects nothing there; ${ADVICE}.`,
    );
  }
  if (typeof descriptor?.value !== 'function') {
    throw new LockConfigurationError(
      `${where}: expected a method to lock, got a property, an accessor or a parameter; ${ADVICE}.`,
    );
  }
  if (Object.prototype.toString.call(descriptor.value) === '[object GeneratorFunction]') {
    throw new LockConfigurationError(
      `${where}: a generator runs after its lock is released; write \`async *${String(name)}\`, whose lock is held until its ` +
        'iteration ends.',
    );
  }
  return { where, method: descriptor.value as AnyMethod };
}

/** Names a member in error texts: `OrdersService.charge`. */
const memberName = (target: object, name: string | symbol): string =>
  `${typeof target === 'function' ? target.name : target.constructor?.name}.${String(name)}`;

/** The advice for code that was compiled with the decorators of ECMAScript. */
const STANDARD_ADVICE =
  'Set "experimentalDecorators" and "emitDecoratorMetadata" to true in tsconfig.json, or in the options of the bundler.';

/** Returns the name of the decorated member if this is the context of an ECMAScript decorator. */
function standardName(context: unknown): string | undefined {
  if (typeof context !== 'object' || context === null) return undefined;
  const { kind, name } = context as { kind?: unknown; name?: unknown };
  return typeof kind === 'string' && 'name' in context ? String(name) : undefined;
}

/** ECMAScript decorators, which Nest does not use, are called with a value and a context. */
export function refuseStandardDecorator(context: unknown): void {
  if (typeof context !== 'object' || context === null) return;
  const { name } = context as { name?: unknown };
  throw new LockConfigurationError(
    `${String(name)}: the lock decorator was called as a standard decorator, which has no metadata for Nest. ${STANDARD_ADVICE}`,
  );
}

/**
 * Refuses a decorator without parentheses. It gets the class in place of its key and returns a decorator that is never
 * applied, so the method would run unlocked. `written` is the correct form, such as `@Locked('order:<0.id>')`.
 * @throws LockConfigurationError when the first two arguments are those of a decorated class or member
 */
export function refuseBareDecorator(
  written: string,
  key: unknown,
  second: unknown,
  decorator = written.slice(0, written.indexOf('(')),
): void {
  const name = bareName(key, second);
  if (name === undefined) return;
  const advice = standardName(second) === undefined ? '' : ` ${STANDARD_ADVICE}`;
  throw new LockConfigurationError(
    `${name}: ${decorator} is written without parentheses, so it has no key and locks nothing; write ${written} on a ` +
      `method.${advice}`,
  );
}

/** Returns the name of the decorated class or member if a decorator was called with it instead of a key. */
function bareName(key: unknown, second: unknown): string | undefined {
  const standard = standardName(second);
  if (standard !== undefined) return standard;
  const isMember = typeof second === 'string' || typeof second === 'symbol';
  if (isMember && (typeof key === 'object' || typeof key === 'function') && key !== null)
    return memberName(key, second);
  if (typeof key === 'function') return isClass(key) ? key.name : undefined;
  // The first proposals of ECMAScript passed only a descriptor.
  if (typeof key === 'object' && key !== null && !Array.isArray(key)) return String((key as { key?: unknown }).key);
  return undefined;
}

/** A class may be compiled to a function; then it has methods, unlike a key function. */
const isClass = (value: Function): boolean =>
  /^class\b/u.test(Function.prototype.toString.call(value)) ||
  Object.getOwnPropertyNames((value.prototype as object | undefined) ?? {}).length > 1;

/** Copies the metadata of a method to its wrapper, so that routes, schedules and guards keep working. */
export function copyMetadata(from: object, to: object): void {
  for (const key of Reflect.getMetadataKeys(from) as unknown[]) {
    Reflect.defineMetadata(key, Reflect.getMetadata(key, from), to);
  }
}
