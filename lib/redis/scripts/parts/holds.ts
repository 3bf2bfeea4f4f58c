import { key, lua } from '../lua.js';
import { scriptPart } from './script-part.js';
import { STATE } from './state.js';

const lock = key('lock');

/** The records of holds (`hold:`), and what is kept of all of them: the counts, the bounds, and the reading owners (`owned:`). */
export const HOLDS = scriptPart(
  {
    name: 'holds',
    needs: [STATE],
    reads: 'now writes reads extra parked due seen latest packed_hold by',
    writes: 'writes reads extra parked owner due seen latest packed_hold',
  },
  lua`
local function read_hold(record)
  local deadline, lease, mode, take, hold_token, since, hold_owner =
    string.match(record, '^(%d+) (%d+) (%a+)(%d*) (%d+) (%d+) (.+)$')
  return { deadline = tonumber(deadline), lease = tonumber(lease), mode = mode, take = tonumber(take) or 1,
    token = hold_token, since = tonumber(since), owner = hold_owner }
end

-- The mode as records have it: followed by the permits that are taken, unless it is one.
local function mode_of(mode, take)
  return take > 1 and mode .. int(take) or mode
end

local function is_packed(attempt)
  return packed_hold and packed_hold.attempt == attempt
end

local function find_hold(attempt)
  if is_packed(attempt) then return packed_hold end
  local record = redis.call('HGET', ${lock}, 'hold:' .. attempt)
  return record and read_hold(record)
end

-- Visits each hold of the lock as it was loaded.
local function each_hold(visit)
  if packed_hold then return visit(packed_hold.attempt, packed_hold) end
  local fields = redis.call('HGETALL', ${lock})
  for i = 1, #fields, 2 do
    local attempt = string.match(fields[i], '^hold:(.+)$')
    if attempt then visit(attempt, read_hold(fields[i + 1])) end
  end
end

-- The hold of a packed lock is written by save().
local function write_hold(attempt, hold)
  if hold == packed_hold then return end
  redis.call('HSET', ${lock}, 'hold:' .. attempt, table.concat({ int(hold.deadline), int(hold.lease),
    mode_of(hold.mode, hold.take), hold.token, int(hold.since), hold.owner }, ' '))
end

-- Counts a read hold of a named owner in (1) or out (-1), and keeps the greatest token that the owner got since it began to
-- read: an attempt that waited got a new token, and the next re-entry must not get an older one.
local function count_owned(name, change, hold_token)
  if name == '-' then return end
  local count, owned_token = string.match(redis.call('HGET', ${lock}, 'owned:' .. name) or '0 0', '^(%d+) (%d+)$')
  count = tonumber(count) + change
  if count <= 0 then
    redis.call('HDEL', ${lock}, 'owned:' .. name)
  else
    if change > 0 and tonumber(hold_token) > tonumber(owned_token) then owned_token = hold_token end
    redis.call('HSET', ${lock}, 'owned:' .. name, int(count) .. ' ' .. owned_token)
  end
end

-- Counts a hold in (1) or out (-1).
local function count_hold(hold, change)
  if hold.mode == 'write' then
    writes = writes + change
    if hold.token == '0' then parked = parked + change end
    if writes == parked then owner = '' end
  else
    reads = reads + change
    extra = extra + change * (hold.take - 1)
  end
end

-- Widens the bounds to include the lease of this hold.
local function bound_by(hold)
  if due == 0 or hold.deadline < due then due = hold.deadline end
  seen = math.max(seen, hold.deadline - hold.lease)
  latest = math.max(latest, hold.deadline)
end

-- Call bound_by() for each hold that is left.
local function forget_bounds()
  due, seen, latest = 0, 0, 0
end

-- Never shortens a lease.
local function extend_hold(attempt, hold, lease)
  hold.deadline = math.max(hold.deadline, now + lease)
  hold.lease = math.max(lease, hold.deadline - now)
  write_hold(attempt, hold)
end

-- The text of the holder or waiter, for people.
local function text_of(attempt)
  return is_packed(attempt) and by or redis.call('HGET', ${lock}, 'id:' .. attempt)
end

local function drop_hold(attempt, hold)
  if hold == packed_hold then
    packed_hold = nil
    return
  end
  redis.call('HDEL', ${lock}, 'hold:' .. attempt, 'id:' .. attempt)
  if hold.mode == 'read' and hold.token ~= '0' then count_owned(hold.owner, -1) end
end
`,
);
