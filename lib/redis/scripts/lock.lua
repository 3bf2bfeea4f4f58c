-- The functions that most operations need for the state of one lock.

-- The hold of an attempt, or false and its place in the queue.
function Lock.find(lock, attempt)
  if lock.slot and lock.slot.attempt == attempt then return lock.slot end
  local value = lock.told and redis.call('HGET', lock.key, attempt)
  if value and string.byte(value) < 48 then return lock:read(value) end
  return false, value
end

-- Ends expired holds, and finds the hold (`mine`) or the waiter of the attempt.
function Lock.begin(lock, attempt)
  local now = lock.now
  -- The holds are checked only if one may have ended, or if the clock has stepped back.
  if lock.writes + lock.reads > 0 and (now >= lock.due or now < lock.seen) then lock:sweep(attempt) end
  local place
  lock.mine, place = lock:find(attempt)
  if place then
    lock.waiter = lock:waiter_at(place)
    if lock.waiter then lock.place = place + 0 else lock.freed = true end
  end
  -- Once a second, it checks the next 64 places for waiters whose lease is over.
  if lock.waiting > 0 and math.abs(now - lock.swept) >= 1000 then
    if lock.cursor < lock.first or lock.cursor > lock.tail then lock.cursor = lock.first end
    local stop = math.min(lock.tail, lock.cursor + 63)
    for place = lock.cursor, stop do
      if not lock:waiter_at(place) and place == lock.first then lock.first = place + 1 end
    end
    lock.cursor, lock.swept, lock.changed, lock.head = stop + 1, now, true, math.max(lock.head, lock.first)
  end
  return lock
end

