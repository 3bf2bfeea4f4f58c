import { isWellFormed } from '../core/key.js';

/** What may stand in a key: something with one stable string form. */
export type KeyPart = string | number | bigint | boolean;

/** What a value has to be that fills a key, for people. */
export const EXPECTED_PART = 'expected a non-empty string, a finite number, a bigint or a boolean';

/** Whether a value may fill a key: an empty text would, but names nothing. */
export function isKeyPart(value: unknown): value is KeyPart {
  if (typeof value === 'string') return value !== '' && isWellFormed(value);
  return Number.isFinite(value) || typeof value === 'bigint' || typeof value === 'boolean';
}

/** What was found, by its kind only: values may be private, and an error text ends in logs. */
export function describeValue(value: unknown): string {
  if (typeof value === 'string') return value === '' ? 'an empty string' : 'a string with a lone surrogate';
  if (typeof value === 'symbol' || typeof value === 'function') return `a ${typeof value}`;
  if (typeof value !== 'object' || value === null) return String(value);
  // From the prototype, because an own `constructor` may come from a request body.
  const type: unknown = Object.getPrototypeOf(value)?.constructor?.name;
  return typeof type === 'string' && type !== '' ? `an object (${type})` : 'an object';
}
