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

-- Extends a lease, and never shortens it.
function Lock.extend(lock, hold, lease)
  lock:count(hold, -1)
  hold.deadline = math.max(hold.deadline, lock.now + lease)
  hold.span = math.max(lease, hold.deadline - lock.now)
  lock:count(hold, 1)
  lock:write(hold)
end
