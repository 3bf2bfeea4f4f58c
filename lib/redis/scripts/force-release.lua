--- @purpose  Ends all holds that an operator has seen, including parked ones. The holders receive `revoked <attempt>` before the next waiter
---           receives its grant. The attempts are remembered as revoked, and as ended.
--- @KEYS     1 the lock
--- @ARGV     1 attempt: id of this command, 2 the last token of the lock when the operator looked: later grants are left alone, also when this
---           comes late, or again, 3 keep in ms, 4 count, 5 prefix (see operate)
--- @reply    `revoked attempt now holds`, with the number of holds that were ended, or `again attempt now 0`

--- @include lock
--- @include clock
local command, seen, ended, live = ARGV[1], ARGV[2] + 0, 0, {}
local lock = Lock:load(KEYS[1], { kind = 'n', keep = ARGV[3] + 0, count = ARGV[4], prefix = ARGV[5], counted = {} }, micros,
  math.floor(micros / 1000)):begin(command)
if string.find(lock.revoked, string.sub(command, -8), 1, true) then
  lock:save()
  return { 'again', command, lock.now, 0 }
end
-- Before any message: a replica refuses it.
lock:begin_writes()
for _, hold in ipairs(lock:holds()) do
  -- A parked hold has no token: the time of its grant is compared. A re-entry is later than its token, which the last token makes up for.
  local granted = hold.token == 0 and math.min(hold.since * 1000, lock.token) or hold.token
  if granted <= seen then
    lock:count(hold, -1)
    lock:drop(hold)
    ended = ended + 1
    if hold.token > 0 then live[#live + 1] = hold.attempt end
  end
end
lock:narrow()
table.sort(live)
for _, attempt in ipairs(live) do
  local id = string.sub(attempt, -8)
  lock:publish(attempt, 'revoked ' .. attempt)
  lock:remember(id, true)
  lock.revoked = lock:with(lock.revoked, id)
end
if ended > 0 then lock.revoked, lock.rare = lock:with(lock.revoked, string.sub(command, -8)), lock.rare or {} end
lock:save()
return { 'revoked', command, lock.now, ended }
