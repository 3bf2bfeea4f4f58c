--- @purpose  Does one operation of a lock, or many of one lock each, in their order; an error of one touches no other. An acquire alone
---           may be of several locks (ADR 2).
--- @KEYS     the lock of each operation; all locks of an acquire of several
--- @ARGV     1 sentMicros   when the command was sent, by this server's clock as the client knows it; 0: it does not
---           2 untilMicros  after which no acquire is granted
---           3 own          a line for each operation: the number of its terms, its attempt, and the token of its hold (release: 1 if repeated)
---           4... terms     of the operations, each once. The first line is `kind keep count prefix`: how long the lock is kept after its
---                          last lease in ms, 1 if the receivers of a message can be counted, and where the names of channels begin.
---                          The others of each kind:
---                          a acquire: `mode fair lease span most permits take`, the text of the holder, the owner (`-`: the attempt),
---                          and, for a fire of a job, `job kind ms age remember rerun`
---                          r release: `unanswered hold_at_least job outcome`
---                          n renewal: `mode lease`, and the text of the present holder (empty: that of the grant)
---                          d adoption: `from lease unanswered`, the attempt that has held it so far (1: an acquire of it has had no
---                          answer), and the text of the new holder
---                          w write-back: the new token
---                          f forced release: the last token when the operator looked. Later grants are left alone, also when this comes late
---                          p permits: their number (0: nothing may read; `-`: the requests say again how many)
--- @reply    of the operation, or a list with that of each; `failed attempt error` for one that failed among many. The parts of a reply are
---           a list, or, in the usual case, one text with a blank between two; if all replies are texts, they are the lines of one: it
---           takes less of the client and of the server than a list. Acquire:
---           `granted attempt now remainingMs holds fireMs token...`, the same again when it is sent again; `busy attempt now retryMs ahead
---           holder owner listeners lastToken full permits`, about the first busy lock: `retryMs` until the first lease may end (0:
---           unknown), or 1 if places in the queue remain to be served, `owner` of the write hold, a name or an attempt (empty, as
---           `holder`: none, or unknown), `listeners` of the caller at this server (empty: unknown), `full` 1: it has no place, because of
---           `most`, `permits` that an operator has set; `refused attempt now reason detail`: `released`; `late` (the time in
---           microseconds); `permits` (how many there are); `upgrade` (this owner reads); `claimed` (the attempt whose run of this fire has
---           no outcome yet). Release: `outcome attempt now holds lastToken`: `released`, `again` (done before), `cancelled` (it waited),
---           `expired` (the lease ended before), `revoked`, `unknown` (no trace, also when its place in the queue has expired) or `lost`
---           (there was none when the first copy came). Renewal, adoption and write-back: `renewed|adopted attempt now remainingMs`,
---           `written attempt now`, or `lost attempt now lastToken revoked`. Forced release: `revoked attempt now holds`, or `again attempt
---           now 0`. Permits: `set attempt now`.

--- @include clock
local now, own, now_text = math.floor(micros / 1000), ARGV[3], nil

