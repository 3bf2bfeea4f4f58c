-- Ends the hold of an attempt, or removes it from the queue. The attempt is remembered, so this may be sent twice, and a late acquire
-- is refused. A hold that has to last until `at_least` is parked: it stays with token 0 and ends with its lease.
function Lock.release(lock, attempt, own, repeated)
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
  elseif string.find(lock.ended, string.sub(attempt, -8) .. ':', 1, true) then
    outcome = 'lost'
  elseif hold or is_late or lock:has('ended', attempt) then
    outcome = 'again'
  elseif lock.has_expired then
    outcome = 'expired'
  end
  -- A run that never began leaves no fire, even after its lease.
  if job ~= '-' and (outcome == 'released' or run_outcome == 'void') then lock:end_run(attempt, job, run_outcome) end
  lock:remember(attempt, unanswered == '1' and not is_late, outcome == 'unknown' and not repeated and ':')
  if lock.waiting > 0 then
    lock:serve()
    -- The first waiter must learn when the lease of the holder may end: no message reports the death of a holder.
    local waiter = outcome == 'cancelled' and was_first and lock.head <= lock.tail and lock:waiter_at(lock.head)
    if waiter then lock:publish(waiter.attempt, 'wake ' .. waiter.attempt) end
  end
  return { outcome, attempt, lock.now, lock.writes + lock.reads, lock.token }
end
