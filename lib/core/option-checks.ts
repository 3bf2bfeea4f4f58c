import { isWellFormed, quoted } from './key.js';
import { LockConfigurationError } from './lock.errors.js';
import { durationText } from './printable.js';
import { mayBeSecret, readOptions, refuse, shown } from './read-options.js';

/** The values that an option may have: `expected` describes them, for errors and documents. */
export interface Kind {
  readonly expected: string;
  /** @throws LockConfigurationError that names the option (`where`), the value and what was expected */
  check(value: unknown, where: string): void;
}

/** One option: its row in a table. */
export interface Option {
  readonly kind: Kind;
  /** The default value; undefined if there is none. */
  readonly default?: unknown;
}

/** A row for each option. */
export type OptionTable<T> = { readonly [name in keyof T]-?: Option };

export const option = <const D>(kind: Kind, value?: D): Option & { readonly default: D | undefined } => ({
  kind,
  default: value,
});

export const kindOf = (expected: string, accepts: (value: any) => boolean): Kind => ({
  expected,
  check: (value, where) => {
    if (!accepts(value)) refuse(where, value, expected);
  },
});

/**
 * Reads options and checks each by its row; returns a copy.
 * @throws LockConfigurationError that names the option, the value and what was expected
 */
export function checkOptions<T extends object>(options: T, table: OptionTable<T>, of?: string, noun?: string): T {
  const own = readOptions(options, Object.keys(table), of, noun) as T;
  for (const name of Object.keys(own) as (keyof T & string)[]) table[name].kind.check(own[name], name);
  return own;
}

const listed = (values: readonly string[]): string => values.join(', ').replace(/, ([^,]*)$/, ' or $1');

export const oneOf = (...values: readonly (string | boolean)[]): Kind =>
  kindOf(listed(values.map((value) => (typeof value === 'string' ? `'${value}'` : String(value)))), (value) =>
    values.includes(value as string),
  );

interface Range {
  readonly min: number;
  readonly max: number;
}

export const whole = ({ min, max }: Range): Kind =>
  kindOf(
    `a whole number from ${min} to ${max}`,
    (value) => Number.isSafeInteger(value) && value >= min && value <= max,
  );

/** Milliseconds; `orElse` names other allowed values. */
export function duration({ min, max }: Range, orElse = ''): Kind {
  const to = max === Infinity ? 'up, or Infinity' : `to ${max}${max < 3_600_000 ? '' : ` (${durationText(max)})`}`;
  return kindOf(`${orElse}a whole number of milliseconds from ${min} ${to}`, (value) => {
    const isWhole = Number.isSafeInteger(value) || (value === Infinity && max === Infinity);
    return isWhole && value >= min && value <= max;
  });
}

export const MAX_PERMITS = 100_000;
const MAX_OWNER_LENGTH = 128;
const MAX_NOTE_BYTES = 256;
const SIGNAL_METHODS = ['addEventListener', 'removeEventListener', 'throwIfAborted'] as const;

export const BOOLEAN = oneOf(true, false);
export const FUNCTION = kindOf('a function', (value) => typeof value === 'function');
/** A number of permits: those of the semaphore, or those that a call takes. */
export const PERMITS = whole({ min: 1, max: MAX_PERMITS });
export const OWNER = kindOf(
  `a well-formed string of 1 to ${MAX_OWNER_LENGTH} characters`,
  (value) => isText(value) && value.length > 0 && value.length <= MAX_OWNER_LENGTH,
);
export const NOTE = kindOf(
  `a well-formed string of at most ${MAX_NOTE_BYTES} bytes`,
  (value) => isText(value) && Buffer.byteLength(value) <= MAX_NOTE_BYTES,
);
export const SIGNAL = kindOf('an AbortSignal', (value) => {
  try {
    return SIGNAL_METHODS.every((name) => typeof value?.[name] === 'function');
  } catch {
    return false;
  }
});
/** The name of a connection; the default one has none. */
export const CONNECTION_NAME = kindOf(
  'a non-empty string or left out',
  (value) => value === undefined || (typeof value === 'string' && value !== ''),
);
/** What a decorated call does when Redis is unreachable. */
export const ON_UNAVAILABLE = oneOf('fail', 'skip', 'run-unlocked');
export type OnUnavailable = 'fail' | 'skip' | 'run-unlocked';

const PREFIX = 'a string of 1 to 128 characters without braces';
/** The prefix of all keys in Redis. */
export const KEY_PREFIX: Kind = {
  expected: PREFIX,
  check: (value, where) => {
    if (typeof value !== 'string') refuse(where, value, PREFIX);
    if (/^[^{}\p{Surrogate}]{1,128}$/su.test(value) && value.length <= 128) return;
    const advice = /[{}]/.test(value) ? ' To put keys into one slot of a cluster, use the option `hashTag`.' : '';
    const got = mayBeSecret(value) ? shown(value) : quoted(value);
    throw new LockConfigurationError(`Expected \`${where}\` to be ${PREFIX}, got ${got}.${advice}`);
  },
};

const isText = (value: unknown): value is string => typeof value === 'string' && isWellFormed(value);

/**
 * Checks that a call takes no more permits than exist: it would wait forever. The number of a function is not known yet.
 * @throws LockConfigurationError
 */
export function checkFits({
  take,
  permits,
  perInstance,
}: Partial<Record<'permits' | 'perInstance' | 'take', unknown>>) {
  if (typeof take !== 'number') return;
  for (const [name, limit] of Object.entries({ permits, perInstance })) {
    if (typeof limit === 'number' && take > limit) refuse('take', take, `at most \`${name}\`, which is ${limit}`);
  }
}
