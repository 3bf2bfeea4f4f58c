import { type LuaScript, arg, key, lua } from './lua.js';
import { EXPIRY } from './parts/expiry.js';
import { HAND_OVER } from './parts/hand-over.js';
import { HOLDS } from './parts/holds.js';
import { LIVE_HOLD } from './parts/live-hold.js';
import { MAKE_READ } from './parts/make-read.js';
import { QUEUE } from './parts/queue.js';
import { SAVE } from './parts/save.js';
import { inOrder } from './parts/script-part.js';
import { STATE } from './parts/state.js';

const lock = key('lock');
const attempt = arg('attempt');

/** Extends the lease of a packed lock, as the text behind it would (see acquire). */
const PLAIN_RENEW = lua`
if ${arg('mode')} == 'write' then
  local packed = redis.call('HGET', ${lock}, 's')
  if packed and string.sub(packed, 1, 1) == '1' and string.sub(packed, 41) == ${attempt} then
    local now = string.format('%.0f', math.floor(micros / 1000))
    local deadline = string.format('%.0f', now + ${arg('leaseMs')})
    local before = string.sub(packed, 18, 30)
    if string.sub(packed, 2, 17) == ${arg('token')} and now < before and before <= deadline then
      redis.call('PEXPIRE', ${lock}, ${arg('ttlMs')})
      redis.call('HSET', ${lock}, 's', string.sub(packed, 1, 17) .. deadline .. ${arg('leaseMs')} .. ${attempt})
      return 'renewed ' .. ${attempt} .. ' ' .. now .. ' ' .. ${arg('leaseMs')}
    end
  end
end
`;

/**
 * Extends the lease of a live hold to its full length again; never shortens it, and never brings back a hold that has
 * ended. A write hold that its client has downgraded becomes a read hold, as this server has missed the downgrade.
 *
 * KEYS: `lock`. ARGV: `attempt`, `token`, `leaseMs` of 10 digits, `mode`, `keepMs`, `channelPrefix`, `countReceivers`; for
 * the plain path `ttlMs`, the time to live of the key.
 *
 * Reply, as a list or, on the plain path, as one text with blanks between: `renewed attempt now remainingMs`, or `lost attempt now token revoked` with the lock's last token, which is greater
 * than the caller's when another attempt was granted since; `revoked` is 1 when an operator ended the hold, else 0.
 */
export const renewScript = (clock: LuaScript<never, never>) => lua`
${clock}${PLAIN_RENEW}${inOrder(STATE, HOLDS, SAVE, EXPIRY, QUEUE, HAND_OVER, LIVE_HOLD, MAKE_READ)}
local swept = end_expired()
local hold = live_hold()
if not hold or hold.token ~= ${arg('token')} then return lost(swept) end
begin_writes()
if ${arg('mode')} == 'read' and hold.mode == 'write' then make_read(hold) end
extend_hold(${attempt}, hold, tonumber(${arg('leaseMs')}))
if writes + reads == 1 then forget_bounds() end        -- the only hold: its deadline is known to the millisecond
bound_by(hold)
if freed then hand_over(nil) end
sweep_queue()
save()
return { 'renewed', ${attempt}, int(now), int(hold.deadline - now) }
`;
