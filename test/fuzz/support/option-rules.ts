import { type LockOptions } from '../../../lib/index.js';

/** Whether a value is a real signal. Something that only looks like one may miss a method. */
function isAbortSignal(value: unknown): value is AbortSignal {
  try {
    const methods = ['addEventListener', 'removeEventListener', 'throwIfAborted'] as const;
    return methods.every((name) => typeof (value as AbortSignal)[name] === 'function');
  } catch {
    return false;
  }
}

/** Which values each option takes: written down once more, without the library. */
const wholeFrom =
  (min: number, max: number, orInfinity = false) =>
  (value: unknown): boolean =>
    typeof value === 'number' &&
    ((orInfinity && value === Number.POSITIVE_INFINITY) ||
      (Number.isSafeInteger(value) && value >= min && value <= max));

const MAX = Number.MAX_SAFE_INTEGER;
const DAYS_30 = 30 * 24 * 60 * 60 * 1_000;

const isBoolean = (value: unknown): boolean => value === true || value === false;

const isOwner = (value: unknown): boolean =>
  typeof value === 'string' && value.length >= 1 && value.length <= 128 && Buffer.from(value).toString() === value;

const isNote = (value: unknown): boolean =>
  typeof value === 'string' && Buffer.byteLength(value) <= 256 && Buffer.from(value).toString() === value;

export const isValid: Record<keyof LockOptions, (value: unknown) => boolean> = {
  mode: (value) => value === 'read' || value === 'write',
  leaseMs: wholeFrom(50, DAYS_30),
  waitMs: wholeFrom(0, MAX, true),
  maxWaiters: wholeFrom(1, 1_000),
  maxHoldMs: wholeFrom(1, MAX, true),
  holdAtLeastMs: wholeFrom(0, DAYS_30),
  renew: isBoolean,
  permits: wholeFrom(1, 100_000),
  take: wholeFrom(1, 100_000),
  perInstance: wholeFrom(1, 100_000),
  fair: isBoolean,
  owner: isOwner,
  note: isNote,
  signal: isAbortSignal,
  reentrant: isBoolean,
  awaitRelease: isBoolean,
};

/** The options that are wrong, of those that are given. */
export function wrongOptions(options: ReadonlyMap<string, unknown>): string[] {
  const given = [...options].filter(([, value]) => value !== undefined);
  const wrong = given.filter(([name, value]) => !isValid[name as keyof LockOptions](value)).map(([name]) => name);
  const [permits, take] = [options.get('permits'), options.get('take')];
  if (permits !== undefined && options.get('mode') !== 'read') wrong.push('permits');
  const isTooMuch = (most: unknown): boolean => typeof take === 'number' && typeof most === 'number' && take > most;
  if (
    take !== undefined &&
    (options.get('mode') !== 'read' || isTooMuch(permits) || isTooMuch(options.get('perInstance')))
  ) {
    wrong.push('take');
  }
  if (permits === undefined && options.get('perInstance') !== undefined) wrong.push('perInstance');
  return wrong;
}

/** Whether the operands of an acquire are what a real server can work with. */
export function wrongOperands(operands: Readonly<Record<string, string>>): string[] {
  const whole = ['leaseMs', 'waiterLeaseMs', 'maxWaiters', 'permits', 'take', 'sentMicros', 'untilMicros', 'keepMs'];
  const wrong: string[] = whole.filter((name) => !/^\d+$/.test(operands[name]!));
  if (!isValid.leaseMs(Number(operands['leaseMs']))) wrong.push('leaseMs');
  if (!['r', 'w'].includes(operands['mode']!)) wrong.push('mode');
  if (!['0', '1'].includes(operands['fair']!)) wrong.push('fair');
  return wrong;
}
