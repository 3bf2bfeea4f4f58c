import { arg, key, lua } from './lua.js';

const lock = key('lock');

/**
 * Granting, and the first-in-first-out queue of waiters. A waiter has a lease of its own, so that a dead one leaves; a
 * released lock is granted to the head in the very script that released it, and the grant travels with the wake-up.
 * Such a grant lasts no longer than the waiter's lease until the new holder's first renewal claims it.
 *
 * Only what stands is published: a message reaches the subscribers of replicas, too, and cannot be taken back. So the
 * listeners are counted before anything is granted. A waiter for whom nobody listens is passed over; it keeps its place,
 * and is first again when it asks.
 */
export const QUEUE = lua`
local function admits(mode, permits)
  if writes > 0 then return false end
  return mode == 'read' and (permits == 0 or reads < permits) or reads == 0
end

-- tokens rise for ever: by one within a microsecond, and from the clock again when the hash was lost
local function next_token()
  return math.max(token + 1, micros)
end

local function grant(attempt, mode, lease, hold_owner, hold_token)
  local hold = { deadline = now + lease, lease = lease, mode = mode, token = hold_token, since = now, owner = hold_owner }
  write_hold(attempt, hold)
  bound_by(hold)
  count_hold(hold, 1)
  if mode == 'write' then
    owner = hold_owner == '-' and attempt or hold_owner
    writer, fence = attempt, hold_token
  else
    count_owned(hold_owner, 1, hold_token)
  end
  return hold
end

local function leave_queue(attempt, sequence)
  redis.call('HDEL', ${lock}, 'queue:' .. sequence, 'place:' .. attempt)
end

local function waiter_at(sequence)
  local record = redis.call('HGET', ${lock}, 'queue:' .. sequence)
  if not record then return nil end
  local deadline, waiter_lease, mode, fair, permits, lease, waiter_owner, attempt =
    string.match(record, '^(%d+) (%d+) (%a+) (%d) (%d+) (%d+) (%S+) (%S+)$')
  deadline, waiter_lease = tonumber(deadline), tonumber(waiter_lease)
  -- more left than was ever given: the clock stepped back, and the waiter may be as old as it likes
  if deadline - now > waiter_lease then
    deadline = now + waiter_lease
    redis.call('HSET', ${lock}, 'queue:' .. sequence, (string.gsub(record, '^%d+', int(deadline), 1)))
  end
  if deadline <= now then
    leave_queue(attempt, sequence)
    redis.call('HDEL', ${lock}, 'id:' .. attempt)
    return nil
  end
  return { attempt = attempt, mode = mode, fair = fair, permits = tonumber(permits), lease = tonumber(lease),
    waiter_lease = waiter_lease, owner = waiter_owner, sequence = sequence }
end

-- Waiters that died behind a live one leave: each script looks at some places, and at more as long as it finds them empty,
-- but never at so many that it takes long.
local function sweep_queue()
  local places, live = math.min(tail - first + 1, 512), 0
  while places > 0 and live < 8 do
    if cursor < first or cursor > tail then cursor = first end
    if waiter_at(int(cursor)) then
      live = live + 1
    else
      live = 0
      if cursor == first then first = first + 1 end
    end
    cursor, places = cursor + 1, places - 1
  end
  head = math.max(head, first)
end

local function save()
  redis.call('HSET', ${lock}, 'token', int(token), 'released', released)
  if revoked ~= ';' then redis.call('HSET', ${lock}, 'revoked', revoked) end
  if late ~= ';' then redis.call('HSET', ${lock}, 'late', late) end
  if floor > 0 then redis.call('HSET', ${lock}, 'floor', int(floor)) end
  if writes + reads > 0 then
    redis.call('HSET', ${lock}, 'writes', int(writes), 'reads', int(reads), 'parked', int(parked), 'owner', owner,
      'writer', writer, 'fence', fence, 'due', int(due), 'seen', int(seen), 'latest', int(latest))
  elseif was_held then
    redis.call('HDEL', ${lock}, 'writes', 'reads', 'parked', 'owner', 'writer', 'fence', 'due', 'seen', 'latest')
  end
  if first <= tail then
    redis.call('HSET', ${lock}, 'head', int(head), 'tail', int(tail), 'first', int(first), 'cursor', int(cursor))
  elseif was_queued then
    redis.call('HDEL', ${lock}, 'head', 'tail', 'first', 'cursor')
  end
  keep_for(0)
end

local function process_of(attempt)
  return string.match(attempt, '^[^.]*')
end

-- How many listen for a process at this server; nil when that cannot be known: a cluster, of which one node is listened to.
-- False without the right to ask.
local counted = {}
local function listeners(attempt)
  if ${arg('countReceivers')} ~= '1' then return nil end
  local process = process_of(attempt)
  if counted[process] == nil then
    local reply = redis.pcall('PUBSUB', 'NUMSUB', ${arg('channelPrefix')} .. process)
    counted[process] = not reply.err and tonumber(reply[2])
  end
  return counted[process]
end

-- How many heard it; false without the right to publish: then nobody did.
local function tell(attempt, message)
  local heard = redis.pcall('PUBLISH', ${arg('channelPrefix')} .. process_of(attempt), message)
  return type(heard) == 'number' and heard
end

-- Tells a waiter to come and ask; false when nobody listens.
local function wake(waiter)
  local heard = tell(waiter.attempt, 'wake ' .. waiter.attempt)
  return heard ~= 0 or ${arg('countReceivers')} ~= '1'
end

-- Grants to a waiter of another call; false when that cannot be told, and nothing was sent.
local function push_grant(waiter)
  local lease = math.min(waiter.lease, waiter.waiter_lease)
  token = next_token()
  local hold = grant(waiter.attempt, waiter.mode, lease, waiter.owner, int(token))
  if tell(waiter.attempt, table.concat({ 'granted', waiter.attempt, int(token), int(now), int(lease) }, ' ')) then
    leave_queue(waiter.attempt, waiter.sequence)
    return true
  end
  redis.call('HDEL', ${lock}, 'hold:' .. waiter.attempt)
  if hold.mode == 'read' then count_owned(hold.owner, -1) end
  count_hold(hold, -1)
  return false
end

-- Unfair waiters race: two of different processes are woken, because the first may be stopped. Nobody is woken whom the
-- lock would not admit: with a stopped one at the head, that would ask and be woken without end. False: nobody listens, and
-- the head is the last of those who are passed over.
local function wake_some()
  local woken, count, sequence, next_head = {}, 0, head, nil
  while sequence <= tail and sequence < head + 16 and count < 2 do
    local waiter = waiter_at(int(sequence))
    local process = waiter and process_of(waiter.attempt)
    local called = waiter and waiter.fair == '0' and not woken[process] and admits(waiter.mode, waiter.permits)
    if called and wake(waiter) then
      woken[process] = true
      count = count + 1
    end
    if waiter and not next_head and (not called or woken[process]) then next_head = sequence end
    sequence = sequence + 1
  end
  head = count > 0 and next_head or (next_head or sequence) - 1
  return count > 0
end

-- Serves the waiter at the head, whom the lock admits; true when it was called to come and ask, and the others wait.
local function call(waiter)
  if waiter.fair == '0' then return wake_some() end
  return wake(waiter)
end

-- The place of the waiter that was told to come and ask, or did, when it had its turn. Should it wait for another key,
-- then it is told again only after something was freed here: else two of them could wake each other without end.
local told = head
-- Whether serving the queue stopped before its end, because the script had done enough.
local unserved = false

-- Serves the queue from its head as far as the lock admits. After 64 grants the next one is called to come and ask, and
-- its own script goes on; after 256 places the caller sends its command once more: so each script stays short.
-- True when the waiter \`me\` (who is calling) has its turn; it is for the caller to grant it.
local function hand_over(me)
  local news, grants, places = freed, 0, 0
  freed = false
  while head <= tail do
    places = places + 1
    unserved = places > 256
    if unserved then return false end
    local waiter = waiter_at(int(head))
    local is_passed_over = false
    if waiter then
      if not admits(waiter.mode, waiter.permits) then break end
      if waiter.attempt == me then return true end
      local heard = waiter.fair == '1' and grants < 64 and listeners(waiter.attempt)
      if heard == nil or heard and heard > 0 then
        if not push_grant(waiter) then break end
        grants = grants + 1
      else
        if waiter.fair ~= '1' and head == told and not news then break end
        if call(waiter) then
          told = head
          break
        end
        is_passed_over = true
        if waiter.fair == '0' then places = places + 15 end
      end
    end
    if head == first and not is_passed_over then first = first + 1 end
    head = head + 1
  end
  return false
end
`;
