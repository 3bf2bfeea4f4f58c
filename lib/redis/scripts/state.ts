import { arg, key, lua } from './lua.js';

const lock = key('lock');

/**
 * One lock is one hash, so that a script declares one key (a cluster refuses two while a slot migrates). Its fields:
 *
 * | field | value |
 * | --- | --- |
 * | `token` | the last fencing token that was granted; outlives the holds |
 * | `released` | ring of fingerprints of the attempts released last: `;abcdefgh;ijklmnop;` |
 * | `revoked` | such a ring of the attempts from which an operator took the lock |
 * | `late` | the attempts that were given back while a command of theirs had no answer, and when: `;abcdefgh 1700000000000000;` |
 * | `floor` | in microseconds: what an unknown attempt sent no later is refused; the time of the last that left a full `late` |
 * | `hold:<attempt>` | one hold: `deadline lease mode token since owner` (`token` 0: parked, see release) |
 * | `id:<attempt>` | who that is (host, pid, method), for people; opaque here |
 * | `writes`, `reads` | how many holds of each mode there are |
 * | `parked` | how many of the write holds are parked |
 * | `owner`, `writer`, `fence` | owner, latest attempt and token of the write holds |
 * | `due`, `seen`, `latest` | lower bound of the earliest deadline, upper bounds of the latest start and end of a lease, of all holds |
 * | `owned:<owner>` | `count token` of the read holds of a named owner |
 * | `head`, `tail` | first and last sequence number of the waiter queue |
 * | `queue:<n>` | one waiter: `deadline waiter-lease mode fair permits lease owner attempt`; `fair` is 0, 1, or 2 |
 * | `place:<attempt>` | its sequence number |
 * | `jobs` | the jobs that have fires here, percent-encoded, each with the time until which they are kept: `job ms job ms` |
 * | `fires:<job>` | the latest fires of that job that were granted, in ms: `;1000;2000;` (see claim) |
 * | `run:<job>` | its last run: `fire attempt started ended outcome` (`0 -` while they are unknown) |
 * | `run:by:<job>` | who runs or ran it: `host:pid` |
 *
 * A waiter with `fair` 2 is fair, but has to come and ask in its turn: for a lock of several keys, or for a fire.
 *
 * Times are milliseconds of the server's clock; tokens are its microseconds. An owner of `-` means the attempt itself.
 * Values stay within 64 bytes, so that Redis keeps a small hash compact, but for those of jobs and late commands, of which
 * there are few.
 *
 * All later scripts start with this text, which loads the hash, drops holds whose lease is over, and shortens those that
 * a clock which stepped back made too long.
 */
