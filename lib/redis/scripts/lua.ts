import { createHash } from 'node:crypto';

/** A named hole in a script: a Redis key, or an argument. */
export interface Hole<
  Kind extends 'key' | 'arg' | 'fold' | 'rest' = 'key' | 'arg' | 'fold' | 'rest',
  Name extends string = string,
> {
  readonly kind: Kind;
  readonly name: Name;
}

/** A hole that stands for `KEYS[n]`. */
export const key = <const Name extends string>(name: Name): Hole<'key', Name> => ({ kind: 'key', name });

/** A hole that stands for `ARGV[n]`. */
export const arg = <const Name extends string>(name: Name): Hole<'arg', Name> => ({ kind: 'arg', name });

/**
 * A hole behind which new names of arguments travel as one text, and become arguments there: each argument of a command costs
 * its client and Redis something, also those that a script seldom reads. Their values contain no line break.
 */
export const FOLD: Hole<'fold', never> = { kind: 'fold', name: '' as never };

/** A hole that stands for the position of the first argument behind those that have names. */
export const REST: Hole<'rest', never> = { kind: 'rest', name: '' as never };

/**
 * A Lua text whose keys and arguments are known by name; it may be a whole script or a part of one. `KeyValue` is the type of
 * the value for a key name: one key, or a list of keys.
 */
export interface LuaScript<
  Keys extends string = string,
  Args extends string = string,
  KeyValue extends string | readonly string[] = string,
> {
  readonly parts: readonly (string | Hole)[];
  readonly text: string;
  readonly sha1: string;
  readonly keys: readonly Keys[];
  readonly args: readonly Args[];
  /** How many arguments travel on their own; those behind them as one text. */
  readonly unfolded: number;
  /** The operands of `EVALSHA` after the hash: number of keys, keys, arguments, in the order in which the text has them. */
  operands(
    values: { readonly [Name in Keys]: KeyValue } & { readonly [Name in Args]: string | number },
  ): (string | number)[];
}

/** What may stand in a script; internal. */
type Part = Hole | LuaScript<any, any, any>;

/** The names of the holes of one kind; internal. */
type NamesOf<P, Kind> =
  P extends Hole<infer K, infer Name>
    ? K extends Kind
      ? Name
      : never
    : P extends LuaScript<infer Keys, infer Args, any>
      ? Kind extends 'key'
        ? Keys
        : Args
      : never;

/**
 * A Lua script whose `KEYS[n]` and `ARGV[n]` are written by name: lua`return redis.call('get', ${key('lock')})`.
 * A hole may contain another script: its text is inserted, and its names are shared. Every use of a key becomes a literal
 * `KEYS[n]`, which some clustered services require.
 */
export function lua<const Parts extends readonly Part[]>(
  literals: TemplateStringsArray,
  ...holes: Parts
): LuaScript<NamesOf<Parts[number], 'key'>, NamesOf<Parts[number], 'arg'>> {
  const parts = literals.flatMap((literal, i) => [...(i === 0 ? [] : partsOf(holes[i - 1]!)), literal]);
  const keys: string[] = [];
  const args: string[] = [];
  const position = (names: string[], name: string): number =>
    names.includes(name) ? names.indexOf(name) + 1 : names.push(name);
  let unfolded = Infinity;
  const place = (part: string | Hole): string => {
    if (typeof part === 'string') return part;
    if (part.kind === 'fold') {
      unfolded = args.length;
      return unfold(unfolded + 1);
    }
    if (part.kind === 'rest') return `${args.length + 1}`;
    return part.kind === 'key' ? `KEYS[${position(keys, part.name)}]` : `ARGV[${position(args, part.name)}]`;
  };
  const text = parts.map(place).join('');
  const sha1 = createHash('sha1').update(text).digest('hex');
  const operands = (values: Readonly<Record<string, Value>>): (string | number)[] => {
    const named = keys.flatMap((name) => valueOf(values, name));
    const all = args.flatMap((name) => valueOf(values, name));
    const folded = unfolded < args.length ? [all.splice(unfolded).join('\n')] : [];
    return [named.length, ...named, ...all, ...folded];
  };
  return { parts, text, sha1, keys, args, unfolded: Math.min(unfolded, args.length), operands } as never;
}

/** Lua that makes arguments of the lines of one, from a position on. */
const unfold = (position: number): string => `
do
  local position = ${position}
  for value in string.gmatch(ARGV[position] .. '\\n', '([^\\n]*)\\n') do
    ARGV[position], position = value, position + 1
  end
end
`;

const partsOf = (part: Part): readonly (string | Hole)[] => ('parts' in part ? part.parts : [part]);

/** Inserts a text that has numbered its own keys and arguments already: the body of a function with parameters for them. */
export const verbatim = (text: string): LuaScript<never, never> => ({ ...lua``, parts: [text] });

/** The same script with a list of keys for each name: its text must read the lists from `KEYS` itself. */
export const overManyKeys = <Keys extends string, Args extends string>(
  script: LuaScript<Keys, Args>,
): LuaScript<Keys, Args, readonly string[]> => script as never;

type Value = string | number | readonly string[];

/** @throws TypeError when it is missing */
export function valueOf<V extends Value>(values: Readonly<Record<string, V>>, name: string): V {
  const value = values[name];
  if (value === undefined) throw new TypeError(`Expected a value for the script operand "${name}", got undefined.`);
  return value;
}
