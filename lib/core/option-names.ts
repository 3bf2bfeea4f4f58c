import { LockConfigurationError } from './lock.errors.js';

/**
 * Checks that options are an object; `of` says whose, for the text.
 * @throws LockConfigurationError
 */
export function checkIsObject(options: unknown, of?: string): asserts options is object {
  if (typeof options === 'object' && options !== null) return;
  // A text may be a URL with its password.
  const got = typeof options === 'string' ? 'a string' : String(options);
  throw new LockConfigurationError(`Expected the options${whose(of)} to be an object, got ${got}.`);
}

/**
 * Checks that options are an object without a name that nobody knows, which may be a misspelt one.
 * @throws LockConfigurationError
 */
export function checkOptionNames(options: unknown, known: readonly string[], of?: string): void {
  checkIsObject(options, of);
  const unknown = Object.keys(options).find((name) => !known.includes(name));
  if (unknown === undefined) return;
  throw new LockConfigurationError(`Unknown option \`${unknown}\`${whose(of)}; expected one of ${known.join(', ')}.`);
}

const whose = (of: string | undefined): string => (of === undefined ? '' : ` of ${of}`);