export const STATE = lua`
local micros = server_time()
local now = math.floor(micros / 1000)

local function int(value)
  return string.format('%.0f', value)
end

local loaded = redis.call('HMGET', ${lock}, 'token', 'released', 'writes', 'reads', 'parked', 'owner', 'writer', 'fence',
  'due', 'seen', 'head', 'tail', 'revoked', 'latest', 'first', 'cursor', 'floor', 'jobs', 'late')
local token, released = tonumber(loaded[1] or 0), loaded[2] or ';'
local writes, reads, parked = tonumber(loaded[3] or 0), tonumber(loaded[4] or 0), tonumber(loaded[5] or 0)
local owner, writer, fence = loaded[6] or '', loaded[7] or '', loaded[8] or '0'
local due, seen = tonumber(loaded[9] or 0), tonumber(loaded[10] or 0)
local head, tail = tonumber(loaded[11] or 1), tonumber(loaded[12] or 0)
local revoked = loaded[13] or ';'
local latest, first, cursor = tonumber(loaded[14] or 0), tonumber(loaded[15] or head), tonumber(loaded[16] or head)
local floor, jobs, remember, late = tonumber(loaded[17] or 0), loaded[18] or '', 0, loaded[19] or ';'
-- The clock stepped back: nothing that is sent now could be later.
if floor > micros then floor = 0 end
for time in string.gmatch(jobs, '%S+ (%d+)') do remember = math.max(remember, tonumber(time)) end
local was_held, was_queued = loaded[3] ~= false, loaded[11] ~= false
local freed = false

local function read_hold(record)
  local deadline, lease, mode, hold_token, since, hold_owner =
    string.match(record, '^(%d+) (%d+) (%a+) (%d+) (%d+) (.+)$')
  return { deadline = tonumber(deadline), lease = tonumber(lease), mode = mode, token = hold_token,
    since = tonumber(since), owner = hold_owner }
end

local function write_hold(attempt, hold)
  redis.call('HSET', ${lock}, 'hold:' .. attempt, table.concat({ int(hold.deadline), int(hold.lease), hold.mode,
    hold.token, int(hold.since), hold.owner }, ' '))
end

-- One read hold more (1) or less (-1) of a named owner, with the greatest token that it got since it reads: one that
-- waited was granted with a new token, and the next re-entry must not fall behind that.
local function count_owned(name, change, latest)
  if name == '-' then return end
  local count, owned_token = string.match(redis.call('HGET', ${lock}, 'owned:' .. name) or '0 0', '^(%d+) (%d+)$')
  count = tonumber(count) + change
  if count <= 0 then
    redis.call('HDEL', ${lock}, 'owned:' .. name)
  else
    if change > 0 and tonumber(latest) > tonumber(owned_token) then owned_token = latest end
    redis.call('HSET', ${lock}, 'owned:' .. name, int(count) .. ' ' .. owned_token)
  end
end

-- Takes a hold into the counts, or (by = -1) out of them.
local function count_hold(hold, by)
  if hold.mode == 'write' then
    writes = writes + by
    if hold.token == '0' then parked = parked + by end
    if writes == parked then owner = '' end
  else
    reads = reads + by
  end
end

local function bound_by(hold)
  if due == 0 or hold.deadline < due then due = hold.deadline end
  seen = math.max(seen, hold.deadline - hold.lease)
  latest = math.max(latest, hold.deadline)
end

local function drop_hold(attempt, hold)
  redis.call('HDEL', ${lock}, 'hold:' .. attempt, 'id:' .. attempt)
  if hold.mode == 'read' and hold.token ~= '0' then count_owned(hold.owner, -1) end
end

local function sweep()
  local fields = redis.call('HGETALL', ${lock})
  due, seen, latest = 0, 0, 0
  for i = 1, #fields, 2 do
    local attempt = string.match(fields[i], '^hold:(.+)$')
    if attempt then
      local hold = read_hold(fields[i + 1])
      if hold.deadline - now > hold.lease then
        hold.deadline = now + hold.lease
        write_hold(attempt, hold)
      end
      if hold.deadline <= now then
        drop_hold(attempt, hold)
        count_hold(hold, -1)
        freed = true
      else
        bound_by(hold)
      end
    end
  end
end

local swept = writes + reads > 0 and (now >= due or now < seen)
if swept then
  -- A write that is allowed on a full server comes first: then the ones after it are, too.
  redis.call('HDEL', ${lock}, 'due')
  sweep()
end

-- The key's own time to live is garbage collection only: never shorter than what lives in the hash, and no longer than
-- that and \`keepMs\`, which outlasts every place in the queue.
local function keep_for(ms)
  local held = writes + reads > 0 and latest - now or 0
  redis.call('PEXPIRE', ${lock}, int(math.max(ms, held, remember - now, tonumber(${arg('keepMs')}))))
end

local function fingerprint(attempt)
  return string.sub(attempt, -8)
end

local function is_in(ring, attempt)
  return string.find(ring, ';' .. fingerprint(attempt) .. ';', 1, true) ~= nil
end

-- The ring with the attempt in it; seven of them fit.
local function with(ring, attempt)
  if is_in(ring, attempt) then return ring end
  ring = ring .. fingerprint(attempt) .. ';'
  while #ring > 64 do
    ring = string.gsub(ring, '^;[^;]*', '', 1)
  end
  return ring
end

-- A command of this attempt had no answer, and may still come. It is known until such a command is too old for any caller;
-- when there are too many of them, the time of the oldest stands for it.
local function remember_late(attempt)
  if string.find(late, ';' .. fingerprint(attempt) .. ' ', 1, true) then return end
  local kept = {}
  for entry, at in string.gmatch(late, '([^;]+ (%d+));') do
    if micros - tonumber(at) < 20000000 then table.insert(kept, entry) end
  end
  table.insert(kept, fingerprint(attempt) .. ' ' .. int(micros))
  if #kept > 16 then floor = math.max(floor, tonumber(string.match(table.remove(kept, 1), '%d+$'))) end
  late = ';' .. table.concat(kept, ';') .. ';'
end
`;
