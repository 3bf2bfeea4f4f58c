import { type LockMode } from '../../../lib/core/lock.errors.js';
import { type ReleaseRequest } from '../../../lib/core/store/lock-store.js';
import { type LuaScript } from '../../../lib/redis/scripts/lua.js';
import { type ReceivedRequest } from '../../../lib/testing/memory/memory-queue.js';

/** The operands of a script by name, as `script.operands()` takes them; on the wire, numbers are text. */
export type Values = Readonly<Record<string, string | number | readonly string[]>>;

/** The operands of `EVALSHA` after the hash, by name again. */
export function valuesOf({ keys, args }: LuaScript<any, any, any>, operands: readonly unknown[]): Values {
  const count = Number(operands[0]);
  const named = operands.slice(1, 1 + count).map(String);
  const values: Record<string, string | number | readonly string[]> = {};
  for (const [i, name] of args.entries()) values[name] = operands[1 + count + i] as string | number;
  values[keys[0]!] = count > keys.length ? named : named[0]!;
  return values;
}

export const keysOf = ({ lock }: Values): readonly string[] => (typeof lock === 'string' ? [lock] : (lock as string[]));

const text = (values: Values, name: string): string => String(values[name]);
export const numberOf = (values: Values, name: string): number => Number(values[name]);
const orNothing = (value: string): string | undefined => (value === '-' ? undefined : value);

/** What acquire and acquire-many are told. */
export function requestOf(values: Values): ReceivedRequest {
  const number = (name: string): number => numberOf(values, name);
  return {
    keys: keysOf(values),
    attempt: text(values, 'attempt'),
    owner: orNothing(text(values, 'owner')),
    mode: text(values, 'mode') as LockMode,
    leaseMs: number('leaseMs'),
    waiterLeaseMs: number('waiterLeaseMs'),
    fair: text(values, 'fair') === '1',
    permits: number('permits'),
    holder: text(values, 'holder'),
    claim: claimOf(values),
    sentMicros: number('sentMicros'),
    maxAgeMs: number('maxAgeMs'),
  };
}

function claimOf(values: Values): ReceivedRequest['claim'] {
  if ((values['fireKind'] ?? '-') === '-') return undefined;
  return {
    job: text(values, 'job'),
    kind: text(values, 'fireKind') as 'at' | 'slot' | 'gap',
    ms: numberOf(values, 'fireMs'),
    ageMs: numberOf(values, 'fireAgeMs'),
    rememberMs: numberOf(values, 'rememberMs'),
    rerunOnLoss: text(values, 'rerun') === '1',
  };
}

/** What release is told. */
export const releaseOf = (values: Values): ReleaseRequest => ({
  key: keysOf(values)[0]!,
  attempt: text(values, 'attempt'),
  holdAtLeastMs: numberOf(values, 'holdAtLeastMs'),
  leaseMs: 0,
  job: orNothing(text(values, 'job')),
  runOutcome: orNothing(text(values, 'runOutcome')) as ReleaseRequest['runOutcome'],
  unanswered: text(values, 'unanswered') === '1',
});

/** The hold that a command is about. */
export const holdOf = (values: Values) => ({
  key: keysOf(values)[0]!,
  attempt: text(values, 'attempt'),
  fencingToken: numberOf(values, 'token'),
});
