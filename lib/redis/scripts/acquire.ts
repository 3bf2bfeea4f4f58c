import { type LuaScript, arg, key, lua } from './lua.js';
import { QUEUE } from './queue.js';
import { STATE } from './state.js';

const lock = key('lock');
const attempt = arg('attempt');

/**
 * Acquires, or joins the queue, or keeps the place in it.
 *
 * KEYS: `lock`, the lock's hash.
 * ARGV: `attempt` id of this acquisition; `owner` or `-`; `mode` write or read; `leaseMs`; `waiterLeaseMs` (0: do not
 * queue); `fair` 1 or 0; `limit` of readers (0: none); `holder` text for people; `keepMs`; `channelPrefix`;
 * `countReceivers` 1 when PUBLISH counts all.
 *
 * Reply, first the outcome, then always the attempt and the server's time in ms:
 * - `granted attempt now token remainingMs holds`: the same again when the command is sent again;
 * - `busy attempt now retryMs ahead holder`: `retryMs` until the earliest lease may end (0: unknown);
 * - `refused attempt now reason`: `released` (a late duplicate) or `upgrade` (this owner reads).
 */
export const acquireScript = (clock: LuaScript<never, never>) => lua`
${clock}${STATE}${QUEUE}
local mode, lease, waiter_lease = ${arg('mode')}, tonumber(${arg('leaseMs')}), tonumber(${arg('waiterLeaseMs')})
local fair, limit, my_owner = ${arg('fair')}, tonumber(${arg('limit')}), ${arg('owner')}

local place = redis.call('HGET', ${lock}, 'place:' .. ${attempt})

local function done(reply)
  save()
  keep_for(math.max(lease, waiter_lease))
  return reply
end

local function granted(granted_token, remaining)
  if freed then hand_over(nil) end
  return done({ 'granted', ${attempt}, int(now), granted_token, int(remaining), int(writes + reads) })
end

-- Who is refused waits no longer. What the sweep found is saved even so: else the counts would keep holds that are gone.
local function refused(reason)
  if place then
    leave_queue(${attempt}, place)
    redis.call('HDEL', ${lock}, 'id:' .. ${attempt})
  end
  if freed or place then hand_over(nil) end
  if swept or place then
    save()
    keep_for(0)
  end
  return { 'refused', ${attempt}, int(now), reason }
end

local function granted_anew(with_token)
  if place then leave_queue(${attempt}, place) end
  grant(${attempt}, mode, lease, my_owner, with_token)
  redis.call('HSET', ${lock}, 'id:' .. ${attempt}, ${arg('holder')})
  return granted(with_token, lease)
end

local mine = redis.call('HGET', ${lock}, 'hold:' .. ${attempt})
local hold = mine and read_hold(mine)
if hold and hold.token ~= '0' then
  keep_for(0)      -- allowed on a full server, and so is what follows
  hold.deadline = math.max(hold.deadline, now + lease)
  hold.lease = math.max(lease, hold.deadline - now)
  write_hold(${attempt}, hold)
  bound_by(hold)
  return granted(hold.token, hold.deadline - now)
end
if hold or was_released(${attempt}) then return refused('released') end

-- A named owner that holds the lock already re-enters with the token it has, past the queue.
if my_owner ~= '-' then
  if writes > 0 and owner == my_owner then return granted_anew(fence) end
  local owned_token = string.match(redis.call('HGET', ${lock}, 'owned:' .. my_owner) or '', '%d+$')
  if owned_token and mode == 'write' then return refused('upgrade') end
  if owned_token and admits(mode, limit) then return granted_anew(owned_token) end
end

if place then
  keep_for(0)      -- as above
  if tonumber(place) < head or not waiter_at(place) then place = false end
end
local handed
if fair == '1' and waiter_lease == 0 then handed = hand_over(${attempt}) end
if handed then return granted(handed, lease) end
if admits(mode, limit) and (fair ~= '1' or head > tail) then
  token = next_token()
  return granted_anew(int(token))
end

if waiter_lease > 0 then
  if not place then
    tail = tail + 1
    place = int(tail)
    redis.call('HSET', ${lock}, 'place:' .. ${attempt}, place, 'id:' .. ${attempt}, ${arg('holder')})
  end
  redis.call('HSET', ${lock}, 'queue:' .. place, table.concat({ int(now + waiter_lease), int(waiter_lease), mode, fair,
    int(limit), int(lease), my_owner, ${attempt} }, ' '))
end
if waiter_lease > 0 or fair ~= '1' then handed = hand_over(${attempt}) end
if handed then return granted(handed, lease) end
local retry = writes + reads > 0 and due - now or 0
local ahead = place and math.max(tonumber(place) - head, 0) or 0
local holder = writes > parked and redis.call('HGET', ${lock}, 'id:' .. writer) or ''
return done({ 'busy', ${attempt}, int(now), int(retry), int(ahead), holder })
`;
