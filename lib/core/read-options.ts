import { types } from 'node:util';
import { LockConfigurationError } from './lock.errors.js';
import { printable } from './printable.js';
import { messageOf } from './reporter.js';

const MAX_SHOWN = 100;

/** Shortens a given value for error texts: it may be very long, or come from a request. */
export const shortened = (text: string): string =>
  printable(text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : text);

/** Returns the object or the list that a text of JSON is; undefined for any other text. */
export function objectIn(json: string | undefined): object | undefined {
  try {
    const value: unknown = JSON.parse(json ?? '');
    return typeof value === 'object' && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Whether a text is a URL, or a part of one. */
export const mayBeSecret = (text: string): boolean => /:\/\/|@/.test(text);

/** A given option for error texts. */
export const shown = (text: string): string =>
  mayBeSecret(text) ? 'a text with `://` or `@`, which may contain a password' : `\`${shortened(text)}\``;

/**
 * Checks that options are an object; `of` names what they belong to, for the error text.
 * @throws LockConfigurationError
 */
export function checkIsObject(options: unknown, of?: string): asserts options is object {
  if (typeof options === 'object' && options !== null) return;
  // The value is left out: it may be a URL with a password, or not convertible to a text.
  const got = options === undefined || options === null ? String(options) : `a ${typeof options}`;
  throw new LockConfigurationError(`Expected the options${whose(of)} to be an object, got ${got}.`);
}

/**
 * Copies options, also those of a class with getters. Each is read once, so that the checked value is the one in use.
 * @throws LockConfigurationError for an unknown name, which may be misspelt, and for an option that cannot be read
 */
export function readOptions(options: unknown, known: readonly string[], of?: string, kind = 'option'): object {
  checkIsObject(options, of);
  const given = options as Readonly<Record<string, unknown>>;
  const values: Record<string, unknown> = {};
  // The option that is being read. No closure per option, because each call with options comes here.
  let option: string | undefined;
  try {
    const own = Object.keys(given);
    const unknown = own.find((name) => !known.includes(name));
    if (unknown !== undefined) {
      const text = `Unknown ${kind} \`${shortened(unknown)}\`${whose(of)}; expected one of ${known.join(', ')}.`;
      throw new LockConfigurationError(text);
    }
    for (option of isLiteral(given, own) ? own : known) {
      const value = given[option];
      if (value !== undefined) values[option] = value;
    }
  } catch (cause) {
    throw unreadableError(
      option === undefined ? `The options${whose(of)}` : `The ${kind} \`${option}\`${whose(of)}`,
      cause,
    );
  }
  return values;
}

/** Whether an object has these properties only. Others may be hidden, inherited from a class, or made by a proxy. */
const isLiteral = (given: object, own: readonly string[]): boolean =>
  Object.getPrototypeOf(given) === Object.prototype &&
  Object.getOwnPropertyNames(given).length === own.length &&
  !types.isProxy(given);

/**
 * Reads a value of the caller, whose getters may throw; `what` names it.
 * @throws LockConfigurationError
 */
export function reading<T>(what: string, read: () => T): T {
  try {
    return read();
  } catch (cause) {
    throw unreadableError(what, cause);
  }
}

const unreadableError = (what: string, cause: unknown): LockConfigurationError => {
  if (cause instanceof LockConfigurationError) return cause;
  return new LockConfigurationError(`${what} cannot be read: ${messageOf(cause)}. Pass a plain object.`, { cause });
};

const whose = (of: string | undefined): string => (of === undefined ? '' : ` of ${of}`);

const PLAIN = ['string', 'number', 'boolean', 'bigint', 'undefined'];

/** @throws LockConfigurationError that names an option, its value and what was expected */
export function refuse(where: string, value: unknown, expected: string): never {
  const isPlain = PLAIN.includes(typeof value) || value === null;
  const text = value === '' ? '""' : isPlain && shown(String(value));
  const got = isPlain ? `${text} (${typeof value})` : `a value of type ${typeof value}`;
  throw new LockConfigurationError(`Expected \`${where}\` to be ${expected}, got ${got}.`);
}
