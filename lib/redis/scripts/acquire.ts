import { type LuaScript, arg, lua } from './lua.js';
import { CLAIM } from './parts/claim.js';
import { EXPIRY } from './parts/expiry.js';
import { HAND_OVER } from './parts/hand-over.js';
import { QUEUE } from './parts/queue.js';
import { REQUEST } from './parts/request.js';
import { SAVE } from './parts/save.js';
import { inOrder } from './parts/script-part.js';
import { STATE } from './parts/state.js';

const attempt = arg('attempt');

/**
 * Acquires the lock, joins its queue, or keeps the place there.
 *
 * KEYS: `lock`, the lock's hash.
 * ARGV: `attempt` id of this acquisition; `owner` or `-`; `mode` write or read; `leaseMs`; `waiterLeaseMs` (0: do not
 * queue); `fair` 1 or 0; `permits` of readers (0: no limit); `holder` text for people; `sentMicros` when this command was
 * sent, by this server's clock as the client knows it (0: it does not); `maxAgeMs` after which it is refused; `keepMs`;
 * `channelPrefix`; `countReceivers` 1 when this server knows all listeners. For a fire of a job: `job`; `fireKind` (`-`
 * none, `at`, `slot`, `gap`), `fireMs` (its time, the width, the distance), `fireAgeMs` since the method was called,
 * `rememberMs` for which the key is kept, `rerun` 1 or 0 after a run without outcome.
 *
 * Reply, first the outcome, then always the attempt and the server's time in ms:
 * - `granted attempt now token remainingMs holds fireMs`: the same again when the command is sent again; `fireMs` may be
 *   empty;
 * - `busy attempt now retryMs ahead holder owner listeners unserved token`: `retryMs` until the earliest lease may end (0:
 *   unknown), `owner` of the write hold, a name or an attempt, `listeners` of the caller that this server knows (empty:
 *   unknown), `unserved` 1 when the client has to send the command again at once, to serve the queue further, `token` the
 *   last that was granted;
 * - `refused attempt now reason detail`: `released` (given back before), `late` (`detail` is the server's time in
 *   microseconds), `upgrade` (this owner reads) or `claimed` (this fire; `detail` is the attempt whose run of it has no
 *   outcome yet, otherwise empty).
 */
export const acquireScript = (clock: LuaScript<never, never>) => lua`
${clock}${inOrder(STATE, SAVE, EXPIRY, QUEUE, HAND_OVER, REQUEST, CLAIM)}
local swept = end_expired()
local stands, detail = standing(knows_attempt)
if stands ~= 'held' and stands ~= 'refused' and claimed() then stands, detail = 'refused', 'claimed' end
local function refusal_detail()
  if detail == 'late' then return int(micros) end
  return detail == 'claimed' and claimed_by() or ''
end

if stands == 'refused' then
  refuse(swept)
  return { 'refused', ${attempt}, int(now), detail, refusal_detail() }
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
`;
