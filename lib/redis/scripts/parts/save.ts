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
-- The time to live of the key is for garbage collection only: the longest of the last lease, the jobs, and \`keepMs\`, which
-- outlasts every place in the queue.
local function keep()
  local held = writes + reads > 0 and latest - now or 0
  redis.call('PEXPIRE', ${lock}, int(math.max(held, remember - now, tonumber(${arg('keepMs')}))))
end

-- A server without memory refuses HSET as the first write of a script, but neither PEXPIRE nor what follows it. Call this
-- before a change to what exists. Do not call it for a new hold or waiter: that must be refused.
local function begin_writes()
  keep()
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
