-- What the script `operate` does with locks: it follows the fragment `lock`.

-- Acquires one lock or several, all or none. Of several, it waits at each up to the first that is busy, without holding any. All
-- calls name their keys in the same order, so no two wait for each other. All locks are checked before anything is granted.
function Lock.acquire(locks, asked)
  local attempt, refused, why, busy = asked.attempt, nil, nil, nil
  local is_claimed = asked.job and locks[1]:is_claimed(asked)
  for _, lock in ipairs(locks) do asked.is_here = asked.is_here or lock.mine or lock.place end
  for _, lock in ipairs(locks) do
    local mine, id, reason, owned, writes = lock.mine, string.sub(attempt, -8), nil, nil, false
    if mine and mine.token > 0 then
      lock.stands = 'held'
    elseif mine or string.find(lock.ended, id, 1, true) or string.find(lock.late, id, 1, true) then
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
    local fire = asked.job and asked.run_attempt == attempt and asked.run_fire or ''
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
-- that comes late is refused. A hold that has to last until `hold_at_least` is parked: it stays with token 0 and ends with its lease.
function Lock.release(lock, attempt, terms)
  local outcome, hold, place, id = 'unknown', lock.mine, lock.place, string.sub(attempt, -8)
  local was_first, is_late = place and place <= lock.head, string.find(lock.late, id, 1, true)
  -- A hold or a place comes before what is known of ended attempts: another one may have the same last characters.
  if hold and hold.token > 0 then
    outcome = 'released'
    lock:count(hold, -1)
    lock:drop(hold)
    lock:narrow()
    hold.deadline = math.min(hold.since, lock.now) + terms.hold_at_least
    if hold.deadline > lock.now then
      hold.span, hold.token, hold.text = hold.deadline - lock.now, 0, ''
      lock:count(hold, 1)
      lock:write(hold)
    end
  elseif place then
    outcome = 'cancelled'
    lock:leave(lock.waiter)
  elseif string.find(lock.revoked, id, 1, true) then
    outcome = 'revoked'
  elseif hold or is_late or string.find(lock.ended, id, 1, true) then
    outcome = 'again'
  elseif lock.has_expired then
    outcome = 'expired'
  end
  -- A run that never began leaves no fire behind, even when its lease is over.
  if terms.job and (outcome == 'released' or terms.outcome == 'void') then lock:end_run(attempt, terms.job, terms.outcome) end
  lock:remember(id, terms.unanswered == '1' and not is_late)
  if lock.waiting > 0 then
    lock:serve()
    -- The first waiter must learn when the lease of the holder may end: no message tells it that a holder has died.
    local waiter = outcome == 'cancelled' and was_first and lock.head <= lock.tail and lock:waiter_at(lock.head)
    if waiter then lock:publish(waiter.attempt, 'wake ' .. waiter.attempt) end
  end
  lock:save()
  return { outcome, attempt, lock.now, lock.writes + lock.reads, lock.token }
end

-- Gives a live hold its full lease again, and the text of its present holder if the process has handed it on. A write hold that its client has downgraded becomes a read hold, with the same token: the readers
-- who enter now need greater tokens than any that its process may have handed on (see next_token). The last token in the reply `lost` is
-- greater than that of the caller when another attempt was granted since.
function Lock.renew(lock, attempt, terms, token)
  local hold = lock.mine
  if hold and hold.token > 0 and hold.token == tonumber(token) then
    if terms.mode == 'r' and hold.mode == 'w' then
      lock:count(hold, -1)
      hold.mode = 'r'
      lock:count(hold, 1)
      lock.token, lock.freed = math.max(lock.token, hold.token + 63), true
    end
    if terms.text ~= '' then
      hold.text = terms.text
      if hold == lock.slot then lock:set('by', hold.text) end
    end
    lock:extend(hold, terms.lease)
    lock:save()
    return { 'renewed', attempt, lock.now, hold.deadline - lock.now }
  end
  lock:save()
  return { 'lost', attempt, lock.now, lock.token, string.find(lock.revoked, string.sub(attempt, -8), 1, true) and 1 or 0 }
end

-- Does one operation, which has these terms. Of an acquire: `a keep count prefix`, `mode fair lease span most permits take`, the text of the
-- holder, the owner (`-`: the attempt), and, for a fire of a job, `job kind ms age remember rerun`; of a release:
-- `r keep count prefix`, `unanswered hold_at_least job outcome`; of a renewal: `n keep count prefix`, `mode lease`, and the
-- text of the present holder (empty: that of the grant).
function Lock.run(Lock, text, first, last, attempt, token, micros, now, counted, state)
  local terms, keep, lease, fire, held = nil, nil, nil, nil, nil
  if string.byte(text) == 97 then
    local count, prefix, mode, fair, span, most, permits, take, holder, owner
    keep, count, prefix, mode, fair, lease, span, most, permits, take, holder, owner, fire =
      string.match(text, '^a (%d+) (%d) ([^\n]*)\n(%a) (%d) (%d+) (%d+) (%d+) (%d+) (%d+)\n([^\n]*)\n([^\n]*)\n?(.*)$')
    terms = { kind = 'a', counted = counted, attempt = attempt, keep = keep + 0, count = count, prefix = prefix, mode = mode, fair = fair,
      lease = lease + 0, span = span + 0, most = most + 0, permits = permits + 0, take = take + 0, text = holder, owner = owner,
      sent = ARGV[1] + 0, until_micros = ARGV[2] + 0 }
  elseif string.byte(text) == 114 then
    local count, prefix, unanswered, job, outcome
    keep, count, prefix, unanswered, held, job, outcome = string.match(text, '^r (%d+) (%d) ([^\n]*)\n(%d) (%d+) (%S+) (%S+)$')
    terms = { kind = 'r', counted = counted, keep = keep + 0, count = count, prefix = prefix, unanswered = unanswered,
      hold_at_least = held + 0, job = job ~= '-' and job, outcome = outcome }
  else
    local count, prefix, mode, holder
    keep, count, prefix, mode, lease, holder = string.match(text, '^n (%d+) (%d) ([^\n]*)\n(%a) (%d+)\n?([^\n]*)$')
    terms = { kind = 'n', counted = counted, keep = keep + 0, count = count, prefix = prefix, mode = mode, lease = lease + 0,
      text = holder }
  end
  if fire and fire ~= '' then
    local ms, age, remember
    terms.job, terms.fire_kind, ms, age, remember, terms.rerun = string.match(fire, '^(%S+) (%a+) (%d+) (%d+) (%d+) (%d)$')
    terms.fire_ms, terms.fire_age, terms.remember = ms + 0, age + 0, remember + 0
  end
  if terms.job and not Lock.is_claimed then
    --- @include jobs
  end
  local locks = {}
  for i = first, last do locks[#locks + 1] = Lock:load(KEYS[i], terms, micros, now, state) end
  for _, lock in ipairs(locks) do lock:begin(attempt) end
  if terms.kind == 'r' then return locks[1]:release(attempt, terms) end
  if terms.kind == 'n' then return locks[1]:renew(attempt, terms, token) end
  return Lock.acquire(locks, terms)
end
