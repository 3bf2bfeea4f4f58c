-- The state of one lock: its hash as a table, which a script loads, changes and saves. ADR 21 lists the fields of the hash.
-- The functions are methods of this table and capture nothing: a function that captures is expensive to define.
local Lock = { now = math.floor(micros / 1000), micros = micros, counted = {},
  -- The defaults of rarely set fields.
  slot = false, mine = false, place = false, waiter = false, freed = false, stands = false, owned = false, left = false, has_expired = false,
  rare = false, permits = false, late = '', revoked = '', jobs = '', floor = 0,
  SLOT = '>I6I5c1I3I3I6',                        -- of a hold in `s`: deadline, span, mode, take, permits, since
  COUNTS = '>BI3I3I4I6I6I6',                     -- flags, and the numbers below from `writes` to `latest`
  QUEUE = '>I5I5I5I5I5I6',                       -- those from `first` to `swept`
  RECORD = '>I6I5I5I7c1c1I3I3I6I2c0I2c0' }       -- of a hold or a waiter: see read()
Lock.__index = Lock

-- Loads a lock, and changes nothing: data of another type or version is refused here, before any of several locks is changed.
function Lock.load(Lock, key, terms, state)
  state = state or redis.call('HMGET', key, 's', 'r', 'v')
  local s, ended, position = state[1], state[2] or '', 15
  local form, size = s and string.sub(s, 1, 1) or state[3] and '1' or 'A', s and #s or 14
  if form == '1' then error('OLDDATA in ' .. key) end
  if not (form == 'A' and size == 14 or form == 'B' and size > 38 or form == 'C' and size > 69
    or form == 'D' and (size == 74 or size > 105)) then
    error('NEWERDATA in ' .. key)
  end
  local token, kept, flags, writes, reads, taken, due, seen, latest = 0, 0, 0, 0, 0, 0, 0, 0, 0
  local first, head, tail, waiting, cursor, swept, told = 1, 1, 0, 0, 0, 0, false
  if s then token, kept = struct.unpack('>I7I6', s, 2) end
  if form == 'D' then flags, writes, reads, taken, due, seen, latest, position = struct.unpack(Lock.COUNTS, s, position) end
  if form == 'C' or form == 'D' then
    first, head, tail, waiting, cursor, swept, position = struct.unpack(Lock.QUEUE, s, position)
    told = head
  end
  local lock = setmetatable({ key = key, terms = terms, s = s, r = ended, ended = ended, sets = {}, token = token, kept = kept, writes = writes,
    reads = reads, taken = taken, due = due, seen = seen, latest = latest, first = first, head = head, tail = tail, waiting = waiting,
    cursor = cursor, swept = swept, told = told, changed = false }, Lock)
  if size >= position then
    local its_token = token
    if form == 'D' then its_token, position = struct.unpack('>I7', s, position) end
    local deadline, span, mode, take, permits, since, at = struct.unpack(Lock.SLOT, s, position)
    lock.slot = { token = its_token, deadline = deadline, span = span, mode = mode, take = take, permits = permits, since = since,
      attempt = string.sub(s, at), owner = '-' }
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

-- The record of a hold or of a waiter. `span` is how long it was granted, or may wait without
-- asking again. After it comes the text of the holder.
function Lock.read(lock, value)
  local deadline, span, lease, token, mode, fair, take, permits, since, attempt, owner, position = struct.unpack(lock.RECORD, value)
  return { deadline = deadline, span = span, lease = lease, token = token, mode = mode, fair = fair, take = take,
    permits = permits, since = since, attempt = attempt, owner = owner, text = string.sub(value, position) }
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
