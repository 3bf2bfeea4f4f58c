-- Rarely needed functions: they are defined when the first of them is called.

-- Counts all holds again: ends those whose lease is over, and shortens leases that a step back of the clock has made too long.
function Lock.sweep(lock, attempt)
  local holds, now = lock:holds(), lock.now
  lock.writes, lock.reads, lock.taken, lock.due, lock.seen, lock.latest, lock.changed = 0, 0, 0, 0, 0, 0, true
  for _, hold in ipairs(holds) do
    if hold.deadline - now > hold.span then
      hold.deadline = now + hold.span
      if hold ~= lock.slot then lock:rewrite(hold.attempt, hold) end
    end
    if hold.deadline > now then
      lock:count(hold, 1)
    else
      lock:drop(hold)
      if hold.attempt == attempt then lock.has_expired = true end
    end
  end
end

-- All holds, as they were loaded. Records begin with a control character.
function Lock.holds(lock)
  local holds = { lock.slot or nil }
  local fields = lock.writes + lock.reads > #holds and redis.call('HGETALL', lock.key) or {}
  for i = 1, #fields, 2 do
    if string.find(fields[i], '.', 1, true) and string.byte(fields[i + 1]) < 48 then
      holds[#holds + 1] = lock:read(fields[i + 1])
    end
  end
  return holds
end

-- Without memory, Redis refuses HSET as the first write of a script, but not HDEL, nor the commands after it.
function Lock.begin_writes(lock)
  redis.call('HDEL', lock.key, '')
end

-- Overwrites an existing record.
function Lock.rewrite(lock, field, one)
  lock:begin_writes()
  redis.call('HSET', lock.key, field, lock:pack(one))
end

-- An owner enters with the greatest token that it got since it came: `owned:<owner>` has it when the hold with that token has ended
-- before others of this owner.
function Lock.keep_tokens(lock)
  local others = {}
  for _, hold in ipairs(lock:holds()) do
    if hold.token > 0 then others[hold.owner] = math.max(others[hold.owner] or 0, hold.token) end
  end
  for owner, token in pairs(lock.left) do
    if not others[owner] then
      redis.call('HDEL', lock.key, 'owned:' .. owner)
    elseif token > others[owner] then
      redis.call('HSET', lock.key, 'owned:' .. owner, string.format('%.0f', lock:token_kept(owner)))
    end
  end
end

function Lock.token_kept(lock, owner)
  return math.max(lock.left and lock.left[owner] or 0, tonumber(redis.call('HGET', lock.key, 'owned:' .. owner) or 0))
end

-- Whether `most` others wait, and the attempt has no place. Dead waiters do not count.
function Lock.is_full(lock, most)
  if lock.place or lock.waiting < most then return false end
  local live, place = 0, lock.tail
  while live < most and place >= lock.first and lock.tail - place < 2048 do
    if lock:waiter_at(place) then live = live + 1 end
    place = place - 1
  end
  return live == most
end

-- The reply to an attempt without this hold. Its last token is greater than that of the caller when another attempt was granted since.
function Lock.lost(lock, attempt, from)
  if lock.freed then lock:serve() end
  return { 'lost', attempt, lock.now, lock.token, (lock:has('revoked', attempt) or lock:has('revoked', from)) and 1 or 0 }
end

-- Makes a live hold of `from` that of this attempt, with the same token, owner and time of the grant, and extends its lease. Nothing that
-- `from` sends changes anything then. An attempt that was released adopts nothing: its caller has given up.
function Lock.adopt(lock, attempt, own, token)
  local from, lease, unanswered, text = string.match(own, '^(%S+) (%d+) (%d)\n(.*)$')
  local hold = lock.mine
  if not hold and not lock:has('ended', attempt) and not lock:has('late', attempt) then
    local record = redis.call('HGET', lock.key, from)
    hold = lock.slot and lock.slot.attempt == from and lock.slot or record and string.byte(record) < 48 and lock:read(record)
    if hold and hold.token == token and token > 0 then
      if hold == lock.slot then lock:set('by', text) else redis.call('HDEL', lock.key, from) end
      hold.attempt, hold.text = attempt, text
      lock:remember(from, unanswered == '1')
    end
  end
  if not hold or hold.token ~= token or token == 0 then return lock:lost(attempt, from) end
  lock:extend(hold, lease + 0)
  return { 'adopted', attempt, lock.now, hold.deadline - lock.now }
end

-- Replaces the token of a live hold by the one that a quorum has chosen for it, and makes the last token of the lock at least that, so
-- that each later grant of this node exceeds it. The lease stays as it is.
function Lock.write_back(lock, attempt, own, token)
  local hold, new_token = lock.mine, own + 0
  if not hold or hold.token == 0 or hold.token ~= token and hold.token ~= new_token then return lock:lost(attempt, attempt) end
  hold.token, lock.token = new_token, math.max(lock.token, new_token)
  lock:write(hold)
  return { 'written', attempt, lock.now }
end

-- Ends all holds that an operator has seen, including parked ones: the last token of the lock was `seen` then. The holders receive
-- `revoked <attempt>` before the next waiter receives its grant. The attempts are remembered as revoked, and as ended.
function Lock.revoke(lock, attempt, own)
  local seen, ended, live = own + 0, 0, {}
  if lock:has('revoked', attempt) then return { 'again', attempt, lock.now, 0 } end
  -- Before any message: a replica refuses it.
  lock:begin_writes()
  for _, hold in ipairs(lock:holds()) do
    -- A parked hold has no token: the time of its grant is compared. A re-entry is later than its token, which the last token makes up for.
    local granted = hold.token == 0 and math.min(hold.since * 1000, lock.token) or hold.token
    if granted <= seen then
      lock:count(hold, -1)
      lock:drop(hold)
      ended = ended + 1
      if hold.token > 0 then live[#live + 1] = hold.attempt end
    end
  end
  if lock.latest - lock.now > lock.terms.keep then lock:sweep() end
  table.sort(live)
  for _, one in ipairs(live) do
    lock:publish(one, 'revoked ' .. one)
    lock:remember(one, true, ':')
    lock:put_into('revoked', one)
  end
  if ended > 0 then
    lock.rare = lock.rare or {}
    lock:put_into('revoked', attempt)
  end
  return { 'revoked', attempt, lock.now, ended }
end

-- Sets how many permits the lock has, whatever its requests say (`-`: they say it again), and grants to the waiters that fit now. Nothing
-- is taken from those who hold it. A late copy of the command does not undo a later one.
function Lock.set_permits(lock, attempt, own)
  local permits = tonumber(own) or false
  if lock:has('revoked', attempt) then return { 'set', attempt, lock.now } end
  lock.rare = lock.rare or {}
  lock:put_into('revoked', attempt)
  if permits ~= lock.permits then
    -- A waiter that was passed over may fit now.
    lock.permits, lock.freed, lock.changed, lock.head = permits, true, true, lock.first
  end
  return { 'set', attempt, lock.now }
end

function Lock.operation(lock, kind)
  return kind == 'd' and lock.adopt or kind == 'w' and lock.write_back or kind == 'f' and lock.revoke or lock.set_permits
end
