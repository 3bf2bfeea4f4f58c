import { key, lua } from '../lua.js';
import { GRANT } from './grant.js';
import { HOLDS } from './holds.js';
import { MESSAGES } from './messages.js';
import { QUEUE } from './queue.js';
import { scriptPart } from './script-part.js';
import { STATE } from './state.js';

const lock = key('lock');

/**
 * Serves the first-in-first-out queue of waiters: a lock that became free is granted to the head in the very script that
 * freed it, and the grant travels with the wake-up. Such a grant lasts no longer than the waiter's lease until the new
 * holder's first renewal claims it.
 *
 * A message reaches the subscribers of replicas, too, and cannot be taken back. Therefore the listeners are counted before
 * anything is granted. A waiter without a listener is passed over; it keeps its place, and is first again when it sends its
 * request. A waiter that takes more permits than an operator has left is told to send its request, which is refused, and is
 * passed over, too.
 *
 * A script that stops after 256 places does not remember that it did: the next one takes the waiter at the head for one that was
 * told. If that one is fair, it is looked at all the same. If it must ask, and its process is dead, it delays the others until
 * its waiter lease is over, as any dead waiter may. That takes more than 256 dead waiters at once that are not fair.
 */
export const HAND_OVER = scriptPart(
  {
    name: 'hand-over',
    needs: [STATE, HOLDS, GRANT, QUEUE, MESSAGES],
    defines: 'told unserved',
    reads: 'now token head tail first freed',
    writes: 'token head first freed',
  },
  lua`
-- Grants to a waiter and publishes the grant; returns false, and takes the grant back, when nothing could be published.
local function push_grant(waiter)
  local lease = math.min(waiter.lease, waiter.waiter_lease)
  token = next_token()
  local hold = grant(waiter.attempt, waiter, lease, int(token))
  if tell(waiter.attempt, table.concat({ 'granted', waiter.attempt, int(token), int(now), int(lease) }, ' ')) then
    leave_queue(waiter.attempt, waiter.sequence)
    return true
  end
  redis.call('HDEL', ${lock}, 'hold:' .. waiter.attempt)
  if hold.mode == 'read' then count_owned(hold.owner, -1) end
  count_hold(hold, -1)
  return false
end

-- Unfair waiters race: two of different processes are woken, because the first may be stopped. A waiter that the lock would
-- not admit is not woken: behind a stopped one at the head, it would send its request and be woken again without end. False:
-- nobody listens, and the head is the last waiter that was passed over.
local function wake_some()
  local woken, count, sequence, next_head = {}, 0, head, nil
  while sequence <= tail and sequence < head + 16 and count < 2 do
    local waiter = waiter_at(int(sequence))
    local process = waiter and process_of(waiter.attempt)
    local called = waiter and waiter.fair == '0' and not woken[process] and admits(waiter)
    if called and wake(waiter) then
      woken[process] = true
      count = count + 1
    end
    if waiter and not next_head and (not called or woken[process]) then next_head = sequence end
    sequence = sequence + 1
  end
  head = count > 0 and next_head or (next_head or sequence) - 1
  return count > 0
end

-- Tells the waiter at the head, which the lock admits, to send its request. True when somebody was told: the others go on
-- waiting.
local function call(waiter)
  if waiter.fair == '0' then return wake_some() end
  return wake(waiter)
end

-- The place of the waiter that was told to send its request in its turn, or has sent it. If it waits for another key, it
-- is told again only after something was freed here: otherwise two such waiters could wake each other without end.
local told = head
-- Whether serving the queue stopped before its end, because the script had done enough.
local unserved = false

-- Serves the queue from its head as far as the lock admits. To keep each script short, the next waiter is told to send its
-- request after 64 grants, and its own script goes on; after 256 places the client must send its command once more.
-- True when it is the turn of \`me\`, the attempt of this command: the caller must grant it.
local function hand_over(me)
  local news, grants, places = freed, 0, 0
  freed = false
  while head <= tail do
    places = places + 1
    unserved = places > 256
    if unserved then return false end
    local waiter = waiter_at(int(head))
    local is_passed_over = false
    if waiter and exceeds(waiter) then
      wake(waiter)
      is_passed_over = true
    elseif waiter then
      if not admits(waiter) then break end
      if waiter.attempt == me then return true end
      local heard = waiter.fair == '1' and grants < 64 and listeners(waiter.attempt)
      if heard == nil or heard and heard > 0 then
        if not push_grant(waiter) then break end
        grants = grants + 1
      else
        if waiter.fair ~= '1' and head == told and not news then break end
        if call(waiter) then
          told = head
          break
        end
        is_passed_over = true
        if waiter.fair == '0' then places = places + 15 end        -- wake_some() has looked at 16
      end
    end
    if head == first and not is_passed_over then first = first + 1 end
    head = head + 1
  end
  return false
end
`,
);
