-- What the script `operate` does with locks: it follows the fragment `lock`.

-- Acquires one lock or several, all or none. Of several, it waits at each up to the first that is busy, without holding any. All
-- calls name their keys in the same order, so no two wait for each other. All locks are checked before anything is granted.
function Lock.acquire(locks, asked, attempt, own)
  local refused, why, busy, fire, ms, age, remember = nil, nil, nil, nil, nil, nil, nil
  asked.attempt, asked.sent, asked.until_micros = attempt, ARGV[1] + 0, ARGV[2] + 0
  asked.mode, asked.fair, asked.lease, asked.span, asked.most, asked.permits, asked.take, asked.text, asked.owner, fire =
    string.match(own, '^(%a) (%d) (%d+) (%d+) (%d+) (%d+) (%d+)\n([^\n]*)\n([^\n]*)\n(.*)$')
  for _, name in ipairs({ 'lease', 'span', 'most', 'permits', 'take' }) do asked[name] = asked[name] + 0 end
  if fire ~= '' then
    asked.job, asked.fire_kind, ms, age, remember, asked.rerun = string.match(fire, '^(%S+) (%a+) (%d+) (%d+) (%d+) (%d)$')
    asked.fire_ms, asked.fire_age, asked.remember = ms + 0, age + 0, remember + 0
  end
  local is_claimed = asked.job and locks[1]:is_claimed(asked)
  for _, lock in ipairs(locks) do asked.is_here = asked.is_here or lock.mine or lock.place end
  for _, lock in ipairs(locks) do
    local mine, reason, owned, writes = lock.mine, nil, nil, false
    if mine and mine.token > 0 then
      lock.stands = 'held'
    elseif mine or lock:has('ended', attempt) or lock:has('late', attempt) then
      reason = 'released'
    elseif not asked.is_here and (asked.sent > lock.micros or asked.sent <= lock.floor or lock.micros > asked.until_micros) then
      -- Sent too long ago, or by the time of the floor, or in the future: its caller may be gone by now. The client sends the latest
      -- time of this server that has certainly passed.
      reason = 'late'
    else
      -- The id of a hold is no owner: its process may hand the hold on.
      if asked.owner ~= '-' and redis.call('HGET', lock.key, 'owned:' .. asked.owner) then
        for _, hold in ipairs(lock:holds()) do
          local is_own = hold.owner == asked.owner
          if is_own and hold.token > 0 then owned, writes = math.max(owned or 0, hold.token), writes or hold.mode == 'w' end
        end
        owned = owned and math.max(owned, lock:token_kept(asked.owner))
      end
      if not writes and asked.mode == 'r' and lock.permits and asked.take > lock.permits then reason = 'permits' end
      if not writes and owned and asked.mode == 'w' then reason = 'upgrade' end
      if not reason and is_claimed then reason = 'claimed' end
      -- An owner that holds the lock enters with the token that it has, past the queue.
      if writes or owned and lock:admits(asked) then lock.stands, lock.owned = 'entering', owned end
    end
    if reason and not refused then refused, why = lock, reason end
  end
  for _, lock in ipairs(locks) do
    if not refused and not lock.stands then
      -- A fair request first serves those ahead of it; it may have been passed over.
      if asked.fair == '1' and lock.place and lock.place < lock.head then lock.head, lock.changed = lock.place, true end
      local is_turn = asked.fair == '1' and not lock:is_written() and lock:serve(attempt)
      if not is_turn and (asked.fair ~= '1' or lock.head > lock.tail) then is_turn = lock:admits(asked) end
      if not is_turn then busy = busy or lock end
    end
  end
  -- Who is not let in at the busy one waits nowhere.
  local is_full = busy and asked.span > 0 and busy:is_full(asked.most)
  local is_past, least, tokens, fair = is_full, math.huge, {}, asked.fair == '1' and (#locks > 1 or asked.job) and '2' or asked.fair
  for _, lock in ipairs(locks) do
    if busy and not is_past then
      -- Before it joins: what it writes is not read again in the same script.
      if asked.fair ~= '1' or lock.freed then lock:serve(attempt) end
      if asked.span > 0 and (lock.place or not lock.stands) then lock:join(asked, fair) end
      is_past = lock == busy
    elseif lock.stands == 'held' and not refused and not busy then
      lock:extend(lock.mine, asked.lease)
    else
      -- A place holds back those behind it, and one of them may hold what this attempt waits for.
      if lock.place then
        lock:leave(lock.waiter)
        lock.place, lock.freed = false, true
      end
      if not refused and not busy then
        lock.mine = lock:grant(asked, asked.lease, lock.owned or lock:next_token())
        if asked.job then lock:record_run(asked) end
        if lock.waiting > 0 then lock:serve() end
      end
    end
    if not refused and not busy then
      least = math.min(least, lock.mine.deadline - lock.now)
      tokens[#tokens + 1] = lock.mine.token
    end
  end
  -- Before the reply: holds() reads what is saved.
  for _, lock in ipairs(locks) do lock:save() end
  local one, reply = refused or busy or locks[1], nil
  if refused then
    local details = { late = one.micros, permits = one.permits, claimed = asked.is_open and asked.run_attempt }
    reply = { 'refused', attempt, one.now, why, details[why] or '' }
  elseif busy then
    local owner, text = '', ''
    -- A hold that is not in the slot is not looked for among very many waiters: each of them would have all read again and again.
    local is_small = one.slot or one.waiting <= 64
    for _, hold in ipairs(one.writes > 0 and is_small and one:holds() or {}) do
      if hold.mode == 'w' and hold.token > 0 then
        owner = hold.owner == '-' and hold.attempt or hold.owner
        text = hold.text or redis.call('HGET', one.key, 'by') or ''
      end
    end
    reply = { 'busy', attempt, one.now, one.writes + one.reads > 0 and one.due - one.now or 0,
      one.place and math.max(one.place - one.head, 0) or 0, text, owner, one:listeners(attempt) or '', one.token,
      is_full and 1 or '', one.permits or '' }
  else
    fire = asked.job and asked.run_attempt == attempt and asked.run_fire or ''
    reply = { 'granted', attempt, one.now, least, one.writes + one.reads, fire, unpack(tokens) }
  end
  return reply
end

-- Whether `most` others wait, and the attempt has no place. Dead ones do not count.
function Lock.is_full(lock, most)
  if most == 0 or lock.place or lock.waiting < most then return false end
  local live, place = 0, lock.tail
  while live < most and place >= lock.first and lock.tail - place < 2048 do
    if lock:waiter_at(place) then live = live + 1 end
    place = place - 1
  end
  return live == most
end

-- Joins the queue, or keeps the place there. With `fair` 2 it is told to ask in its turn, instead of being granted: it needs other
-- keys, too, or a fire, which is checked again then.
function Lock.join(lock, asked, fair)
  local since = lock.waiter and lock.waiter.since or lock.now
  if not lock.place then
    lock.tail, lock.waiting = lock.tail + 1, lock.waiting + 1
    lock.place = lock.tail
    lock:set(asked.attempt, '' .. lock.place)
  end
  lock:write({ field = 'q' .. lock.place, deadline = lock.now + asked.span, span = asked.span, lease = asked.lease, token = 0,
    mode = asked.mode, fair = fair, take = asked.take, permits = asked.permits, since = since, attempt = asked.attempt,
    owner = asked.owner, text = asked.text })
end

-- Ends the hold of an attempt, or removes it from the queue. The attempt is remembered, so that this may be sent twice, and an acquire
-- that comes late is refused. A hold that has to last until `at_least` is parked: it stays with token 0 and ends with its lease.
function Lock.release(lock, attempt, own)
  local unanswered, at_least, job, run_outcome = string.match(own, '^(%d) (%d+) (%S+) (%S+)$')
  local outcome, hold, place, was_first = 'unknown', lock.mine, lock.place, lock.place and lock.place <= lock.head
  local is_late = lock:has('late', attempt)
  -- A hold or a place comes before what is known of ended attempts: another one may have the same last characters.
  if hold and hold.token > 0 then
    outcome = 'released'
    lock:count(hold, -1)
    lock:drop(hold)
    lock:narrow()
    hold.deadline = math.min(hold.since, lock.now) + at_least
    if hold.deadline > lock.now then
      hold.span, hold.token, hold.text = hold.deadline - lock.now, 0, ''
      lock:count(hold, 1)
      lock:write(hold)
    end
  elseif place then
    outcome = 'cancelled'
    lock:leave(lock.waiter)
  elseif lock:has('revoked', attempt) then
    outcome = 'revoked'
  elseif hold or is_late or lock:has('ended', attempt) then
    outcome = 'again'
  elseif lock.has_expired then
    outcome = 'expired'
  end
  -- A run that never began leaves no fire behind, even when its lease is over.
  if job ~= '-' and (outcome == 'released' or run_outcome == 'void') then lock:end_run(attempt, job, run_outcome) end
  lock:remember(attempt, unanswered == '1' and not is_late)
  if lock.waiting > 0 then
    lock:serve()
    -- The first waiter must learn when the lease of the holder may end: no message tells it that a holder has died.
    local waiter = outcome == 'cancelled' and was_first and lock.head <= lock.tail and lock:waiter_at(lock.head)
    if waiter then lock:publish(waiter.attempt, 'wake ' .. waiter.attempt) end
  end
  return { outcome, attempt, lock.now, lock.writes + lock.reads, lock.token }
end

-- The reply to an attempt that has no such hold. Its last token is greater than that of the caller when another attempt was granted since.
function Lock.lost(lock, attempt, from)
  if lock.freed then lock:serve() end
  return { 'lost', attempt, lock.now, lock.token, (lock:has('revoked', attempt) or lock:has('revoked', from)) and 1 or 0 }
end

-- Gives a live hold its full lease again, and the text of its present holder if the process has handed it on. A write hold that its
-- client has downgraded becomes a read hold, with the same token: the readers who enter now need greater tokens than any that its
-- process may have handed on (see next_token).
function Lock.renew(lock, attempt, own, token)
  local hold, mode, lease, text = lock.mine, string.match(own, '^(%a) (%d+)\n?([^\n]*)$')
  if not hold or hold.token == 0 or hold.token ~= token then return lock:lost(attempt, attempt) end
  if mode == 'r' and hold.mode == 'w' then
    lock:count(hold, -1)
    hold.mode = 'r'
    lock:count(hold, 1)
    lock.token, lock.freed = math.max(lock.token, hold.token + 63), true
  end
  if text ~= '' then
    hold.text = text
    if hold == lock.slot then lock:set('by', text) end
  end
  lock:extend(hold, lease + 0)
  return { 'renewed', attempt, lock.now, hold.deadline - lock.now }
end

-- Makes a live hold of `from` that of this attempt, with the same token, owner and time of the grant, and extends its lease. Nothing that
-- `from` sends changes anything then. An attempt that was released adopts nothing: its caller has given up.
function Lock.adopt(lock, attempt, own, token)
  local from, lease, unanswered, text = string.match(own, '^(%S+) (%d+) (%d)\n(.*)$')
  local hold = lock.mine
  if not hold and not lock:has('ended', attempt) and not lock:has('late', attempt) then
    hold = lock:find(from)
    if hold and hold.token == token and token > 0 then
      if hold == lock.slot then lock:set('by', text) else redis.call('HDEL', lock.key, from) end
      hold.attempt, hold.field, hold.text = attempt, attempt, text
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
  lock:narrow()
  table.sort(live)
  for _, one in ipairs(live) do
    lock:publish(one, 'revoked ' .. one)
    lock:remember(one, true)
    lock:put_into('revoked', one)
  end
  if ended > 0 then
    lock.rare = lock.rare or {}
    lock:put_into('revoked', attempt)
  end
  return { 'revoked', attempt, lock.now, ended }
end

-- Sets how many permits the lock has, whatever its requests say (`-`: they say it again), and grants to the waiters that fit now. Nothing
-- is taken from those who hold it.
function Lock.set_permits(lock, attempt, own)
  local permits = tonumber(own) or false
  if permits ~= lock.permits then
    -- A waiter that was passed over may fit now.
    lock.permits, lock.rare, lock.freed, lock.changed, lock.head = permits, lock.rare or {}, true, true, lock.first
  end
  return { 'set', attempt, lock.now }
end

Lock.OPERATIONS = { r = Lock.release, n = Lock.renew, d = Lock.adopt, w = Lock.write_back, f = Lock.revoke, p = Lock.set_permits }

-- Does one operation, which has these terms.
function Lock.run(Lock, text, first, last, attempt, token, state)
  local kind, keep, count, prefix, own = string.match(text, '^(%a) (%d+) (%d) ([^\n]*)\n(.*)$')
  local terms, locks = { kind = kind, keep = keep + 0, count = count, prefix = prefix }, {}
  for i = first, last do locks[#locks + 1] = Lock:load(KEYS[i], terms, state) end
  for _, lock in ipairs(locks) do lock:begin(attempt) end
  if kind == 'a' then return Lock.acquire(locks, terms, attempt, own) end
  local reply = Lock.OPERATIONS[kind](locks[1], attempt, own, tonumber(token))
  locks[1]:save()
  return reply
end
