import { arg, key, lua } from '../lua.js';
import { scriptPart } from './script-part.js';
import { STATE } from './state.js';

const lock = key('lock');

/** Writes what a script has changed, and how long Redis keeps the key. */
export const SAVE = scriptPart(
  {
    name: 'save',
    needs: [STATE],
    reads:
      'now token released writes reads parked owner writer fence due seen head tail revoked latest first cursor floor ' +
      'remember late was_held was_queued',
  },
  lua`
-- A full server refuses HSET as the first write of a script, but neither HDEL nor the writes after it. No such field
-- exists. A script calls this before it changes existing records; a new hold or waiter has to be refused.
local function begin_writes()
  redis.call('HDEL', ${lock}, 'none')
end

-- The key's own time to live is garbage collection only: as long as anything in the hash lives, and at least \`keepMs\`,
-- which outlasts every place in the queue.
local function keep()
  local held = writes + reads > 0 and latest - now or 0
  redis.call('PEXPIRE', ${lock}, int(math.max(held, remember - now, tonumber(${arg('keepMs')}))))
end

local function save()
  redis.call('HSET', ${lock}, 'token', int(token), 'released', released)
  if revoked ~= ';' then redis.call('HSET', ${lock}, 'revoked', revoked) end
  if late ~= ';' then redis.call('HSET', ${lock}, 'late', late) end
  if floor > 0 then redis.call('HSET', ${lock}, 'floor', int(floor)) end
  if writes + reads > 0 then
    redis.call('HSET', ${lock}, 'writes', int(writes), 'reads', int(reads), 'parked', int(parked), 'owner', owner,
      'writer', writer, 'fence', fence, 'due', int(due), 'seen', int(seen), 'latest', int(latest))
  elseif was_held then
    redis.call('HDEL', ${lock}, 'writes', 'reads', 'parked', 'owner', 'writer', 'fence', 'due', 'seen', 'latest')
  end
  if first <= tail then
    redis.call('HSET', ${lock}, 'head', int(head), 'tail', int(tail), 'first', int(first), 'cursor', int(cursor))
  elseif was_queued then
    redis.call('HDEL', ${lock}, 'head', 'tail', 'first', 'cursor')
  end
  keep()
end
`,
);
