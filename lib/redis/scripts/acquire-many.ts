import { type LuaScript, arg, lua, overManyKeys } from './lua.js';
import { EXPIRY } from './parts/expiry.js';
import { HAND_OVER } from './parts/hand-over.js';
import { QUEUE } from './parts/queue.js';
import { REQUEST } from './parts/request.js';
import { SAVE } from './parts/save.js';
import { inOrder } from './parts/script-part.js';
import { STATE } from './parts/state.js';

const attempt = arg('attempt');

/**
 * Acquires several locks, all or none, or waits without holding any. It has a place in the queue of each lock up to the
 * first that is busy. All calls name their keys in the same order, so no two of them wait for each other, not even when
 * one of them holds an earlier key and requests a later one.
 *
 * KEYS: `lock`, the hashes of 2 to 16 locks. ARGV: as for acquire, without those of a fire; `owner` re-enters each lock.
 *
 * Reply: `granted attempt now remainingMs token1 token2 ...` with the shortest lease and a token for each key, in order;
 * `busy` as for acquire, about the first busy lock; `refused` as for acquire.
 */
export const acquireManyScript = (clock: LuaScript<never, never>) =>
  overManyKeys(lua`
${clock}
-- One of the locks. In this function, KEYS contains only its key, as in a script for one lock.
local function at(lock_key)
local KEYS = { lock_key }
${inOrder(STATE, SAVE, EXPIRY, QUEUE, HAND_OVER, REQUEST)}
  local swept
  local this = { busy_reply = busy_reply, knows_attempt = knows_attempt }

  function this.begin()
    swept = end_expired()
  end

  function this.stand(is_known)
    this.stands, this.detail = standing(is_known)
  end

  function this.refuse()
    refuse(swept)
  end

  function this.refusal_detail()
    return refusal_detail(this.detail)
  end

  function this.check_turn()
    check_place()
    this.has_turn = this.stands ~= 'waiting' or has_turn()
    return this.has_turn
  end

  function this.take_or_extend()
    local hold = this.detail
    if this.stands == 'held' then extend(hold) else hold = take(this.detail) end
    return hold.token, hold.deadline - now
  end

  -- An attempt does not wait for a lock that it holds, or enters with its owner.
  function this.wait()
    if this.stands == 'waiting' or place then join_queue(fair == '1' and '2' or fair) end
    if fair ~= '1' or freed then hand_over(${attempt}) end
  end

  function this.is_full()
    return waiter_lease > 0 and is_full()
  end

  -- A place holds back those behind it, and one of them may hold what this attempt waits for.
  function this.wait_no_more()
    leave_place()
    if freed then hand_over(nil) end
  end

  function this.finish()
    sweep_queue()
    save()
  end
  return this
end

local now = string.sub(time, 1, -4)
local locks, refusal = {}, nil        -- of the first lock that refuses it
-- A key of another type fails here, before anything is written.
for i, lock_key in ipairs(KEYS) do locks[i] = at(lock_key) end
for _, lock in ipairs(locks) do lock.begin() end

-- An attempt that is known at one of the locks is not late, though it may wait for only that one.
local function is_known()
  for _, lock in ipairs(locks) do
    if lock.knows_attempt() then return true end
  end
  return false
end

for _, lock in ipairs(locks) do
  lock.stand(is_known)
  if lock.stands == 'refused' then refusal = refusal or lock end
end
if refusal then
  for _, lock in ipairs(locks) do lock.refuse() end
  return { 'refused', ${attempt}, now, refusal.detail, refusal.refusal_detail() }
end

local busy = nil
for _, lock in ipairs(locks) do
  if not lock.check_turn() then busy = busy or lock end
end

local reply = { 'granted', ${attempt}, now, '' }
local shortest, past_busy = math.huge, busy and busy.is_full()
for _, lock in ipairs(locks) do
  if past_busy then
    lock.wait_no_more()
  elseif busy then
    lock.wait()
    past_busy = lock == busy
  else
    local hold_token, remaining = lock.take_or_extend()
    table.insert(reply, hold_token)
    shortest = math.min(shortest, remaining)
  end
end
if busy then reply = busy.busy_reply() else reply[4] = string.format('%.0f', shortest) end
for _, lock in ipairs(locks) do lock.finish() end
return reply
`);
