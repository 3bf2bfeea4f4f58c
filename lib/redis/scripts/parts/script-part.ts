import { type LuaScript, lua } from '../lua.js';

/**
 * Lua that several scripts share: functions, and the variables that they use. A part loads what the lock has and defines
 * functions; only a script calls them. `test/scripts/parts.spec.ts` compares each head with the text.
 *
 * A head lists what the text of the part itself uses: what a function of another part reads and sets is in the head of that
 * part. It lists variables, not fields of the hash. Two variables of `state` are called `reads` and `writes`, too: the numbers
 * of read holds and of write holds.
 */
export interface ScriptPart<Args extends string = string> {
  readonly name: string;
  /** The parts whose functions and variables it uses. */
  readonly needs: readonly ScriptPart<any>[];
  /** The variables that it defines, beside its functions. */
  readonly defines: readonly string[];
  /** The variables of other parts that it reads. */
  readonly reads: readonly string[];
  /** The variables of other parts that it sets. */
  readonly writes: readonly string[];
  readonly script: LuaScript<any, Args, any>;
}

/** The head of a part; lists of variables are separated by spaces. */
interface Head<Needs extends readonly ScriptPart<any>[]> {
  readonly name: string;
  readonly needs: Needs;
  readonly defines?: string;
  readonly reads?: string;
  readonly writes?: string;
}

type ArgsOf<Part> = Part extends ScriptPart<infer Args> ? Args : never;

/** Declares a part of a script; throws when it uses a variable that no part defines that it needs. */
export function scriptPart<const Needs extends readonly ScriptPart<any>[], Args extends string>(
  { name, needs, defines, reads, writes }: Head<Needs>,
  script: LuaScript<any, Args, any>,
): ScriptPart<Args | ArgsOf<Needs[number]>> {
  const part = { name, needs, defines: words(defines), reads: words(reads), writes: words(writes), script };
  const known = new Set(withNeeds(needs).flatMap((needed) => needed.defines));
  const unknown = [...part.reads, ...part.writes].find((variable) => !known.has(variable));
  if (unknown === undefined) return part;
  throw new Error(`The script part "${name}" uses "${unknown}": add the part that defines it to "needs".`);
}

const words = (text = ''): readonly string[] => text.split(' ').filter(Boolean);

/** The text of these parts and of all that they need: each part once, after those that it needs. */
export function inOrder<const Parts extends readonly ScriptPart<any>[]>(
  ...parts: Parts
): LuaScript<'lock', ArgsOf<Parts[number]>> {
  return withNeeds(parts).reduce<LuaScript>((text, { script }) => lua`${text}${script}`, lua``) as never;
}

/** These parts and all that they need, each once, after those that it needs. */
function withNeeds(parts: readonly ScriptPart<any>[]): readonly ScriptPart<any>[] {
  const ordered = new Set<ScriptPart<any>>();
  for (const part of parts) {
    for (const needed of withNeeds(part.needs)) ordered.add(needed);
    ordered.add(part);
  }
  return [...ordered];
}
