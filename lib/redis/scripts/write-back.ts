import { type LuaScript, arg, key, lua } from './lua.js';
import { EXPIRY } from './parts/expiry.js';
import { HOLDS } from './parts/holds.js';
import { LIVE_HOLD } from './parts/live-hold.js';
import { SAVE } from './parts/save.js';
import { inOrder } from './parts/script-part.js';
import { STATE } from './parts/state.js';

const lock = key('lock');
const attempt = arg('attempt');

/**
 * Replaces the fencing token of a live hold by the one that a quorum has chosen for it. The lock's last token becomes at
 * least that, so that every later grant of this node exceeds it. The lease stays as it is.
 *
 * KEYS: `lock`. ARGV: `attempt`, `token` that this node has granted, `newToken`, `keepMs`, `channelPrefix`,
 * `countReceivers`.
 *
 * Reply `written attempt now`, also when it is sent again, or `lost attempt now token revoked` as for renew.
 */
export const writeBackScript = (clock: LuaScript<never, never>) => lua`
${clock}${inOrder(STATE, HOLDS, SAVE, EXPIRY, LIVE_HOLD)}
local swept = end_expired()
local new_token = ${arg('newToken')}
local hold = live_hold()
if not hold or hold.token ~= ${arg('token')} and hold.token ~= new_token then return lost(swept) end

-- The token with which the owner re-enters: that of its only hold, or the greatest of several.
local function token_of_owner(count, before)
  return (count == 1 or tonumber(before) < tonumber(new_token)) and new_token or before
end

local function write_owned()
  local count, before = string.match(redis.call('HGET', ${lock}, 'owned:' .. hold.owner) or '', '^(%d+) (%d+)$')
  if not count then return end
  redis.call('HSET', ${lock}, 'owned:' .. hold.owner, count .. ' ' .. token_of_owner(tonumber(count), before))
end

begin_writes()
hold.token = new_token
write_hold(${attempt}, hold)
token = math.max(token, tonumber(new_token))
if hold.mode == 'read' then write_owned() else fence = token_of_owner(writes - parked, fence) end
hand_over_and_save(swept, true)
return { 'written', ${attempt}, int(now) }
`;
