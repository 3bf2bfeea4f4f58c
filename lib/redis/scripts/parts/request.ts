import { arg, key, lua } from '../lua.js';
import { FINGERPRINTS } from './fingerprints.js';
import { GRANT } from './grant.js';
import { HAND_OVER } from './hand-over.js';
import { HOLDS } from './holds.js';
import { MESSAGES } from './messages.js';
import { QUEUE } from './queue.js';
import { SAVE } from './save.js';
import { scriptPart } from './script-part.js';
import { STATE } from './state.js';

const lock = key('lock');
const attempt = arg('attempt');

/**
 * The steps of a request at one lock. First check (`standing`, `check_place`, `has_turn`, `is_full`), then refuse, extend, grant or
 * wait (`refuse`, `extend`, `take`, `join_queue`), then save. A script that requests several locks checks all of them before it
 * grants any.
 */
export const REQUEST = scriptPart(
  {
    name: 'request',
    needs: [STATE, SAVE, HOLDS, FINGERPRINTS, GRANT, QUEUE, MESSAGES, HAND_OVER],
    defines: 'mode lease waiter_lease fair my_owner asked place full',
    reads:
      'micros now token released writes reads parked owner writer fence due head tail first floor freed unserved set_permits',
    writes: 'token head tail freed',
  },
  lua`
local mode, lease, waiter_lease = ${arg('mode')}, tonumber(${arg('leaseMs')}), tonumber(${arg('waiterLeaseMs')})
local fair, my_owner = ${arg('fair')}, ${arg('owner')}
local asked = { mode = mode, permits = tonumber(${arg('permits')}), take = tonumber(${arg('take')}), owner = my_owner }
local place = place_of(${attempt})

-- Whether this attempt holds the lock, or waits for it.
local function knows_attempt()
  if find_hold(${attempt}) then return true end
  local deadline = place and tonumber(string.match(redis.call('HGET', ${lock}, 'queue:' .. place), '^%d+'))
  return deadline and deadline > now
end

-- Whether the command is too old, was sent by the time of the floor, or comes from the future: its caller may be gone by now.
-- The client sends the latest time of this server that has certainly passed. An attempt that is known is never late.
local function is_late()
  local sent = tonumber(${arg('sentMicros')})
  return sent > micros or sent <= floor or micros > tonumber(${arg('untilMicros')})
end

-- Returns the standing of the attempt, and a detail: \`held\` and its hold; \`refused\` and why; \`entering\` and the token
-- of its owner; otherwise \`waiting\` for its turn, which may be now.
local function standing(is_known)
  local hold = find_hold(${attempt})
  if hold and hold.token ~= '0' then return 'held', hold end
  local given_back = is_in(released, ${attempt}) or is_in_late(${attempt})
  if hold or given_back then return 'refused', 'released' end
  if is_late() and not is_known() then return 'refused', 'late' end
  -- A named owner that holds the lock already re-enters with the token it has, past the queue.
  if writes > 0 and owner == my_owner then return 'entering', fence end
  if exceeds(asked) then return 'refused', 'permits' end
  if my_owner == '-' then return 'waiting' end
  local owned_token = string.match(redis.call('HGET', ${lock}, 'owned:' .. my_owner) or '', '%d+$')
  if owned_token and mode == 'write' then return 'refused', 'upgrade' end
  if owned_token and admits(asked) then return 'entering', owned_token end
  return 'waiting'
end

-- Drops a place whose waiter lease is over.
local function check_place()
  if not place then return end
  begin_writes()
  if not waiter_at(place) then
    place, freed = false, true
  elseif fair == '1' then
    head = math.min(head, tonumber(place))      -- it was passed over
  end
end

-- Whether the lock can be granted now. A fair request first serves the waiters ahead of it.
local function has_turn()
  if fair ~= '1' then return admits(asked) end
  return hand_over(${attempt}) or head > tail and admits(asked)
end

-- Returns true when there was a place to leave.
local function leave_place()
  if not place then return false end
  leave_queue(${attempt}, place)
  redis.call('HDEL', ${lock}, 'id:' .. ${attempt})
  place, freed = false, true
  return true
end

-- Grants with the token of the owner, or (nil) with a new one; returns the hold.
local function take(owned_token)
  leave_place()
  if not owned_token then token = next_token() end
  local hold = grant(${attempt}, asked, lease, owned_token or int(token))
  redis.call('HSET', ${lock}, 'id:' .. ${attempt}, ${arg('holder')})
  hand_over(nil)
  return hold
end

-- The command was sent again: its hold gets the full lease once more.
local function extend(hold)
  begin_writes()
  extend_hold(${attempt}, hold, lease)
  bound_by(hold)
  if freed then hand_over(nil) end
end

-- Whether this attempt has no place, and as many others wait as it accepts.
local full = false
local function is_full()
  local most, waiting, sequence = tonumber(${arg('maxWaiters')}), 0, tail
  if most > 0 and not place and tail - first + 1 >= most then
    -- Dead waiters do not count. The places of those who left are empty; to keep the script short, it looks at the last ones.
    while waiting < most and sequence >= first and tail - sequence < 2048 do
      if waiter_at(int(sequence)) then waiting = waiting + 1 end
      sequence = sequence - 1
    end
    full = waiting == most
  end
  return full
end

local function join_queue(how_fair)
  if waiter_lease > 0 then
    if not place then
      tail = tail + 1
      place = int(tail)
      redis.call('HSET', ${lock}, 'place:' .. ${attempt}, place .. ' ' .. int(now), 'id:' .. ${attempt}, ${arg('holder')})
    end
    redis.call('HSET', ${lock}, 'queue:' .. place, table.concat({ int(now + waiter_lease), int(waiter_lease),
      mode_of(mode, asked.take), how_fair, int(asked.permits), int(lease), my_owner, ${attempt} }, ' '))
  end
end

-- A refused attempt leaves the queue. \`swept\`: end_expired() looked at all holds, and its changes are saved. Otherwise the
-- counts would include holds that are gone.
local function refuse(swept)
  local left = leave_place()
  if freed then hand_over(nil) end
  if swept or left then save() elseif set_permits then keep() end
end

local function refusal_detail(reason)
  if reason == 'late' then return int(micros) end
  return reason == 'permits' and int(set_permits) or ''
end

local function busy_reply()
  local retry = writes + reads > 0 and due - now or 0
  local ahead = place and math.max(tonumber(place) - head, 0) or 0
  local holder = writes > parked and text_of(writer) or ''
  local heard = listeners(${attempt})
  return { 'busy', ${attempt}, int(now), int(retry), int(ahead), holder, owner, heard and int(heard) or '',
    unserved and '1' or '', int(token), full and '1' or '', set_permits and int(set_permits) or '' }
end
`,
);