-- The usual case, a lock that is free and then held once, without what is rare. It does what the text behind it would do at twice
-- the cost (ADR 21). In another case, it returns nothing, and what it has read.
local function usual(key, text, attempt, token)
  local kind, state = string.byte(text), redis.call('HMGET', key, 's', 'r')
  local s, ended, id = state[1], state[2] or '', string.sub(attempt, -8)
  local form, keep, mode, lease, permits, take, holder = s and string.byte(s), nil, nil, nil, nil, nil, nil
  if kind == 97 and form == 65 and #s == 14 then
    keep, mode, lease, permits, take, holder =
      string.match(text, '^a (%d+) %d [^\n]*\n(%a) %d (%d+) %d+ %d+ (%d+) (%d+)\n([^\n]*)\n%-\n$')
  elseif form == 66 and #s > 38 and kind == 114 then
    keep = string.match(text, '^r (%d+) %d [^\n]*\n0 0 %- %-$')
  elseif form == 66 and #s > 38 and kind == 110 then
    keep, mode, lease, holder = string.match(text, '^n (%d+) %d [^\n]*\n(%a) (%d+)\n?([^\n]*)$')
  end
  if not keep then return nil, state end
  local last, kept, deadline, span, held, takes, most, since, at = struct.unpack('>I7I6', s, 2)
  if form == 66 then
    deadline, span, held, takes, most, since, at = struct.unpack('>I6I5c1I3I3I6', s, 15)
    -- Its lease is over, or the clock has stepped back.
    if string.sub(s, at) ~= attempt or deadline <= now or deadline - now > span then return nil, state end
  end
  local need, value, field, text_of, reply = now + keep, nil, 'r', nil, nil
  now_text = now_text or string.format('%.0f', now)
  if kind == 114 then
    text_of = string.sub(ended .. id .. ';', #ended > 54 and 10 or 1)
    value, reply = 'A' .. struct.pack('>I7I6', last, kept), string.format('released %s %s 0 %.0f', attempt, now_text, last)
  elseif kind == 97 then
    local sent, until_micros = ARGV[1] + 0, ARGV[2] + 0
    if sent > micros or micros > until_micros then return nil, state end
    last, deadline, field, text_of = math.max(last + 64, micros), now + lease, 'by', holder
    need = deadline + keep
    value = 'B' .. struct.pack('>I7I6I6I5c1I3I3I6', last, kept, deadline, lease, mode, take, permits, now) .. attempt
    reply = string.format('granted %s %s %s 1  %.0f', attempt, now_text, lease, last)
  else
    if last ~= tonumber(token) or mode ~= held then return nil, state end
    deadline = math.max(deadline, now + lease)
    need, field, text_of = deadline + keep, holder ~= '' and 'by' or nil, holder
    value = 'B' .. struct.pack('>I7I6I6I5c1I3I3I6', last, kept, deadline, math.max(lease + 0, deadline - now), held, takes, most, since)
      .. attempt
    reply = string.format('renewed %s %s %.0f', attempt, now_text, deadline - now)
  end
  if kept < need or kept > need + 2 * keep or kind ~= 110 and string.find(ended, id, 1, true) then return nil, state end
  local written = field and redis.pcall('HSET', key, 's', value, field, text_of) or not field and redis.pcall('HSET', key, 's', value)
  return type(written) == 'number' and reply or nil, state
end

-- A lock, with the rules of all other cases. To define a function takes as long as a step of an operation, so those that only some
-- operations need are defined when they are called.
local function new_lock()
--- @include state
--- @include lock
  -- Executes an operation with these terms. The first lock is that of key `i`.
  function Lock.run(locks, i, text, attempt, token, state)
    local lock, kind, terms, own = locks[1], string.sub(text, 1, 1), nil, nil
    if kind == 'a' then
      local keep, count, prefix, mode, fair, lease, span, most, permits, take, holder, owner, claim = string.match(text,
        '^a (%d+) (%d) ([^\n]*)\n(%a) (%d) (%d+) (%d+) (%d+) (%d+) (%d+)\n([^\n]*)\n([^\n]*)\n(.*)$')
      terms = { keep = keep + 0, count = count, prefix = prefix, is_here = false, attempt = attempt, mode = mode, fair = fair,
        lease = lease + 0, span = span + 0, most = most + 0, permits = permits + 0, take = take + 0, text = holder, owner = owner,
        deadline = 0, since = 0 }
      if claim ~= '' then terms.job = claim end
    else
      local keep, count, prefix, rest = string.match(text, '^. (%d+) (%d) ([^\n]*)\n(.*)$')
      terms, own = { keep = keep + 0, count = count, prefix = prefix, is_here = true }, rest
    end
    for j = 1, #locks do locks[j]:load(KEYS[i + j - 1], terms, state) end
    for j = 1, #locks do locks[j]:begin(attempt) end
    if kind == 'a' then return lock.acquire(locks, terms) end
    local operation = kind == 'r' and lock.release or kind == 'n' and lock.renew or lock:operation(kind)
    local reply = operation(lock, attempt, own, tonumber(token))
    lock:save()
    return reply
  end
  local has_queue = false
  local function define(Lock, name)
    if name == 'acquire' then
--- @include acquire
    elseif name == 'release' then
--- @include release
    elseif name == 'renew' or name == 'extend' then
--- @include renew
    elseif name == 'clear' then
      -- Makes it a new lock again, for the next operation of this script: to define all functions again takes longer.
      function Lock.clear(lock)
        lock.token, lock.kept, lock.writes, lock.reads, lock.taken, lock.due, lock.seen, lock.latest = 0, 0, 0, 0, 0, 0, 0, 0
        lock.first, lock.head, lock.tail, lock.waiting, lock.cursor, lock.swept, lock.told = 1, 1, 0, 0, 0, 0, false
        lock.slot, lock.mine, lock.place, lock.waiter, lock.freed, lock.changed = false, false, false, false, false, false
        lock.stands, lock.owned, lock.left, lock.has_expired, lock.rare, lock.permits = false, false, false, false, false, false
        lock.by, lock.late, lock.revoked, lock.jobs, lock.floor, lock.has_more = '', '', '', '', 0, false
        return lock
      end
    elseif not has_queue then
      has_queue = true
--- @include queue
    else
--- @include rare
--- @include jobs
    end
    return Lock[name]
  end
  return setmetatable(Lock, { __index = define })
end

local attempt, token = string.match(own, '^1 (%S+) ?(%d*)\n$')
if attempt then
  local reply, state
  if #KEYS == 1 then reply, state = usual(KEYS[1], ARGV[4], attempt, token) end
  if reply then return reply end
  local locks = {}
  for i = 1, #KEYS do locks[i] = new_lock() end
  return locks[1].run(locks, 1, ARGV[4], attempt, token, state)
end
local replies, are_texts, lock = {}, true, nil
local function operate(i, text, one, its_token)
  local reply, state = usual(KEYS[i], text, one, its_token)
  if reply then return reply end
  lock = lock and lock:clear() or new_lock()
  return lock.run({ lock }, i, text, one, its_token, state)
end
for terms, one, its_token in string.gmatch(own, '(%d+) (%S+) ?(%d*)\n') do
  local i = #replies + 1
  local is_done, reply = pcall(operate, i, ARGV[3 + terms], one, its_token)
  replies[i] = is_done and reply or { 'failed', one, tostring(reply) }
  are_texts = are_texts and type(replies[i]) == 'string'
end
return are_texts and table.concat(replies, '\n') or replies
