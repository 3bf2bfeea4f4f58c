import { FOLD, type LuaScript, arg, lua, valueOf } from './lua.js';

export type OperationKind = 'acquire' | 'release' | 'renew';

type Operand = string | number;

/** The arguments that an operation has in common with others of its kind. */
export interface Terms {
  readonly kind: OperationKind;
  /** For a batch: the kind and all arguments of the operation, one per line; its own ones are empty. */
  readonly text: string;
  /** For the script of a single operation: its operands behind its own ones. */
  readonly operands: readonly Operand[];
}

/** An operation on one lock, which has a script of its own and is a function of the script for batches. */
export interface OperationScript<Own extends string = any, Args extends string = any> {
  readonly kind: OperationKind;
  /** The arguments that differ in each operation. They come first. */
  readonly own: readonly Own[];
  /** Without a clock; its names are those of all arguments, in their order. */
  readonly body: LuaScript<'lock', Args>;
  /** The script of a single operation. */
  alone(clock: LuaScript<never, never>): LuaScript<'lock', Args>;
  /** The values contain no line break. */
  termsOf(values: { readonly [Name in Exclude<Args, Own>]: Operand }): Terms;
}

/**
 * What the operations of one command have in common, for their plain paths: the time in milliseconds, and texts that are made when the
 * first of them needs them. (To write a number as a text takes Lua as long as to read a field.)
 */
export const COMMON = lua`
local now_ms = string.sub(time, 1, 13)
local new_deadline, new_lease, latest_free
`;

/** Sets `new_deadline` to the end of a lease that begins now; reads `lease`. */
export const NEW_DEADLINE = lua`if lease ~= new_lease then new_deadline, new_lease = string.format('%.0f', now_ms + lease), lease end`;

interface Definition<Own extends string, Plain extends string, Full extends string> {
  readonly kind: OperationKind;
  readonly own: readonly Own[];
  /** Serves the most usual cases, and returns; whatever it leaves alone is for `full`. */
  readonly plain: LuaScript<'lock', Plain>;
  readonly full: LuaScript<'lock', Full>;
}

/** Defines an operation. On its own, the arguments that only `full` reads travel as one text. */
export function defineOperation<const Own extends string, Plain extends string, Full extends string>({
  kind,
  own,
  plain,
  full,
}: Definition<Own, Plain, Full>): OperationScript<Own, Plain | Full> {
  // The first use of a name is its position.
  const ownFirst = own.reduce<LuaScript>((text, name) => lua`${text} ${arg(name)}`, lua`-- Its own:`);
  const body = lua`${ownFirst}${plain}${full}` as LuaScript as LuaScript<'lock', Plain | Full>;
  const names = body.args.slice(own.length);
  const unfolded = new Set<string>([...own, ...plain.args]).size - own.length;
  return {
    kind,
    own,
    body,
    alone: (clock) => lua`${clock}${COMMON}${ownFirst}${plain}${FOLD}${full}` as LuaScript as never,
    termsOf(values) {
      const list = names.map((name) => valueOf<Operand>(values, name));
      const text = [kind, ...own.map(() => ''), ...list].join('\n');
      return { kind, text, operands: [...list.slice(0, unfolded), list.slice(unfolded).join('\n')] };
    },
  };
}
