import { arg, key, lua } from '../lua.js';
import { HOLDS } from './holds.js';
import { scriptPart } from './script-part.js';
import { STATE } from './state.js';

const lock = key('lock');

/** Writes what a script has changed, and how long Redis keeps the key. */
export const SAVE = scriptPart(
  {
    name: 'save',
    needs: [STATE, HOLDS],
    reads:
      'micros now loaded token released writes reads parked owner writer fence due seen head tail revoked latest first ' +
      'cursor floor jobs remember late late_micros packed by packed_hold extra limit set_permits',
    writes: 'late floor packed_hold',
  },
  lua`
-- The time to live of the key is for garbage collection only: the last lease and \`keepMs\`, which outlasts every place in the
-- queue. Jobs are kept for the time that they ask for, the permits that an operator has set for 30 days. Each grant sets it:
-- what is there may have been set by a process with another \`keepMs\`.
local function keep()
  local held = writes + reads > 0 and latest - now or 0
  redis.call('PEXPIRE', ${lock}, int(math.max(${arg('keepMs')} + held, remember - now, set_permits and 2592000000 or 0)))
end

-- A server without memory refuses HSET as the first write of a script, but neither PEXPIRE nor what follows it. Call this
-- before a change to what exists. Do not call it for a new hold or waiter: that must be refused.
local function begin_writes()
  keep()
end

-- By now, each command that may still have been under way is too old to be carried out (see remember_late).
local function forget_late()
  local newest = tonumber(string.match(late, ' (%d+);$'))
  if newest and micros - newest >= late_micros then late, floor = ';', 0 end
end

-- The value of \`s\`; nil when the lock cannot be packed.
local function packed_value()
  if first <= tail or jobs ~= '' or revoked ~= ';' or late ~= ';' or token < 1000000000000000 or set_permits then
    return nil
  end
  if writes + reads == 0 then return '1' .. int(token) end
  local hold = writes + reads == 1 and #writer <= 24 and find_hold(writer)
  if not hold or hold.owner ~= '-' or hold.token ~= int(token) or hold.since ~= math.floor(token / 1000) then return nil end
  return string.format('1%s%013.0f%010.0f%s', hold.token, hold.deadline, hold.lease, writer)
end

local function save_packed(value)
  redis.call('HSET', ${lock}, 's', value, 'released', released)
  if loaded[1] then
    redis.call('HDEL', ${lock}, 'v', 'token', 'revoked', 'late', 'floor', 'writes', 'reads', 'parked', 'owner', 'writer',
      'fence', 'due', 'seen', 'latest', 'extra', 'limit', 'permits', 'head', 'tail', 'first', 'cursor')
  end
  if writes == 0 or packed_hold then return end
  redis.call('HSET', ${lock}, 'by', text_of(writer))
  redis.call('HDEL', ${lock}, 'hold:' .. writer, 'id:' .. writer)
end

local function unpack()
  local hold = packed_hold
  packed_hold = nil
  if hold then
    write_hold(hold.attempt, hold)
    redis.call('HSET', ${lock}, 'id:' .. hold.attempt, by)
  end
  redis.call('HDEL', ${lock}, 's', 'by')
end

local function save_or_drop(field, value, was_there)
  if value then
    redis.call('HSET', ${lock}, field, int(value))
  elseif was_there then
    redis.call('HDEL', ${lock}, field)
  end
end

local function save_permits()
  save_or_drop('extra', extra > 0 and extra, loaded[23])
  save_or_drop('limit', reads > 0 and limit > 0 and limit, loaded[24])
  save_or_drop('permits', set_permits, loaded[25])
end

local function save_fields()
  redis.call('HSET', ${lock}, 'v', '1', 'token', int(token), 'released', released)
  if packed then unpack() end
  if revoked ~= ';' then redis.call('HSET', ${lock}, 'revoked', revoked) end
  if late ~= ';' then
    redis.call('HSET', ${lock}, 'late', late)
  elseif loaded[19] then
    redis.call('HDEL', ${lock}, 'late', 'floor')
  end
  if floor > 0 then redis.call('HSET', ${lock}, 'floor', int(floor)) end
  if writes + reads > 0 then
    redis.call('HSET', ${lock}, 'writes', int(writes), 'reads', int(reads), 'parked', int(parked), 'owner', owner,
      'writer', writer, 'fence', fence, 'due', int(due), 'seen', int(seen), 'latest', int(latest))
  elseif loaded[3] then
    redis.call('HDEL', ${lock}, 'writes', 'reads', 'parked', 'owner', 'writer', 'fence', 'due', 'seen', 'latest')
  end
  save_permits()
  if first <= tail then
    redis.call('HSET', ${lock}, 'head', int(head), 'tail', int(tail), 'first', int(first), 'cursor', int(cursor))
  elseif loaded[11] then
    redis.call('HDEL', ${lock}, 'head', 'tail', 'first', 'cursor')
  end
end

local function save()
  forget_late()
  local value = packed_value()
  if value then save_packed(value) else save_fields() end
  keep()
end
`,
);
