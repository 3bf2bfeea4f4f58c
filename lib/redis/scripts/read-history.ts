import { type LuaScript, arg, key, lua } from './lua.js';

const before = arg('before');

/**
 * Reads a part of the history from its end, and changes nothing.
 *
 * KEYS: `history`, a stream. ARGV: `before` which entry, or `+` for the last one; `most` entries to look at; `key` which the entries
 * are about, or empty for all of them.
 *
 * Reply `entries before looked last`: how many entries it has looked at, and the last of them; then, of each entry that fits, its
 * `id`, `at`, `host`, `pid`, `key` and `facts`. A lock of several keys has all of them in one text, joined by `, `; what is about no
 * lock fits in any case.
 */
export const readHistoryScript = (_clock: LuaScript<never, never>) => lua`
local before, wanted = ${before}, ${arg('key')}
local from = before == '+' and before or '(' .. before
local entries = redis.call('XREVRANGE', ${key('history')}, from, '-', 'COUNT', ${arg('most')})
local reply = { 'entries', before, #entries, #entries > 0 and entries[#entries][1] or '' }
for i = 1, #entries do
  local texts, fields = entries[i][2], {}
  for j = 1, #texts, 2 do fields[texts[j]] = texts[j + 1] end
  local about = fields.key or ''
  if wanted == '' or about == '' or string.find(', ' .. about .. ', ', ', ' .. wanted .. ', ', 1, true) then
    for _, name in ipairs({ 'id', 'at', 'host', 'pid', 'key', 'facts' }) do reply[#reply + 1] = fields[name] or '' end
  end
end
return reply
`;
