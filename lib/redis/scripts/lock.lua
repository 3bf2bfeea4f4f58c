-- The functions that each operation needs for the state of one lock.

-- Ends expired holds, and finds the hold (`mine`) or the waiter of the attempt.
function Lock.begin(lock, attempt)
  local now = lock.now
  -- The holds are checked only if one may have ended, or if the clock has stepped back.
  if lock.writes + lock.reads > 0 and (now >= lock.due or now < lock.seen) then lock:sweep(attempt) end
  if lock.slot and lock.slot.attempt == attempt then
    lock.mine = lock.slot
  elseif lock.told then
    local value = redis.call('HGET', lock.key, attempt)
    if value and string.byte(value) < 48 then
      lock.mine = lock:read(value)
    elseif value then
      lock.waiter = lock:waiter_at(value)
      if lock.waiter then lock.place = value + 0 else lock.freed = true end
    end
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
end

-- Serves the queue if something was freed, and saves the state in its shortest complete form. Redis keeps the key for the last
-- lease and `keep`, for jobs as long as they require, and for 30 days if an operator has set the permits.
function Lock.save(lock)
  if lock.freed then lock:serve() end
  if lock.ended ~= lock.r then lock:set('r', lock.ended) end
  local keep, flags, form, now, slot, waiting, kept = lock.terms.keep, 0, 'A', lock.now, lock.slot, lock.waiting, lock.kept
  if waiting == 0 then lock.first, lock.head, lock.tail, lock.cursor = 1, 1, 0, 0 end
  local holds, need = lock.writes + lock.reads, math.max(lock.latest, now) + keep
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
  local is_kept = kept >= need and kept <= need + 2 * keep
  if not is_kept then kept = math.floor(need + keep / 2) end
  if not lock.changed and (is_kept or not lock.s) then return end
  if slot then form = waiting > 0 and 'C' or 'B' end
  if flags > 0 or holds > (slot and 1 or 0) or slot and slot.token ~= lock.token or waiting > 0 and not slot then form = 'D' end
  local counts = form == 'D'
    and struct.pack('>BI3I3I4I6I6I6', flags, lock.writes, lock.reads, lock.taken, lock.due, lock.seen, lock.latest) or ''
  local queue = (form == 'C' or form == 'D')
    and struct.pack('>I5I5I5I5I5I6', lock.first, lock.head, lock.tail, waiting, lock.cursor, lock.swept) or ''
  local its_token = form == 'D' and slot and struct.pack('>I7', slot.token) or ''
  local held = slot and struct.pack('>I6I5c1I3I3I6', slot.deadline, slot.span, slot.mode, slot.take, slot.permits, slot.since) or ''
  -- All but new holds and waiters are also written on a server without memory, which refuses HSET as the first write of a script.
  local may_grow = lock.terms.is_here
  -- First the time to live: without the permission to set it, no state that needs it is written, and no new key stays.
  if not is_kept then
    local ms = string.format('%.0f', kept - now)
    if may_grow and not lock.s then redis.call('HDEL', lock.key, '') end
    if not lock.s or not may_grow then redis.call('HSET', lock.key, 's', lock.s or 'A' .. struct.pack('>I7I6', 0, 0)) end
    if lock.s or not pcall(redis.call, 'PEXPIRE', lock.key, ms) then
      if not lock.s then redis.call('HDEL', lock.key, 's') end
      redis.call('PEXPIRE', lock.key, ms)
    end
  end
  lock.sets[4] = form .. struct.pack('>I7I6', lock.token, kept) .. counts .. queue .. its_token .. held .. (slot and slot.attempt or '')
  local written = (may_grow and redis.pcall or redis.call)(unpack(lock.sets))
  if type(written) == 'table' then
    redis.call('HDEL', lock.key, '')
    redis.call(unpack(lock.sets))
  end
  if lock.left then lock:keep_tokens() end
end

-- Sets a field of the hash in save().
function Lock.set(lock, field, value)
  local sets, n = lock.sets, #lock.sets
  sets[n + 1], sets[n + 2], lock.changed = field, value, true
end

function Lock.pack(_, one)
  return struct.pack('>I6I5I5I7c1c1I3I3I6I2c0I2c0', one.deadline, one.span, one.lease or one.span, one.token or 0, one.mode, one.fair or '1',
    one.take, one.permits, one.since, #one.attempt, one.attempt, #one.owner, one.owner) .. one.text
end

-- Whether an attempt is in one of the lists `ended`, `revoked` and `late`, which have the last eight characters of each.
function Lock.has(lock, list, attempt)
  return string.find(lock[list], string.sub(attempt, -8), 1, true)
end

-- How many subscribers the process of an attempt has at this server: nil if unknown, because a process listens to only one node of a
-- cluster; false without the permission to ask.
function Lock.listeners(lock, attempt)
  if lock.terms.count ~= '1' then return nil end
  local reply = redis.pcall('PUBSUB', 'NUMSUB', lock.terms.prefix .. string.match(attempt, '^[^.]*'))
  return not reply.err and reply[2]
end

-- Whether a request, or a waiter, may share the lock with its holders. Permits that an operator has set apply to all.
function Lock.admits(lock, asked)
  local permits = lock.permits or asked.permits
  return lock.writes == 0 and (lock.reads == 0 or asked.mode == 'r'
    and (permits == 0 or lock.taken + asked.take <= permits))
end
