import { ACQUIRE } from '../../../lib/redis/scripts/acquire.js';
import { type LuaScript } from '../../../lib/redis/scripts/lua.js';
import { type OperationKind } from '../../../lib/redis/scripts/operation.js';
import { RELEASE } from '../../../lib/redis/scripts/release.js';
import { RENEW } from '../../../lib/redis/scripts/renew.js';

/** The operands of a script by name, as `script.operands()` takes them; on the wire, numbers are text. */
export type Values = Readonly<Record<string, string | number | readonly string[]>>;

/** The operands of `EVALSHA` after the hash, by name again. */
export function valuesOf({ keys, args, unfolded }: LuaScript<any, any, any>, operands: readonly unknown[]): Values {
  const count = Number(operands[0]);
  const given = operands.slice(1 + count);
  if (args.length > unfolded) given.push(...String(given.pop()).split('\n'));
  const named = operands.slice(1, 1 + count).map(String);
  const values: Record<string, string | number | readonly string[]> = {};
  for (const [i, name] of args.entries()) values[name] = given[i] as string | number;
  values[keys[0]!] = count > keys.length ? named : named[0]!;
  return values;
}

/** The operands of one operation of a batch, by name. */
export interface ReceivedOperation {
  readonly name: OperationKind;
  readonly values: Values;
}

/** The operations that may travel in a batch. */
export const OPERATIONS = { acquire: ACQUIRE, release: RELEASE, renew: RENEW };

/** The operations of a batch, from the operands of `EVALSHA` after the hash. */
export function operationsOf({ args }: LuaScript<any, any, any>, operands: readonly unknown[]): ReceivedOperation[] {
  const words = operands.map(String);
  const locks = words.splice(0, 1 + Number(words[0])).slice(1);
  // The clock of a test has an operand, too.
  const shared = Object.fromEntries(args.map((name): [string, string] => [name, words.shift()!]));
  const terms = words.map((text) => text.split('\n'));
  const lines = shared['own']!.split('\n');
  return locks.map((lock, index) => {
    const [number, ...values] = lines[index]!.split(' ');
    const [name, ...texts] = terms[Number(number) - 1] as [OperationKind, ...string[]];
    const { own, body } = OPERATIONS[name];
    const named = Object.fromEntries(body.args.map((arg, i): [string, string] => [arg, texts[i]!]));
    for (const arg of own) named[arg] = shared[arg] ?? values.shift()!;
    return { name, values: { ...named, lock } };
  });
}

export const keysOf = ({ lock }: Values): readonly string[] => (typeof lock === 'string' ? [lock] : (lock as string[]));