-- Serves the queue if something was freed, and saves the state in its shortest complete form. Redis keeps the key for the last
-- lease and `keep`, for jobs as long as they require, and for 30 days if an operator has set the permits.
function Lock.save(lock)
  if lock.freed then lock:serve() end
  if lock.ended ~= lock.r then lock:set('r', lock.ended) end
  local keep, flags, form, now = lock.terms.keep, 0, 'A', lock.now
  if lock.waiting == 0 then lock.first, lock.head, lock.tail, lock.cursor = 1, 1, 0, 0 end
  local holds, slot, need = lock.writes + lock.reads, lock.slot, math.max(lock.latest, now) + keep
  if lock.rare then
    local permits = lock.permits and string.format('%.0f', lock.permits)
    local values = { #lock.late > 7 and lock.late, permits, lock.revoked ~= '' and lock.revoked, lock.jobs ~= '' and lock.jobs }
    for i, field in ipairs({ 'late', 'permits', 'revoked', 'jobs' }) do
      if values[i] then flags = flags + 2 ^ i end
      if values[i] and values[i] ~= lock.rare[i] then lock:set(field, values[i]) end
      if not values[i] and lock.rare[i] then
        redis.call('HDEL', lock.key, field)
        lock.changed = true
      end
    end
    if permits then need = math.max(need, now + 2592000000) end
    for ms in string.gmatch(lock.jobs, '%S+ (%d+)') do need = math.max(need, tonumber(ms)) end
  end
  -- The time to live is set when it is too short, or far too long.
  local is_kept = lock.kept >= need and lock.kept <= need + 2 * keep
  if not is_kept then lock.kept = math.floor(need + keep / 2) end
  if not lock.changed and (is_kept or not lock.s) then return end
  if slot then form = lock.waiting > 0 and 'C' or 'B' end
  if flags > 0 or holds > (slot and 1 or 0) or slot and slot.token ~= lock.token or lock.waiting > 0 and not slot then form = 'D' end
  local value = form .. struct.pack('>I7I6', lock.token, lock.kept)
  if form == 'D' then
    value = value .. struct.pack(lock.COUNTS, flags, lock.writes, lock.reads, lock.taken, lock.due, lock.seen, lock.latest)
  end
  if form == 'C' or form == 'D' then
    value = value .. struct.pack(lock.QUEUE, lock.first, lock.head, lock.tail, lock.waiting, lock.cursor, lock.swept)
  end
  if slot then
    if form == 'D' then value = value .. struct.pack('>I7', slot.token) end
    value = value .. struct.pack(lock.SLOT, slot.deadline, slot.span, slot.mode, slot.take, slot.permits, slot.since) .. slot.attempt
  end
  -- First the time to live: without the permission to set it, no state that needs it is written, and no new key stays.
  if not is_kept then
    local ms = string.format('%.0f', lock.kept - now)
    if not lock.s or lock.terms.kind == 'a' and not lock.terms.is_here then lock:put('s', lock.s or 'A' .. struct.pack('>I7I6', 0, 0)) end
    if lock.s or not pcall(redis.call, 'PEXPIRE', lock.key, ms) then
      if not lock.s then redis.call('HDEL', lock.key, 's') end
      redis.call('PEXPIRE', lock.key, ms)
    end
  end
  lock:put('s', value, unpack(lock.sets))
  if lock.left then lock:keep_tokens() end
end

-- Writes fields, maybe as the first write of the script: all but new holds and waiters are also written on a server without memory.
function Lock.put(lock, ...)
  local may_grow = lock.terms.kind ~= 'a' or lock.terms.is_here
  local written = (may_grow and redis.pcall or redis.call)('HSET', lock.key, ...)
  if type(written) == 'table' then
    lock:begin_writes()
    redis.call('HSET', lock.key, ...)
  end
end

-- Sets a field of the hash in save().
function Lock.set(lock, field, value)
  local sets, n = lock.sets, #lock.sets
  sets[n + 1], sets[n + 2], lock.changed = field, value, true
end

function Lock.pack(lock, one)
  return struct.pack(lock.RECORD, one.deadline, one.span, one.lease or one.span, one.token, one.mode, one.fair or '1', one.take, one.permits,
    one.since, #one.attempt, one.attempt, #one.owner, one.owner) .. one.text
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

-- Extends a lease, and never shortens it.
function Lock.extend(lock, hold, lease)
  lock:count(hold, -1)
  hold.deadline = math.max(hold.deadline, lock.now + lease)
  hold.span = math.max(lease, hold.deadline - lock.now)
  lock:count(hold, 1)
  lock:write(hold)
end

-- Whether an attempt is in one of the lists `ended`, `revoked` and `late`, which have the last eight characters of each.
function Lock.has(lock, list, attempt)
  return string.find(lock[list], string.sub(attempt, -8), 1, true)
end

-- Puts an attempt into a ring, `ended` or `revoked`; seven fit.
function Lock.put_into(lock, ring, attempt)
  if lock:has(ring, attempt) then return end
  lock[ring] = string.sub(lock[ring] .. string.sub(attempt, -8) .. ';', #lock[ring] > 54 and 10 or 1)
end

-- Remembers an attempt that has ended; and if an acquire of it `may_come` and must then be refused, in `late`: with the time, and
-- before all others the time of the last entry that the full list has dropped.
function Lock.remember(lock, attempt, may_come)
  lock:put_into('ended', attempt)
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

-- How many subscribers the process of an attempt has at this server: nil if unknown, because a process listens to only one node of a
-- cluster; false without the permission to ask.
function Lock.listeners(lock, attempt)
  local process, counted = string.match(attempt, '^[^.]*'), lock.counted
  if lock.terms.count == '1' and counted[process] == nil then
    local reply = redis.pcall('PUBSUB', 'NUMSUB', lock.terms.prefix .. process)
    counted[process] = not reply.err and tonumber(reply[2])
  end
  return counted[process]
end

-- Whether a request, or a waiter, may share the lock with its holders. Permits that an operator has set apply to all.
function Lock.admits(lock, asked)
  local permits = lock.permits or asked.permits
  return lock.writes == 0 and (lock.reads == 0 or asked.mode == 'r'
    and (permits == 0 or lock.taken + asked.take <= permits))
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
    lock.slot = hold
    lock:set('by', hold.text)
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
-- continues, as each request does after 1,000 places. True when it is the turn of `me`, the attempt of this command.
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
      local message = string.format('granted %s %.0f %.0f %.0f', waiter.attempt, token, lock.now, lease)
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
  return false
end
