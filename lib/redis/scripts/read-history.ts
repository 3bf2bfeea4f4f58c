import { type LuaScript, arg, key, lua } from './lua.js';

const before = arg('before');

/**
 * Reads a part of the history from its end, and changes nothing.
 *
 * KEYS: `history`, a stream. ARGV: `before` which entry, or `+` for the last one; `most` entries to look at; `key` which the entries
 * are about, or empty for all of them.
 *
 * Reply `entries before looked last`: how many entries it has looked at, and the last of them; then, for each entry that fits, how many
 * texts follow, and those: fields and values in turn. A lock of several keys has all of them in one field, joined by `, `.
 */
export const readHistoryScript = (_clock: LuaScript<never, never>) => lua`
local before, wanted = ${before}, ${arg('key')}
local from = before == '+' and before or '(' .. before
local entries = redis.call('XREVRANGE', ${key('history')}, from, '-', 'COUNT', ${arg('most')})
local reply = { 'entries', before, #entries, #entries > 0 and entries[#entries][1] or '' }
for i = 1, #entries do
  local fields, is_about = entries[i][2], wanted == ''
  for j = 1, is_about and 0 or #fields, 2 do
    local is_key = fields[j] == 'key' and string.find(', ' .. fields[j + 1] .. ', ', ', ' .. wanted .. ', ', 1, true)
    if is_key or (fields[j] == 'event' and fields[j + 1] == 'dropped') then is_about = true end
  end
  if is_about then
    reply[#reply + 1] = #fields
    for j = 1, #fields do reply[#reply + 1] = fields[j] end
  end
end
return reply
`;
