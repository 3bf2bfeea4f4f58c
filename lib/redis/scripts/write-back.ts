import { type LuaScript, arg, key, lua } from './lua.js';
import { QUEUE } from './queue.js';
import { STATE } from './state.js';

const lock = key('lock');
const attempt = arg('attempt');

/**
 * Gives a live hold another fencing token: the one that a quorum has decided on for it. The lock's last token becomes at
 * least that, so that every later grant of this node exceeds it. The lease stays as it is.
 *
 * KEYS: `lock`. ARGV: `attempt`, `token` that this node has given it, `newToken`, `keepMs`, `channelPrefix`,
 * `countReceivers`.
 *
 * Reply `written attempt now`, also when it is sent again, or `lost attempt now token revoked` as of renew.
 */
export const writeBackScript = (clock: LuaScript<never, never>) => lua`
${clock}${STATE}${QUEUE}
local new_token = ${arg('newToken')}
local record = redis.call('HGET', ${lock}, 'hold:' .. ${attempt})
local hold = record and read_hold(record)
local changed = swept
local lost = not hold or hold.token == '0' or hold.token ~= ${arg('token')} and hold.token ~= new_token

-- What re-enters gets the token of its owner: of its only hold, or the greatest of several.
local function token_of_owner(count, before)
  return (count == 1 or tonumber(before) < tonumber(new_token)) and new_token or before
end

local function write_owned()
  local count, before = string.match(redis.call('HGET', ${lock}, 'owned:' .. hold.owner) or '', '^(%d+) (%d+)$')
  if not count then return end
  redis.call('HSET', ${lock}, 'owned:' .. hold.owner, count .. ' ' .. token_of_owner(tonumber(count), before))
end

if not lost then
  -- The first write is one that a full server allows (HSET is not): then the ones after it are allowed, too.
  keep_for(0)
  hold.token = new_token
  write_hold(${attempt}, hold)
  token = math.max(token, tonumber(new_token))
  if hold.mode == 'read' then write_owned() else fence = token_of_owner(writes - parked, fence) end
  changed = true
end
if freed then hand_over(nil) end
if changed then save() end
if not lost then return { 'written', ${attempt}, int(now) } end
return { 'lost', ${attempt}, int(now), int(token), is_in(revoked, ${attempt}) and '1' or '0' }
`;
