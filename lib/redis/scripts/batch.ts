import { ACQUIRE } from './acquire.js';
import { type LuaScript, REST, arg, lua, overManyKeys, verbatim } from './lua.js';
import { type OperationScript, type Terms } from './operation.js';
import { RELEASE } from './release.js';
import { RENEW } from './renew.js';

/** The reply for an operation that failed: sent alone, it reports its error itself. */
export const FAILED = 'failed';

/** An operation as a function. `KEYS` and `ARGV` are its own, so that its text is the same as in its own script. */
const functionOf = ({ kind, body }: OperationScript): LuaScript<never, never> =>
  verbatim(`\nlocal function ${kind}(KEYS, ARGV)\n${body.text}\nend\n`);

/**
 * Does several acquires, releases and renewals, each of one lock, in their order. An error of one touches no other.
 *
 * KEYS: the lock of each operation. ARGV: `sentMicros` and `untilMicros` of all acquires (see acquire), `terms` how many texts
 * of terms follow; those texts; and for each operation the number of its terms, its attempt and, for a renewal, its token.
 *
 * Reply: a list with the reply of each operation, or `failed`.
 */
export const batchScript = (clock: LuaScript<never, never>) =>
  overManyKeys(lua`
${clock}${functionOf(ACQUIRE)}${functionOf(RELEASE)}${functionOf(RENEW)}
local sent_micros, until_micros, count = ${arg('sentMicros')}, ${arg('untilMicros')}, tonumber(${arg('terms')})
local position, terms = ${REST}, {}
for i = 1, count do
  local values = {}
  for value in string.gmatch(ARGV[position] .. '\\n', '([^\\n]*)\\n') do values[#values + 1] = value end
  terms[i], position = { kind = table.remove(values, 1), values = values }, position + 1
end

local keys, replies = {}, {}
for i = 1, #KEYS do
  local own = terms[tonumber(ARGV[position])]
  local kind, values, run = own.kind, own.values, release
  keys[1], values[1], position = KEYS[i], ARGV[position + 1], position + 2
  if kind == 'acquire' then
    run, values[2], values[3] = acquire, sent_micros, until_micros
  elseif kind == 'renew' then
    run, values[2], position = renew, ARGV[position], position + 1
  end
  local is_done, reply = pcall(run, keys, values)
  replies[i] = is_done and reply or '${verbatim(FAILED)}'
end
return replies
`);

/** An operation as a batch has it. */
interface BatchedOperation {
  readonly lock: string;
  readonly attempt: string;
  /** Of a renewal. */
  readonly token?: string | undefined;
  readonly terms: Terms;
}

/** The operands of a batch behind the hash. */
export function batchOperands(
  operations: readonly BatchedOperation[],
  times: { readonly sentMicros: number | string; readonly untilMicros: number | string },
): (string | number)[] {
  /** The number of each text; and of each object, since most operations have the same one: texts take longer to compare. */
  const [texts, numbers] = [new Map<string, number>(), new Map<Terms, number>()];
  const own: (string | number)[] = [];
  for (const { attempt, token, terms } of operations) {
    let number = numbers.get(terms);
    if (number === undefined) {
      number = texts.get(terms.text) ?? texts.size + 1;
      texts.set(terms.text, number);
      numbers.set(terms, number);
    }
    own.push(number, attempt);
    if (terms.kind === 'renew') own.push(token!);
  }
  const locks = operations.map(({ lock }) => lock);
  return [locks.length, ...locks, times.sentMicros, times.untilMicros, texts.size, ...texts.keys(), ...own];
}
