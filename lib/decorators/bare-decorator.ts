import { LockConfigurationError } from '../core/lock.errors.js';
import { memberName, STANDARD_ADVICE, standardName } from './decorated-method.js';

/**
 * A decorator that is written without parentheses gets the class where its key should be, and gives a decorator that nobody
 * applies: the method would run unlocked. `written` is how to write it, such as `@Locked('order:<0.id>')`.
 * @throws LockConfigurationError when the first two arguments are those of a decorated class or member
 */
export function refuseBareDecorator(written: string, key: unknown, second: unknown): void {
  const name = bareName(key, second);
  if (name === undefined) return;
  const decorator = written.slice(0, written.indexOf('('));
  const advice = standardName(second) === undefined ? '' : ` ${STANDARD_ADVICE}`;
  throw new LockConfigurationError(
    `${name}: ${decorator} stands without parentheses, so that it has no key and locks nothing; write ${written} on a ` +
      `method.${advice}`,
  );
}

/** The name of what is decorated, if that is what a decorator was called with. */
function bareName(key: unknown, second: unknown): string | undefined {
  const standard = standardName(second);
  if (standard !== undefined) return standard;
  const isMember = typeof second === 'string' || typeof second === 'symbol';
  if (isMember && (typeof key === 'object' || typeof key === 'function') && key !== null)
    return memberName(key, second);
  if (typeof key === 'function') return isClass(key) ? key.name : undefined;
  // The first proposals gave a descriptor alone.
  if (typeof key === 'object' && key !== null && !Array.isArray(key)) return String((key as { key?: unknown }).key);
  return undefined;
}

/** A key function may be anything that can be called; a class that was compiled to a function has methods. */
const isClass = (value: Function): boolean =>
  /^class\b/u.test(Function.prototype.toString.call(value)) ||
  Object.getOwnPropertyNames((value.prototype as object | undefined) ?? {}).length > 1;
