-- The operations of the script `operate`.

-- Acquires one lock or several, all or none. Of several, it waits at each up to the first that is busy, without holding any. All
-- calls name their keys in the same order, so no two wait for each other. All locks are checked before anything is granted.
function Lock.acquire(locks, asked)
  local attempt, fair, refused, why, busy = asked.attempt, asked.fair, nil, nil, nil
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
      -- The id of a hold is not an owner: its process may hand the hold on.
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
      -- An owner that holds the lock enters with its token, past the queue.
      if writes or owned and lock:admits(asked) then lock.stands, lock.owned = 'entering', owned end
    end
    if reason and not refused then refused, why = lock, reason end
  end
  for _, lock in ipairs(locks) do
    if not refused and not lock.stands then
      -- A fair request first serves those ahead of it; it may have been passed over.
      if fair == '1' and lock.place and lock.place < lock.head then lock.head, lock.changed = lock.place, true end
      local is_turn = fair == '1' and not (lock.writes > 0 and not lock.permits) and lock:serve(attempt)
      if not is_turn and (fair ~= '1' or lock.head > lock.tail) then is_turn = lock:admits(asked) end
      if not is_turn then busy = busy or lock end
    end
  end
  -- An attempt that may not join the queue of the busy lock waits nowhere.
  local is_full = busy and asked.span > 0 and asked.most > 0 and busy:is_full(asked.most)
  local is_past, least, tokens = is_full, math.huge, {}
  if fair == '1' and (#locks > 1 or asked.job) then asked.fair = '2' end
  for _, lock in ipairs(locks) do
    if busy and not is_past then
      -- Before it joins: its writes are not read again in the same script.
      if fair ~= '1' or lock.freed then lock:serve(attempt) end
      if asked.span > 0 and (lock.place or not lock.stands) then
        -- It joins the queue, or keeps its place there. With `fair` 2 it is woken to ask in its turn, instead of being granted: it also
        -- needs other keys, or a fire, which is checked again then.
        asked.deadline, asked.since = lock.now + asked.span, lock.waiter and lock.waiter.since or lock.now
        if not lock.place then
          lock.tail, lock.waiting = lock.tail + 1, lock.waiting + 1
          lock.place = lock.tail
          lock:set(attempt, tostring(lock.place))
        end
        lock:set('q' .. lock.place, lock:pack(asked))
      end
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
        lock.mine = { attempt = attempt, owner = asked.owner, mode = asked.mode, take = asked.take, permits = asked.permits, text = asked.text,
          deadline = 0, span = 0, token = 0, since = 0 }
        lock:grant(lock.mine, asked.lease, lock.owned or lock:next_token())
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
    -- A hold outside the slot is not searched for among very many waiters: each of them would read all of them repeatedly.
    local holds = one.slot and { one.slot } or one.writes > 0 and one.waiting <= 64 and one:holds() or {}
    for _, hold in ipairs(holds) do
      if hold.mode == 'w' and hold.token > 0 then
        owner = hold.owner == '-' and hold.attempt or hold.owner
        text = hold.text or redis.call('HGET', one.key, 'by') or ''
      end
    end
    reply = { 'busy', attempt, one.now, one.writes + one.reads > 0 and one.due - one.now or 0,
      one.place and math.max(one.place - one.head, 0) or 0, text, owner, one:listeners(attempt) or '', one.token,
      is_full and 1 or '', one.permits or '' }
  else
    local fire = asked.job and asked.run_attempt == attempt and asked.run_fire or ''
    reply = { 'granted', attempt, one.now, least, one.writes + one.reads, fire, unpack(tokens) }
  end
  return reply
end

-- Ends the hold of an attempt, or removes it from the queue. The attempt is remembered, so this may be sent twice, and a late acquire
-- is refused. A hold that has to last until `at_least` is parked: it stays with token 0 and ends with its lease.
function Lock.release(lock, attempt, own)
  local unanswered, at_least, job, run_outcome = string.match(own, '^(%d) (%d+) (%S+) (%S+)$')
  local outcome, hold, place, was_first = 'unknown', lock.mine, lock.place, lock.place and lock.place <= lock.head
  local is_late = lock:has('late', attempt)
  -- A hold or a place has priority over the lists of ended attempts: another attempt may have the same last characters.
  if hold and hold.token > 0 then
    outcome = 'released'
    lock:count(hold, -1)
    lock:drop(hold)
    -- The key is not kept for the long lease of an ended hold. Fields for save() are not counted, so this comes first.
    if lock.latest - lock.now > lock.terms.keep then lock:sweep() end
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
  -- A run that never began leaves no fire, even after its lease.
  if job ~= '-' and (outcome == 'released' or run_outcome == 'void') then lock:end_run(attempt, job, run_outcome) end
  lock:remember(attempt, unanswered == '1' and not is_late)
  if lock.waiting > 0 then
    lock:serve()
    -- The first waiter must learn when the lease of the holder may end: no message reports the death of a holder.
    local waiter = outcome == 'cancelled' and was_first and lock.head <= lock.tail and lock:waiter_at(lock.head)
    if waiter then lock:publish(waiter.attempt, 'wake ' .. waiter.attempt) end
  end
  return { outcome, attempt, lock.now, lock.writes + lock.reads, lock.token }
end

-- Gives a live hold its full lease again, and the text of its present holder if the process has handed it on. A write hold that its
-- client has downgraded becomes a read hold, with the same token: readers that enter now need greater tokens than any that its
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

-- Executes one operation with these terms.
function Lock.run(Lock, text, first, last, attempt, token, state)
  local kind, keep, count, prefix, at = string.match(text, '^(%a) (%d+) (%d) ([^\n]*)\n()')
  local terms, locks = nil, {}
  if kind ~= 'a' then
    terms = { kind = kind, keep = keep + 0, count = count, prefix = prefix, is_here = false }
  else
    local mode, fair, lease, span, most, permits, take, holder, owner, fire =
      string.match(text, '^(%a) (%d) (%d+) (%d+) (%d+) (%d+) (%d+)\n([^\n]*)\n([^\n]*)\n(.*)$', at)
    terms = { kind = kind, keep = keep + 0, count = count, prefix = prefix, is_here = false, attempt = attempt, sent = ARGV[1] + 0,
      until_micros = ARGV[2] + 0, mode = mode, fair = fair, lease = lease + 0, span = span + 0, most = most + 0, permits = permits + 0,
      take = take + 0, text = holder, owner = owner, token = 0, deadline = 0, since = 0, job = false }
    if fire ~= '' then Lock.read_claim(terms, fire) end
  end
  for i = first, last do locks[#locks + 1] = Lock:load(KEYS[i], terms, state) end
  for _, lock in ipairs(locks) do lock:begin(attempt) end
  if kind == 'a' then return Lock.acquire(locks, terms) end
  local operation = kind == 'r' and Lock.release or kind == 'n' and Lock.renew or Lock.OPERATIONS[kind]
  local reply = operation(locks[1], attempt, string.sub(text, at), tonumber(token))
  locks[1]:save()
  return reply
end
