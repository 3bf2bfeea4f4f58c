--- @purpose  Sets how many permits a lock has, whatever its requests say, and grants to the waiters that fit now. Nothing is taken from those
---           who hold it. The number is kept for 30 days after the last use of the lock.
--- @KEYS     1 the lock
--- @ARGV     1 attempt: id of this command, 2 permits (0: nothing may read; `-`: the requests say again how many), 3 keep in ms, 4 count,
---           5 prefix (see operate)
--- @reply    `set attempt now`, also when it is sent again

--- @include lock
--- @include clock
local lock = Lock:load(KEYS[1], { kind = 'n', keep = ARGV[3] + 0, count = ARGV[4], prefix = ARGV[5], counted = {} }, micros,
  math.floor(micros / 1000)):begin(ARGV[1])
local permits = tonumber(ARGV[2]) or false
if permits ~= lock.permits then
  -- A waiter that was passed over may fit now.
  lock.permits, lock.rare, lock.freed, lock.changed, lock.head = permits, lock.rare or {}, true, true, lock.first
end
lock:save()
return { 'set', ARGV[1], lock.now }
