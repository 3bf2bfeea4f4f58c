-- Holds that come and go, and the queue: what an acquire that only joins the queue does not need.

-- The record of a hold or of a waiter. `span` is how long it was granted, or may wait without
-- asking again. After it comes the text of the holder.
function Lock.read(_, value)
  local deadline, span, lease, token, mode, fair, take, permits, since, attempt, owner, position =
    struct.unpack('>I6I5I5I7c1c1I3I3I6I2c0I2c0', value)
  return { deadline = deadline, span = span, lease = lease, token = token, mode = mode, fair = fair, take = take,
    permits = permits, since = since, attempt = attempt, owner = owner, text = string.sub(value, position) }
end

-- The hold in the slot is written by save(), and its text is in `by`.
function Lock.write(lock, one)
  lock.changed = true
  if one ~= lock.slot then lock:set(one.attempt, lock:pack(one)) end
end

-- Removes a hold; its caller has counted it out.
function Lock.drop(lock, hold)
  lock.changed, lock.freed = true, true
  if hold.owner ~= '-' and hold.token > 0 then
    lock.left = lock.left or {}
    lock.left[hold.owner] = math.max(lock.left[hold.owner] or 0, hold.token)
  end
  if hold == lock.slot then lock.slot = false else redis.call('HDEL', lock.key, hold.attempt) end
end

