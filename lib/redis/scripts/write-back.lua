--- @purpose  Replaces the token of a live hold by the one that a quorum has chosen for it, and makes the last token of the lock at least that,
---           so that each later grant of this node exceeds it. The lease stays as it is.
--- @KEYS     1 the lock
--- @ARGV     1 attempt, 2 token that this node has granted, 3 newToken, 4 keep in ms, 5 count, 6 prefix (see operate)
--- @reply    `written attempt now`, also when it is sent again, or `lost attempt now lastToken revoked`

--- @include lock
--- @include clock
local attempt, token, new_token = ARGV[1], ARGV[2] + 0, ARGV[3] + 0
local lock = Lock:load(KEYS[1], { kind = 'n', keep = ARGV[4] + 0, count = ARGV[5], prefix = ARGV[6], counted = {} }, micros,
  math.floor(micros / 1000)):begin(attempt)
local hold = lock.mine
local is_live = hold and hold.token > 0 and (hold.token == token or hold.token == new_token)
if is_live then
  hold.token, lock.token = new_token, math.max(lock.token, new_token)
  lock:write(hold)
end
lock:save()
if is_live then return { 'written', attempt, lock.now } end
return { 'lost', attempt, lock.now, lock.token, string.find(lock.revoked, string.sub(attempt, -8), 1, true) and 1 or 0 }
