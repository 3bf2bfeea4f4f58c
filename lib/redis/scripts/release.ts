import { arg, key, lua } from './lua.js';
import { defineOperation } from './operation.js';
import { EXPIRY } from './parts/expiry.js';
import { FINGERPRINTS } from './parts/fingerprints.js';
import { HAND_OVER } from './parts/hand-over.js';
import { HOLDS } from './parts/holds.js';
import { JOBS } from './parts/jobs.js';
import { MESSAGES } from './parts/messages.js';
import { QUEUE } from './parts/queue.js';
import { SAVE } from './parts/save.js';
import { inOrder } from './parts/script-part.js';
import { STATE } from './parts/state.js';

const lock = key('lock');
const attempt = arg('attempt');

/** Ends the hold of a packed lock, as the text behind it would (see acquire). */
const PLAIN_RELEASE = lua`
if ${arg('plain')} == '1' then
  local sub, attempt = string.sub, ${attempt}
  local state = redis.call('HMGET', ${lock}, 's', 'released')
  local packed, released = state[1], state[2]
  if packed and sub(packed, 41) == attempt and sub(packed, 1, 1) == '1' then
    local entry = sub(attempt, -8) .. ';'
    if now_ms < sub(packed, 18, 30) and sub(packed, 31, 40) <= ${arg('keepMs')}
      and not string.find(released, ';' .. entry, 1, true) then
      released = released .. entry
      while #released > 64 do released = sub(released, (string.find(released, ';', 2, true))) end
      local written = redis.pcall('HSET', ${lock}, 's', sub(packed, 1, 17), 'released', released)
      if type(written) == 'number' then return 'released ' .. attempt .. ' ' .. sub(packed, 2, 17) end
    end
  end
end
`;

/**
 * Ends the hold of an attempt, or removes it from the queue, and hands the lock to the next waiter. The attempt is
 * remembered for a while, so that this command may be sent twice and a late acquire of the same attempt is refused.
 *
 * A hold that has to last until `holdAtLeastMs` after its grant is parked: it stays as a hold with token 0, which nobody
 * can renew, release or re-enter, and ends with its lease.
 *
 * KEYS: `lock`. ARGV: `attempt`, `holdAtLeastMs` (0: none), `job` and `runOutcome` of its run (`-` unknown, `done`,
 * `failed`; `void`: it never began, and its fire may be claimed again), `unanswered` (1: an acquire of the attempt had no
 * answer and may still come; it is refused then), `keepMs` of 10 digits, `channelPrefix`, `countReceivers`.
 *
 * Reply, on the plain path: `released attempt token` as one text. Otherwise a list: `outcome attempt now holds token unserved`,
 * with the holds that remain and the lock's last token; `unserved` is 1 when the client has to send the command again, to serve
 * the queue further; `outcome` is `released`, `again` (this release was done before), `cancelled` (it was only waiting),
 * `expired` (the lease ended before), `revoked` (an operator ended it before) or `unknown`.
 */
export const RELEASE = defineOperation({
  kind: 'release',
  own: ['attempt'],
  plain: PLAIN_RELEASE,
  full: lua`${inOrder(STATE, HOLDS, SAVE, EXPIRY, FINGERPRINTS, QUEUE, MESSAGES, HAND_OVER, JOBS)}
local before = find_hold(${attempt})
end_expired()
begin_writes()
local outcome = 'unknown'
local hold = before and find_hold(${attempt})
local place = place_of(${attempt})
local was_first = place and tonumber(place) <= head

local function park_or_drop(hold)
  local until_ms = math.min(hold.since, now) + tonumber(${arg('holdAtLeastMs')})
  drop_hold(${attempt}, hold)
  count_hold(hold, -1)
  if writes + reads == 0 then forget_bounds() end
  -- Otherwise the key would be kept for the lease of a hold that is gone.
  if hold.deadline >= latest and latest - now > tonumber(${arg('keepMs')}) then sweep() end
  if until_ms <= now then return end
  hold = { deadline = until_ms, lease = until_ms - now, mode = hold.mode, take = hold.take, token = '0', since = hold.since,
    owner = hold.owner }
  write_hold(${attempt}, hold)
  count_hold(hold, 1)
  bound_by(hold)
end

local function forget_run(fire)
  redis.call('HDEL', ${lock}, 'run:' .. job, 'run:by:' .. job)
  local fires = string.gsub(redis.call('HGET', ${lock}, 'fires:' .. job) or ';', ';' .. fire .. ';', ';', 1)
  redis.call('HSET', ${lock}, 'fires:' .. job, fires)
end

local function end_run()
  local fire, run_attempt, started, told =
    string.match(redis.call('HGET', ${lock}, 'run:' .. job) or '', '^(%d+) (%S+) (%d+) %d+ (%S+)$')
  if run_attempt ~= ${attempt} or ${arg('runOutcome')} == '-' then return end
  if ${arg('runOutcome')} == 'void' then
    if told == '-' then forget_run(fire) end
    return
  end
  redis.call('HSET', ${lock}, 'run:' .. job, table.concat({ fire, run_attempt, started, int(now), ${arg('runOutcome')} }, ' '))
  remember_job(tonumber(${arg('keepMs')}))
end

-- The waiter that is first now must learn when the lease of the holder may end: no message tells it that a holder has died.
local function wake_head()
  local waiter = head <= tail and waiter_at(int(head))
  if waiter then wake(waiter) end
end

-- A hold or a place comes before any fingerprint: another attempt may have left the same fingerprint.
if hold and hold.token ~= '0' then
  outcome = 'released'
  freed = true
  park_or_drop(hold)
elseif place then
  outcome = 'cancelled'
  leave_queue(${attempt}, place)
  redis.call('HDEL', ${lock}, 'id:' .. ${attempt})
elseif is_in(revoked, ${attempt}) then
  outcome = 'revoked'
elseif hold or is_in(released, ${attempt}) then
  outcome = 'again'
elseif before then
  outcome = 'expired'
end
-- A run that never began leaves no fire behind, even when its lease is over.
if outcome == 'released' or ${arg('runOutcome')} == 'void' then end_run() end
released = with(released, ${attempt})
if ${arg('unanswered')} == '1' then remember_late(${attempt}) end
hand_over(nil)
if outcome == 'cancelled' and was_first then wake_head() end
sweep_queue()
save()
return { outcome, ${attempt}, int(now), int(writes + reads), int(token), unserved and '1' or '' }
`,
});
