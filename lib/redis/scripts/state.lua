-- The state of one lock: its hash as a table, which a script loads, changes and saves. ADR 21 lists the fields of the hash.
-- The functions are methods of this table and capture nothing: a function that captures is dear to define.
local Lock = { now = math.floor(micros / 1000), micros = micros, counted = {} }
Lock.__index = Lock
Lock.SLOT = '>I6I5c1I3I3I6'                        -- of a hold in `s`: deadline, span, mode, take, permits, since; its token in form D only
Lock.ALL = '>BI3I3I4I6I6I6I5I5I5I5I5I6'              -- flags, and the numbers above from `writes` to `swept`
Lock.RECORD = '>I6I5I5I7c1c1I3I3I6I2c0I2c0'          -- of a hold or a waiter: see read()
Lock.revoked, Lock.jobs, Lock.floor, Lock.left = '', '', 0, false
Lock.RARE = { 'late', 'permits', 'revoked', 'jobs' } -- seldom there, so a flag says whether they are

-- Loads a lock, and changes nothing: data of another type or version is refused here, before any of several locks is changed.
function Lock.load(Lock, key, terms, state)
  state = state or redis.call('HMGET', key, 's', 'r', 'v')
  local s, flags, position, rare = state[1], 0, 15, nil
  local form, size = s and string.sub(s, 1, 1) or state[3] and '1' or 'A', s and #s or 14
  if form == '1' then error('OLDDATA in ' .. key) end
  if not (form == 'A' and size == 14 or form == 'B' and size > 38 or form == 'D' and (size == 74 or size > 105)) then
    error('NEWERDATA in ' .. key)
  end
  local lock = setmetatable({ key = key, terms = terms, s = s, r = state[2] or '', sets = {},
    ended = state[2] or '', slot = false, token = 0, kept = 0, writes = 0, reads = 0, taken = 0, due = 0, seen = 0, latest = 0,
    changed = false, mine = false, freed = false, place = false, waiter = false, rare = false, permits = false, stands = false,
    owned = false, late = '', first = 1, head = 1, tail = 0, waiting = 0, cursor = 0, swept = 0, told = false }, Lock)
  if s then lock.token, lock.kept = struct.unpack('>I7I6', s, 2) end
  if form == 'D' then
    flags, lock.writes, lock.reads, lock.taken, lock.due, lock.seen, lock.latest, lock.first, lock.head, lock.tail, lock.waiting,
      lock.cursor, lock.swept, position = struct.unpack(Lock.ALL, s, position)
    lock.told = lock.head
  end
  if size >= position then
    local slot = { owner = '-', fair = '1', field = false, text = false, attempt = '', deadline = 0, span = 0, lease = 0,
      token = lock.token, mode = '', take = 0, permits = 0, since = 0 }
    if form == 'D' then slot.token, position = struct.unpack('>I7', s, position) end
    slot.deadline, slot.span, slot.mode, slot.take, slot.permits, slot.since, position = struct.unpack(Lock.SLOT, s, position)
    slot.attempt, lock.slot = string.sub(s, position), slot
    if form == 'B' then lock:count(slot, 1) end
  end
  if flags > 0 then
    rare = redis.call('HMGET', key, unpack(Lock.RARE))
    lock.rare, lock.late, lock.permits, lock.revoked, lock.jobs = rare, rare[1] or '', tonumber(rare[2]) or false, rare[3] or '', rare[4] or ''
    -- After 20 s, a command of a late attempt is too old to be carried out (ADR 11).
    if #lock.late > 7 and lock.micros - struct.unpack('>I7', lock.late, #lock.late - 6) >= 20000000 then lock.late = '' end
    if lock.late ~= '' then lock.floor = struct.unpack('>I7', lock.late) end
    -- The clock may have stepped back behind the floor.
    if lock.floor > lock.micros then lock.floor = 0 end
  end
  return lock
end

-- The record of a hold, or of a waiter, whose field is `q` and its place. `span` is how long it was granted, or may wait without
-- asking again. Behind it is the text for people.
function Lock.read(lock, field, value)
  local one, position = { field = field, deadline = 0, span = 0, lease = 0, token = 0, mode = '', fair = '', take = 0, permits = 0, since = 0,
    attempt = '', owner = '', text = '' }, nil
  one.deadline, one.span, one.lease, one.token, one.mode, one.fair, one.take, one.permits, one.since, one.attempt, one.owner, position =
    struct.unpack(lock.RECORD, value)
  one.text = string.sub(value, position)
  return one
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
