-- Acquires one lock or several, all or none. Of several, it waits at each up to the first that is busy, without holding any. All
-- calls name their keys in the same order, so no two wait for each other. All locks are checked before anything is granted.
function Lock.acquire(locks, asked)
  local attempt, fair, sent, refused, why, busy = asked.attempt, asked.fair, ARGV[1] + 0, nil, nil, nil
  local is_claimed = asked.job and locks[1]:is_claimed(asked)
  for i = 1, #locks do asked.is_here = asked.is_here or locks[i].mine or locks[i].place end
  for i = 1, #locks do
    local lock, reason, owned, writes = locks[i], nil, nil, false
    local mine = lock.mine
    if mine and mine.token > 0 then
      lock.stands = 'held'
    elseif mine or lock:has('ended', attempt) or lock:has('late', attempt) then
      reason = 'released'
    elseif not asked.is_here and (sent > lock.micros or sent <= lock.floor or lock.micros > ARGV[2] + 0) then
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
  for i = 1, #locks do
    local lock = locks[i]
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
  for i = 1, #locks do
    local lock = locks[i]
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
  for i = 1, #locks do locks[i]:save() end
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
        text = hold.text
      end
    end
    reply = { 'busy', attempt, one.now, one.has_more and 1 or one.writes + one.reads > 0 and one.due - one.now or 0,
      one.place and math.max(math.min(one.place - one.head, one.waiting - 1), 0) or 0, text, owner,
      one:listeners(attempt) or '', one.token, is_full and 1 or '', one.permits or '' }
  else
    local fire = asked.job and asked.run_attempt == attempt and asked.run_fire or ''
    reply = { 'granted', attempt, one.now, least, one.writes + one.reads, fire, unpack(tokens) }
  end
  return reply
end
