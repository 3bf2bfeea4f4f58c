--- @purpose  Makes a live hold that of another attempt, with the same token, owner and time of the grant, and extends its lease. Nothing
---           that the attempt sends that has held it so far changes anything then.
--- @KEYS     1 the lock
--- @ARGV     1 attempt that adopts the hold, 2 from, which has held it so far, 3 token, 4 lease in ms, 5 text of the new holder,
---           6 unanswered (1: an acquire of `from` has had no answer, and is refused if it comes), 7 keep in ms, 8 count, 9 prefix (see operate)
--- @reply    `adopted attempt now remainingMs`, also when it is sent again, or `lost attempt now lastToken revoked`. An attempt that was
---           released adopts nothing: its caller has given up.

--- @include lock
--- @include clock
local attempt, from, token, lease, text, unanswered = ARGV[1], ARGV[2], ARGV[3] + 0, ARGV[4] + 0, ARGV[5], ARGV[6]
local lock = Lock:load(KEYS[1], { kind = 'n', keep = ARGV[7] + 0, count = ARGV[8], prefix = ARGV[9], counted = {} }, micros,
  math.floor(micros / 1000)):begin(attempt)
local hold, new, old = lock.mine, string.sub(attempt, -8), string.sub(from, -8)
local is_ended = string.find(lock.ended, new, 1, true) or string.find(lock.late, new, 1, true)
if not hold and not is_ended then
  local value = not (lock.slot and lock.slot.attempt == from) and redis.call('HGET', KEYS[1], from)
  hold = value and string.byte(value) < 48 and lock:read(attempt, value)
  if lock.slot and lock.slot.attempt == from then hold = lock.slot end
  if hold and hold.token == token and token > 0 then
    if hold == lock.slot then lock:set('by', text) else redis.call('HDEL', KEYS[1], from) end
    hold.attempt, hold.text = attempt, text
    lock:remember(old, unanswered == '1')
  end
end
if not hold or hold.token ~= token or token == 0 then
  lock:save()
  local is_revoked = string.find(lock.revoked, old, 1, true) or string.find(lock.revoked, new, 1, true)
  return { 'lost', attempt, lock.now, lock.token, is_revoked and 1 or 0 }
end
lock:extend(hold, lease)
lock:save()
return { 'adopted', attempt, lock.now, hold.deadline - lock.now }
