-- One lock: the state that its hash has, which a script loads, changes and saves, and the functions for that. ADR 21 lists the fields of
-- the hash. The functions capture nothing, and the table has all fields of the state from the beginning: a function that captures is
-- slow to define, and a table slow to extend.
local Lock = { now = math.floor(micros / 1000), micros = micros, key = '', terms = false, s = false, r = '', ended = '', by = '', sets = false,
  token = 0, kept = 0, writes = 0, reads = 0, taken = 0, due = 0, seen = 0, latest = 0,
  first = 1, head = 1, tail = 0, waiting = 0, cursor = 0, swept = 0, told = false, slot = false, mine = false, place = false, waiter = false,
  freed = false, changed = false, has_more = false, stands = false, owned = false, left = false, has_expired = false,
  rare = false, permits = false, late = '', revoked = '', jobs = '', floor = 0 }

-- Loads a lock, and changes nothing: data of another type or version is refused here, before any of several locks is changed.
function Lock.load(lock, key, terms, state)
  state = state or redis.call('HMGET', key, 's', 'r')
  local s, position, flags = state[1], 15, 0
  local form, size = s and string.sub(s, 1, 1) or 'A', s and #s or 14
  if form == '1' or not s and redis.call('HGET', key, 'v') then error('OLDDATA in ' .. key) end
  if not (form == 'A' and size == 14 or form == 'B' and size > 38 or form == 'C' and size > 69
    or form == 'D' and (size == 74 or size > 105)) then
    error('NEWERDATA in ' .. key)
  end
  lock.key, lock.terms, lock.s, lock.r, lock.ended = key, terms, s, state[2] or '', state[2] or ''
  -- The command that saves it, with room for two more fields.
  lock.sets = { 'HSET', key, 's', '', nil, nil, nil, nil }
  if s then lock.token, lock.kept = struct.unpack('>I7I6', s, 2) end
  if form == 'D' then
    flags, lock.writes, lock.reads, lock.taken, lock.due, lock.seen, lock.latest, position = struct.unpack('>BI3I3I4I6I6I6', s, position)
  end
  if form == 'C' or form == 'D' then
    lock.first, lock.head, lock.tail, lock.waiting, lock.cursor, lock.swept, position = struct.unpack('>I5I5I5I5I5I6', s, position)
    lock.told = lock.head
  end
  if size >= position then
    local its_token = lock.token
    if form == 'D' then its_token, position = struct.unpack('>I7', s, position) end
    local deadline, span, mode, take, permits, since, at = struct.unpack('>I6I5c1I3I3I6', s, position)
    lock.by = redis.call('HGET', key, 'by') or ''
    lock.slot = { token = its_token, deadline = deadline, span = span, mode = mode, take = take, permits = permits, since = since,
      attempt = string.sub(s, at), owner = '-', text = lock.by }
    if form ~= 'D' then lock:count(lock.slot, 1) end
  end
-- Rarely present, so a flag marks them.
  if flags > 0 then
    local rare = redis.call('HMGET', key, 'late', 'permits', 'revoked', 'jobs')
    lock.rare, lock.late, lock.permits, lock.revoked, lock.jobs = rare, rare[1] or '', tonumber(rare[2]) or false, rare[3] or '', rare[4] or ''
    -- After 20 s, a command of a late attempt is too old to be executed (ADR 11).
    if #lock.late > 7 and lock.micros - struct.unpack('>I7', lock.late, #lock.late - 6) >= 20000000 then lock.late = '' end
    if lock.late ~= '' then lock.floor = struct.unpack('>I7', lock.late) end
    -- The clock may have stepped back behind the floor.
    if lock.floor > lock.micros then lock.floor = 0 end
  end
  return lock
end

-- Counts a hold in (1), with the bounds of all leases (the first end, the last begin, the last end), or out (-1).
function Lock.count(lock, hold, change)
  if hold.mode == 'w' then
    lock.writes = lock.writes + change
  else
    lock.reads, lock.taken = lock.reads + change, lock.taken + change * hold.take
  end
  if lock.writes + lock.reads == 0 then
    lock.due, lock.seen, lock.latest = 0, 0, 0
  elseif change == 1 then
    local deadline, begin = hold.deadline, hold.deadline - hold.span
    if lock.due == 0 or deadline < lock.due then lock.due = deadline end
    if begin > lock.seen then lock.seen = begin end
    if deadline > lock.latest then lock.latest = deadline end
  end
end
