--- @purpose  Reads the whole state of a lock, and changes nothing; the client leaves out expired holds and waiters.
--- @KEYS     1 the lock
--- @reply    `now lastToken permits` (those that an operator has set; empty: none); then, of each hold and each waiter,
---           `hold|waiter attempt deadline span token mode take permits since owner place text`, and of each job
---           `job name fire attempt started ended outcome instance - - - -`

--- @include clock
--- @include state
--- @include queue
local lock = Lock:load(KEYS[1])
local reply = { lock.now, lock.token, lock.permits or '' }
local fields = redis.call('HGETALL', KEYS[1])
local function add(...)
  for _, part in ipairs({ ... }) do reply[#reply + 1] = part end
end
local function add_record(kind, one, place)
  add(kind, one.attempt, one.deadline, one.span, one.token, one.mode, one.take, one.permits, one.since, one.owner, place, one.text)
end
if lock.slot then add_record('hold', lock.slot, 0) end
for i = 1, #fields, 2 do
  local field, value = fields[i], fields[i + 1]
  if string.find(field, '^job:') then
    local fire, attempt, started, ended, outcome, instance = string.match(value, '^(%d+) (%S+) (%d+) (%d+) (%S+) (%S*)')
    add('job', string.sub(field, 5), fire, attempt, started, ended, outcome, instance, '-', '-', '-', '-')
  elseif string.find(field, '^q%d+$') and string.byte(value) < 48 then
    add_record('waiter', lock:read(value), tonumber(string.sub(field, 2)))
  elseif string.find(field, '.', 1, true) and string.byte(value) < 48 then
    add_record('hold', lock:read(value), 0)
  end
end
return reply
