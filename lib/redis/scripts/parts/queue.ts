import { key, lua } from '../lua.js';
import { scriptPart } from './script-part.js';
import { STATE } from './state.js';

const lock = key('lock');

/** The waiters (`queue:`) and their places (`place:`). A waiter has a lease of its own, so that a dead one leaves the queue. */
export const QUEUE = scriptPart(
  {
    name: 'queue',
    needs: [STATE],
    reads: 'now head tail first cursor',
    writes: 'head first cursor',
  },
  lua`
local function place_of(attempt)
  return string.match(redis.call('HGET', ${lock}, 'place:' .. attempt) or '', '^%d+')
end

local function leave_queue(attempt, sequence)
  redis.call('HDEL', ${lock}, 'queue:' .. sequence, 'place:' .. attempt)
end

-- Returns the waiter at this place, or nil. A waiter whose lease is over leaves the queue.
local function waiter_at(sequence)
  local record = redis.call('HGET', ${lock}, 'queue:' .. sequence)
  if not record then return nil end
  local deadline, waiter_lease, mode, take, fair, permits, lease, waiter_owner, attempt =
    string.match(record, '^(%d+) (%d+) (%a+)(%d*) (%d) (%d+) (%d+) (%S+) (%S+)$')
  deadline, waiter_lease = tonumber(deadline), tonumber(waiter_lease)
  -- More is left than was ever granted: the clock stepped back, and how long the waiter has waited is unknown.
  if deadline - now > waiter_lease then
    deadline = now + waiter_lease
    redis.call('HSET', ${lock}, 'queue:' .. sequence, (string.gsub(record, '^%d+', int(deadline), 1)))
  end
  if deadline <= now then
    leave_queue(attempt, sequence)
    redis.call('HDEL', ${lock}, 'id:' .. attempt)
    return nil
  end
  return { attempt = attempt, mode = mode, take = tonumber(take) or 1, fair = fair, permits = tonumber(permits),
    lease = tonumber(lease), waiter_lease = waiter_lease, owner = waiter_owner, sequence = sequence }
end

-- Removes waiters that died behind a live one. Each script looks at a few places, and at more while it finds them empty, up to
-- a limit that keeps it short.
local function sweep_queue()
  local places, live = math.min(tail - first + 1, 512), 0
  while places > 0 and live < 8 do
    if cursor < first or cursor > tail then cursor = first end
    if waiter_at(int(cursor)) then
      live = live + 1
    else
      live = 0
      if cursor == first then first = first + 1 end
    end
    cursor, places = cursor + 1, places - 1
  end
  head = math.max(head, first)
end
`,
);
