import { type LuaScript, REST, arg, key, lua } from './lua.js';

const [history, batch] = [key('history'), arg('batch')];

/**
 * Adds entries to the history, and drops what is too much or too old. A batch that is sent again is added again, under the same ids.
 *
 * KEYS: `history`, a stream. ARGV: `batch` id; `maxEntries`, `keepMs` how much is kept (empty: as long as before); `host`, `pid` of the process; then, for each
 * entry, its age in ms, its key, and all else that it says, as JSON.
 *
 * Reply `appended batch now`.
 */
export const appendHistoryScript = (clock: LuaScript<never, never>) => lua`
${clock}
local now = tonumber(string.sub(time, 1, -4))
local batch, most, keep_ms, host, pid = ${batch}, ${arg('maxEntries')}, ${arg('keepMs')}, ${arg('host')}, ${arg('pid')}
-- First, so that a server that refuses it has not added anything yet.
if keep_ms ~= '' then redis.call('XTRIM', ${history}, 'MINID', '~', string.format('%.0f', now - tonumber(keep_ms))) end
local position, number = ${REST}, 0
while ARGV[position] do
  redis.call('XADD', ${history}, 'MAXLEN', '~', most, '*', 'id', batch .. '.' .. number,
    'at', string.format('%.0f', now - tonumber(ARGV[position])), 'host', host, 'pid', pid,
    'key', ARGV[position + 1], 'facts', ARGV[position + 2])
  position, number = position + 3, number + 1
end
if keep_ms ~= '' then redis.call('PEXPIRE', ${history}, keep_ms) end
return { 'appended', batch, string.format('%.0f', now) }
`;
