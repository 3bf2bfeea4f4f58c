import { LockKeyError } from '../core/lock.errors.js';
import { parseKeyTemplate } from './key-template.js';

/** Returns the key, or the keys, for the arguments of a call; called with `this` = the instance. Its error passes unchanged. */
export type KeyFunction = (...args: any[]) => string | readonly string[];

/** The key of a decorator: a key template, several of them, or a key function. */
export type KeySpec = string | readonly string[] | KeyFunction;

/** Returns the key, or the keys, of one call of a method on `self`. */
export type KeyOfCall = (self: unknown, args: readonly unknown[]) => string | readonly string[];

/** Compiles the key of the method `where` (such as `OrdersService.charge`) once; every `LockKeyError` names it. */
export function compileKeySpec(spec: KeySpec, where: string): KeyOfCall {
  if (typeof spec === 'function') {
    return (self, args) => checkedKeys(spec.apply(self, [...args]), where);
  }
  if (isList(spec)) {
    if (spec.length === 0) {
      throw new LockKeyError(`${where}: the list of keys is empty, expected at least one; add a key template to it.`);
    }
    const templates = Array.from(spec, (template) => parseKeyTemplate(template, where));
    return (_self, args) => templates.map((template) => template.fill(args));
  }
  const template = parseKeyTemplate(spec, where);
  return (_self, args) => template.fill(args);
}

/** Names a key without the values of a call, so that it can label metrics: `'order:<0.id>'`. */
export function describeKeySpec(spec: KeySpec): string {
  if (typeof spec === 'function') return spec.name || 'key function';
  return isList(spec) ? spec.join(', ') : spec;
}

function checkedKeys(result: string | readonly string[], where: string): string | readonly string[] {
  if (isKey(result)) return result;
  if (isList(result)) {
    // A copy, because the caller's array may change while the call waits for its lock; it also turns holes into undefined.
    const keys = [...result];
    if (keys.length > 0 && keys.every(isKey)) return keys;
  }
  throw new LockKeyError(
    `${where}: the key function returned ${describeResult(result)}, expected a non-empty string or a non-empty list ` +
      'of them; return the key itself (a key function cannot be async).',
  );
}

const isKey = (value: unknown): value is string => typeof value === 'string' && value !== '';

const isList = (value: string | readonly string[]): value is readonly string[] => Array.isArray(value);

/** Describes a result by its kind only: keys may have private values, and error texts end up in logs. */
function describeResult(result: unknown): string {
  if (!Array.isArray(result)) return describeKind(result);
  if (result.length === 0) return 'an empty list';
  const items: unknown[] = [...result];
  const index = items.findIndex((item) => !isKey(item));
  return `a list whose item ${index} is ${describeKind(items[index])}`;
}

function describeKind(value: unknown): string {
  if (value === '') return 'an empty string';
  if (value === null || value === undefined) return String(value);
  if (value instanceof Promise) return 'a promise';
  return Array.isArray(value) ? 'a list' : `a value of type ${typeof value}`;
}
