import { ACQUIRE } from './acquire.js';
import { type LuaScript, REST, arg, lua, overManyKeys, verbatim } from './lua.js';
import { COMMON, type OperationScript, type Terms } from './operation.js';
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
 * KEYS: the lock of each operation. ARGV: `sentMicros` and `untilMicros` of all acquires (see acquire); `own`, with one line for
 * each operation: the number of its terms, its attempt and, for a renewal, its token; then the texts of the terms. (One text
 * costs a client less than many.)
 *
 * Reply: a list with the reply of each operation, or `failed`; if all are texts, one text with a line for each.
 */
export const batchScript = (clock: LuaScript<never, never>) =>
  overManyKeys(lua`
${clock}${COMMON}${functionOf(ACQUIRE)}${functionOf(RELEASE)}${functionOf(RENEW)}
local sent_micros, until_micros, terms = ${arg('sentMicros')}, ${arg('untilMicros')}, {}
local all_own = ${arg('own')}
for i = ${REST}, #ARGV do
  local values = {}
  for value in string.gmatch(ARGV[i] .. '\\n', '([^\\n]*)\\n') do values[#values + 1] = value end
  terms[tostring(i - ${REST} + 1)] = { kind = table.remove(values, 1), values = values }
end

local keys, replies, texts = {}, {}, 0
for number, attempt, token in string.gmatch(all_own, '(%d+) ([^ \\n]+) ?(%d*)\\n') do
  local i, own = #replies + 1, terms[number]
  local kind, values, run = own.kind, own.values, release
  keys[1], values[1] = KEYS[i], attempt
  if kind == 'acquire' then
    run, values[2], values[3] = acquire, sent_micros, until_micros
  elseif kind == 'renew' then
    run, values[2] = renew, token
  end
  local is_done, reply = pcall(run, keys, values)
  if not is_done then reply = '${verbatim(FAILED)}' end
  if type(reply) == 'string' then texts = texts + 1 end
  replies[i] = reply
end
return texts == #replies and table.concat(replies, '\\n') or replies
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
  /** The distinct terms so far (most operations share one object), and for each the number of its text. */
  const [known, numbers] = [[] as Terms[], [] as number[]];
  const texts: string[] = [];
  let own = '';
  for (const { attempt, token, terms } of operations) {
    let at = known.indexOf(terms);
    if (at < 0) {
      at = known.push(terms) - 1;
      // Texts take longer to compare than objects.
      const same = texts.indexOf(terms.text);
      numbers.push(same < 0 ? texts.push(terms.text) : same + 1);
    }
    const number = numbers[at]!;
    own += terms.kind === 'renew' ? `${number} ${attempt} ${token}\n` : `${number} ${attempt}\n`;
  }
  const locks = operations.map(({ lock }) => lock);
  return [locks.length, ...locks, times.sentMicros, times.untilMicros, own, ...texts];
}
