import { LockConfigurationError } from '../core/lock.errors.js';

export type AnyMethod = (...args: unknown[]) => unknown;

const ADVICE = 'put the decorator on a method of a class';

/**
 * Finds what is decorated, and says how to name it to people.
 * @throws LockConfigurationError for whatever is no method that Nest calls on an instance
 */
export function decoratedMethod(
  target: object,
  name: string | symbol,
  descriptor: PropertyDescriptor | undefined,
): { readonly where: string; readonly method: AnyMethod } {
  refuseStandardDecorator(name);
  if (name === undefined) {
    throw new LockConfigurationError(`${(target as Function).name}: a class cannot be locked; ${ADVICE}.`);
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
  return { where, method: descriptor.value as AnyMethod };
}

/** Names a member to people: `OrdersService.charge`. */
export const memberName = (target: object, name: string | symbol): string =>
  `${typeof target === 'function' ? target.name : target.constructor.name}.${String(name)}`;

/** What to do where decorators are compiled to those of ECMAScript. */
export const STANDARD_ADVICE =
  'Set "experimentalDecorators" and "emitDecoratorMetadata" to true in tsconfig.json, or in the options of the bundler.';

/** The name of what is decorated, if this is the context that a decorator of ECMAScript gets. */
export function standardName(context: unknown): string | undefined {
  if (typeof context !== 'object' || context === null) return undefined;
  const { kind, name } = context as { kind?: unknown; name?: unknown };
  return typeof kind === 'string' && 'name' in context ? String(name) : undefined;
}

/** The decorators of ECMAScript, which Nest does not use, are called with a value and a context. */
function refuseStandardDecorator(context: unknown): void {
  if (typeof context !== 'object' || context === null) return;
  const { name } = context as { name?: unknown };
  throw new LockConfigurationError(
    `${String(name)}: the lock decorator was called as a standard decorator, which has no metadata for Nest. ${STANDARD_ADVICE}`,
  );
}