-- Puts an attempt into a ring: seven fit into `ended`, and 32 into `revoked`, more than into `late`, whose attempts count as released. A
-- colon marks one whose release found no trace of it, or finds none.
function Lock.put_into(lock, ring, attempt, mark)
  if lock:has(ring, attempt) then return end
  lock[ring] = string.sub(lock[ring] .. string.sub(attempt, -8) .. (mark or ';'), #lock[ring] > (ring == 'ended' and 54 or 279) and 10 or 1)
end

-- Remembers an attempt that has ended; and if an acquire of it `may_come` and must then be refused, in `late`: with the time, and
-- before all others the time of the last entry that the full list has dropped.
function Lock.remember(lock, attempt, may_come, mark)
  lock:put_into('ended', attempt, mark)
  if not may_come or lock:has('late', attempt) then return end
  lock.rare = lock.rare or {}
  lock.late = (lock.late == '' and struct.pack('>I7', 0) or lock.late) .. string.sub(attempt, -8) .. struct.pack('>I7', lock.micros)
  if #lock.late > 7 + 16 * 15 then lock.late = string.sub(lock.late, 16) end
end

-- The waiter at a place; false without one. A waiter whose lease is over leaves the queue.
function Lock.waiter_at(lock, place)
  local field = 'q' .. place
  local value = redis.call('HGET', lock.key, field)
  if not value then return false end
  local waiter = lock:read(value)
  waiter.field = field
  if waiter.deadline - lock.now > waiter.span then
    waiter.deadline = lock.now + waiter.span
    lock:rewrite(waiter.field, waiter)
  end
  if waiter.deadline > lock.now then return waiter end
  lock:leave(waiter)
  return false
end

function Lock.leave(lock, waiter)
  redis.call('HDEL', lock.key, waiter.field, waiter.attempt)
  lock.waiting, lock.changed = lock.waiting - 1, true
end

-- Publishes a message to the process of an attempt; returns the number of receivers, or false without the permission to publish.
function Lock.publish(lock, attempt, message)
  local heard = redis.pcall('PUBLISH', lock.terms.prefix .. string.match(attempt, '^[^.]*'), message)
  return type(heard) == 'number' and heard
end

-- The next token. Tokens always rise, and come from the clock again if the hash was lost. The process of a writer may have given
-- the 63 tokens after that of its grant to its own callers. Readers hand nothing on: with a reader, the last grant was a reader's.
function Lock.next_token(lock)
  return math.max(lock.token + (lock.reads > 0 and 1 or 64), lock.micros)
end

-- Makes a hold of a waiter, or of the same fields of a request. A hold without an owner takes the slot, if it is free.
function Lock.grant(lock, hold, lease, token)
  hold.deadline, hold.span, hold.token, hold.since = lock.now + lease, lease, token, lock.now
  if token > lock.token then lock.token = token end
  lock:count(hold, 1)
  if not lock.slot and hold.owner == '-' then
    lock.slot, lock.changed = hold, true
    if hold.text == '' or hold.text ~= lock.by then lock:set('by', hold.text) end
  else
    lock:write(hold)
  end
  -- Marks the presence of the owner.
  if hold.owner ~= '-' then lock:set('owned:' .. hold.owner, string.format('%.0f', lock:token_kept(hold.owner))) end
end

-- Serves the queue from its head as far as the lock admits. Behind a writer, no waiter is read: none is granted, and none is refused
-- unless an operator has set the permits. A grant is sent with its message, and lasts no longer than the lease of
-- the waiter, until the first renewal claims it. A message cannot be taken back, so listeners are counted before: a waiter without
-- a listener is passed over, and is first again when it asks. After 64 grants the next waiter is woken to ask, and its own script
-- continues, as each request does after 1,000 places: its reply asks for another one at once. True when it is the turn of `me`, the
-- attempt of this command.
function Lock.serve(lock, me)
  local has_news, grants, last = lock.freed, 0, lock.head + 999
  lock.freed = false
  while lock.head <= lock.tail and lock.head <= last and not (grants > 0 and lock.writes > 0 and not lock.permits) do
    local waiter, is_passed_over = lock:waiter_at(lock.head), false
    -- A waiter that takes more permits than exist is refused when it asks.
    local exceeds = waiter and waiter.mode == 'r' and lock.permits and waiter.take > lock.permits
    if waiter and not exceeds and not lock:admits(waiter) then return false end
    if waiter and waiter.attempt == me then return true end
    local heard = waiter and not exceeds and waiter.fair == '1' and grants < 64 and lock:listeners(waiter.attempt)
    if heard == nil or heard and heard > 0 then
      local token, lease = lock:next_token(), math.min(waiter.lease, waiter.span)
      local message = string.format('granted %s %.0f %.0f %.0f', waiter.attempt, token, math.floor(token / 1000) - lock.now, lease)
      -- The removal goes first: it needs no memory, and the later writes may then use some. A replica refuses it, before any
      -- message is sent.
      lock:leave(waiter)
      if not lock:publish(waiter.attempt, message) then
        lock.waiting = lock.waiting + 1
        redis.call('HSET', lock.key, waiter.field, lock:pack(waiter), waiter.attempt, lock.head)
        return false
      end
      lock:grant(waiter, lease, token)
      grants = grants + 1
    elseif waiter then
      -- A waiter that also waits for another key is woken again only after something was freed: two could wake each other endlessly.
      if not exceeds and waiter.fair ~= '1' and lock.head == lock.told and not has_news then return false end
      local woken, count, place, next_head = {}, 0, lock.head, nil
      lock.changed, is_passed_over = true, true
      -- Racers are woken in pairs, of different processes, because the first may be stopped. A racer that the lock does not admit is not
      -- woken: it would be woken endlessly.
      local stop = waiter.fair == '0' and not exceeds and math.min(lock.tail, lock.head + 15) or lock.head
      while place <= stop and count < 2 do
        local one = place == lock.head and waiter or lock:waiter_at(place)
        local process = one and string.match(one.attempt, '^[^.]*')
        local may_ask = one and (place == lock.head or one.fair == '0' and not woken[process] and lock:admits(one))
        if may_ask and (lock:publish(one.attempt, 'wake ' .. one.attempt) ~= 0 or lock.terms.count == '0') then
          woken[process], count = true, count + 1
        end
        if one and not next_head and (not may_ask or woken[process]) then next_head = place end
        place = place + 1
      end
      if count > 0 and not exceeds then
        lock.head = next_head
        return false
      end
      lock.head = math.max(lock.head, (next_head or place) - 1)
    end
    if lock.head == lock.first and not is_passed_over then lock.first = lock.first + 1 end
    lock.head, lock.changed = lock.head + 1, true
  end
  lock.has_more = lock.head > last and lock.head <= lock.tail
  return false
end
