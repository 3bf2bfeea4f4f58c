import { type LuaScript, arg, key, lua } from './lua.js';
import { QUEUE } from './queue.js';
import { READING } from './reading.js';
import { STATE } from './state.js';

const lock = key('lock');
const attempt = arg('attempt');

/**
 * Makes a live write hold a read hold, with the same lease and token, and lets the readers at the head of the queue in.
 * A hold that reads already, as when the command is sent again, stays as it is.
 *
 * KEYS: `lock`. ARGV: `attempt`, `token`, `keepMs`, `channelPrefix`, `countReceivers`.
 *
 * Reply `downgraded attempt now`, or `lost attempt now token revoked` as of renew.
 */
export const downgradeScript = (clock: LuaScript<never, never>) => lua`
${clock}${STATE}${QUEUE}${READING}
local record = redis.call('HGET', ${lock}, 'hold:' .. ${attempt})
local hold = record and read_hold(record)
local changed = swept
local lost = not hold or hold.token == '0' or hold.token ~= ${arg('token')}
if not lost and hold.mode == 'write' then
  -- The first write is one that a full server allows (HSET is not): then the ones after it are allowed, too.
  keep_for(0)
  make_read(hold)
  changed = true
end
if freed then hand_over(nil) end
if changed then save() end
if not lost then return { 'downgraded', ${attempt}, int(now) } end
return { 'lost', ${attempt}, int(now), int(token), is_in(revoked, ${attempt}) and '1' or '0' }
`;
