import { arg, key, lua } from './lua.js';

const lock = key('lock');

/**
 * Granting, and the first-in-first-out queue of waiters. A waiter has a lease of its own, so that a dead one leaves; a
 * released lock is granted to the head in the very script that released it, and the grant travels with the wake-up.
 * Such a grant lasts no longer than the waiter's lease until the new holder's first renewal claims it. A waiter whose
 * process listens no more (PUBLISH counts no receiver) leaves at once and queues anew when it asks again.
 */
export const QUEUE = lua`
local function admits(mode, limit)
  if writes > 0 then return false end
  return mode == 'read' and (limit == 0 or reads < limit) or reads == 0
end

-- tokens rise for ever: by one within a microsecond, and from the clock again when the hash was lost
local function next_token()
  return math.max(token + 1, micros)
end

local function grant(attempt, mode, lease, hold_owner, hold_token)
  local hold = { deadline = now + lease, lease = lease, mode = mode, token = hold_token, since = now, owner = hold_owner }
  write_hold(attempt, hold)
  bound_by(hold)
  if mode == 'write' then
    writes = writes + 1
    owner = hold_owner == '-' and attempt or hold_owner
    writer, fence = attempt, hold_token
  else
    reads = reads + 1
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
  local deadline, waiter_lease, mode, fair, limit, lease, waiter_owner, attempt =
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
  return { attempt = attempt, mode = mode, fair = fair, limit = tonumber(limit), lease = tonumber(lease),
    waiter_lease = waiter_lease, owner = waiter_owner, sequence = sequence }
end

-- How many processes heard it; nil when it cannot be known: no right to publish, or a cluster, which counts one node only.
local function tell(waiter, message)
  local channel = ${arg('channelPrefix')} .. string.match(waiter.attempt, '^[^.]*')
  local heard = redis.pcall('PUBLISH', channel, message)
  if type(heard) == 'table' then return nil, false end
  if ${arg('countReceivers')} ~= '1' then return nil, true end
  return heard, true
end

-- Grants to a waiter of another call; false when it must come and ask, because it cannot be told.
local function push_grant(waiter)
  local lease = math.min(waiter.lease, waiter.waiter_lease)
  local granted = int(next_token())
  local heard, published = tell(waiter, 'granted ' .. waiter.attempt .. ' ' .. granted .. ' ' .. int(now) .. ' ' .. int(lease))
  if not published then return false end
  leave_queue(waiter.attempt, waiter.sequence)
  if heard == 0 then
    redis.call('HDEL', ${lock}, 'id:' .. waiter.attempt)
  else
    token = tonumber(granted)
    grant(waiter.attempt, waiter.mode, lease, waiter.owner, granted)
  end
  return true
end

-- Tells a waiter to come and ask; false when nobody listens, and it leaves.
local function wake(waiter)
  if tell(waiter, 'wake ' .. waiter.attempt) ~= 0 then return true end
  leave_queue(waiter.attempt, waiter.sequence)
  redis.call('HDEL', ${lock}, 'id:' .. waiter.attempt)
  return false
end

-- Unfair waiters race: two of different processes are woken, because the first may be stopped. Nobody is woken whom the
-- lock would not admit: with a stopped one at the head, that would ask and be woken without end. False: all were dead.
local function wake_some()
  local woken, count, sequence, first = {}, 0, head, nil
  while sequence <= tail and sequence < head + 16 and count < 2 do
    local waiter = waiter_at(int(sequence))
    local process = waiter and string.match(waiter.attempt, '^[^.]*')
    local called = waiter and waiter.fair == '0' and not woken[process] and admits(waiter.mode, waiter.limit)
    if called and wake(waiter) then
      woken[process] = true
      count = count + 1
    end
    if waiter and not first and (not called or woken[process]) then first = sequence end
    sequence = sequence + 1
  end
  if count > 0 then head = first end
  return count > 0
end

-- The place of the waiter that was told to come and ask, or did, when it had its turn. Should it wait for another key,
-- then it is told again only after something was freed here: else two of them could wake each other without end.
local told = head

-- Serves the queue from its head as far as the lock admits. After 64 grants the next one is called to come and ask, and
-- its own script goes on: so each stays short.
-- True when the waiter \`me\` (who is calling) has its turn; it is for the caller to grant it.
local function hand_over(me)
  local news, served = freed, 0
  freed = false
  while head <= tail and served < 128 do
    local waiter = waiter_at(int(head))
    if waiter then
      if not admits(waiter.mode, waiter.limit) then break end
      if waiter.attempt == me then return true end
      if waiter.fair == '1' and served < 64 then
        if not push_grant(waiter) then break end
      elseif waiter.fair == '1' then
        if wake(waiter) then break end
      else
        if head == told and not news then break end
        local came = waiter.fair == '2' and wake(waiter) or waiter.fair == '0' and wake_some()
        if came then
          told = head
          break
        end
      end
      served = served + 1
    end
    head = head + 1
  end
  if head > tail then head, tail = 1, 0 end
  return false
end
`;
