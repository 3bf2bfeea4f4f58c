import { TOKENS_OF_A_WRITER } from '../../core/store/lock-store.js';
import { arg, key, lua, verbatim } from './lua.js';
import { NEW_DEADLINE, defineOperation } from './operation.js';
import { CLAIM } from './parts/claim.js';
import { EXPIRY } from './parts/expiry.js';
import { HAND_OVER } from './parts/hand-over.js';
import { QUEUE } from './parts/queue.js';
import { REQUEST } from './parts/request.js';
import { SAVE } from './parts/save.js';
import { inOrder } from './parts/script-part.js';
import { STATE } from './parts/state.js';

const TOKENS = verbatim(String(TOKENS_OF_A_WRITER));

const lock = key('lock');
const attempt = arg('attempt');

/**
 * Grants a lock that is packed, or new, and free, or whose lease is over, to a writer without an owner; writes what the text
 * behind it would write. Whatever it leaves alone is for that text. No function is defined before it: that would cost more than
 * all it does. Times are compared as texts of equal length.
 */
const PLAIN_ACQUIRE = lua`
if ${arg('plain')} == '1' and #time == 16 then
  local sub, attempt, lease = string.sub, ${attempt}, ${arg('leaseMs')}
  local state = redis.call('HMGET', ${lock}, 's', 'released', 'v')
  local packed, released = state[1], state[2]
  local is_free = not released and not state[3]
  if packed then
    latest_free = latest_free or string.format('%.0f', time - ${TOKENS})
    is_free = sub(packed, 1, 1) == '1' and sub(packed, 2, 17) <= latest_free
      and (#packed == 17 or sub(packed, 18, 30) <= now_ms)
      and not string.find(released, ';' .. sub(attempt, -8) .. ';', 1, true)
  end
  if is_free and ${arg('sentMicros')} <= time and time <= ${arg('untilMicros')} and #attempt <= 24 then
    ${NEW_DEADLINE}
    local value = '1' .. time .. new_deadline .. lease .. attempt
    local written = packed and redis.pcall('HSET', ${lock}, 's', value, 'by', ${arg('holder')})
      or redis.pcall('HSET', ${lock}, 's', value, 'by', ${arg('holder')}, 'released', ';')
    if type(written) == 'number' then
      redis.call('PEXPIRE', ${lock}, ${arg('ttlMs')})
      return 'granted ' .. attempt .. ' ' .. time
    end
  end
end
`;

/**
 * Acquires the lock, joins its queue, or keeps the place there.
 *
 * KEYS: `lock`, the lock's hash.
 * ARGV: `attempt` id of this acquisition; `owner` or `-`; `mode` write or read; `leaseMs`, of 10 digits; `waiterLeaseMs`
 * (0: do not queue); `fair` 1 or 0; `maxWaiters` (0: any number of others may wait when it joins the queue); `permits` of readers
 * (0: no limit), of which it takes `take`; `holder` text for people; `sentMicros` when this command was
 * sent, by this server's clock as the client knows it (0: it does not), `untilMicros` after which it is refused, both with 16
 * digits; `keepMs`; `channelPrefix`; `countReceivers` 1 when this server knows all listeners. For a fire of a job: `job`;
 * `fireKind` (`-` none, `at`, `slot`, `gap`), `fireMs` (its time, the width, the distance), `fireAgeMs` since the method was
 * called, `rememberMs` for which the key is kept, `rerun` 1 or 0 after a run without outcome. For the plain path: `plain` 1
 * for a writer without an owner and without a fire, and `ttlMs`, the time to live of the key.
 *
 * Reply, on the plain path: `granted attempt token` as one text; the token is the server's time in microseconds, the lease as
 * long as it was asked for. Otherwise a list: first the outcome, then always the attempt and the server's time in ms:
 * - `granted attempt now token remainingMs holds fireMs`: the same again when the command is sent again; `fireMs` may be
 *   empty;
 * - `busy attempt now retryMs ahead holder owner listeners unserved token full permits`: `retryMs` until the earliest lease may end (0:
 *   unknown), `owner` of the write hold, a name or an attempt, `listeners` of the caller that this server knows (empty:
 *   unknown), `unserved` 1 when the client has to send the command again at once, to serve the queue further, `token` the
 *   last that was granted, `full` 1 when the attempt did not join the queue because of `maxWaiters`, `permits` how many an
 *   operator has set (empty: none);
 * - `refused attempt now reason detail`: `released` (given back before), `late` (`detail` is the server's time in
 *   microseconds), `permits` (it takes more than `detail`, which an operator has set), `upgrade` (this owner reads) or `claimed` (this fire; `detail` is the attempt whose run of it has no
 *   outcome yet, otherwise empty).
 */
export const ACQUIRE = defineOperation({
  kind: 'acquire',
  own: ['attempt', 'sentMicros', 'untilMicros'],
  plain: PLAIN_ACQUIRE,
  full: lua`${inOrder(STATE, SAVE, EXPIRY, QUEUE, HAND_OVER, REQUEST, CLAIM)}
local swept = end_expired()
local stands, detail = standing(knows_attempt)
if stands ~= 'held' and stands ~= 'refused' and claimed() then stands, detail = 'refused', 'claimed' end
if stands == 'refused' then
  refuse(swept)
  return { 'refused', ${attempt}, int(now), detail, detail == 'claimed' and claimed_by() or refusal_detail(detail) }
end

if stands == 'waiting' then
  check_place()
  if has_turn() then stands = 'entering' end
end
local hold, reply
if stands == 'held' then
  hold = detail
  extend(hold)
elseif stands == 'entering' then
  hold = take(detail)
  record_run()
elseif waiter_lease > 0 and is_full() then
  if freed then hand_over(nil) end
  reply = busy_reply()
else
  -- A fire is checked again when it is granted, so it cannot be handed over: \`fair\` is 2.
  join_queue(fair == '1' and kind ~= '-' and '2' or fair)
  if fair ~= '1' then hand_over(${attempt}) end
  reply = busy_reply()
end
sweep_queue()
save()
return reply or { 'granted', ${attempt}, int(now), hold.token, int(hold.deadline - now), int(writes + reads),
  fire_of_mine() }
`,
});
