import { type LuaScript, arg, lua } from './lua.js';
import { EXPIRY } from './parts/expiry.js';
import { HAND_OVER } from './parts/hand-over.js';
import { HOLDS } from './parts/holds.js';
import { LIVE_HOLD } from './parts/live-hold.js';
import { MAKE_READ } from './parts/make-read.js';
import { QUEUE } from './parts/queue.js';
import { SAVE } from './parts/save.js';
import { inOrder } from './parts/script-part.js';
import { STATE } from './parts/state.js';

const attempt = arg('attempt');

/**
 * Extends the lease of a live hold to its full length again; never shortens it, and never brings back a hold that has
 * ended. A write hold that its client has downgraded becomes a read hold, as this server has missed the downgrade.
 *
 * KEYS: `lock`. ARGV: `attempt`, `token`, `leaseMs`, `mode`, `keepMs`, `channelPrefix`, `countReceivers`.
 *
 * Reply `renewed attempt now remainingMs`, or `lost attempt now token revoked` with the lock's last token, which is greater
 * than the caller's when another attempt was granted since; `revoked` is 1 when an operator ended the hold, else 0.
 */
export const renewScript = (clock: LuaScript<never, never>) => lua`
${clock}${inOrder(STATE, HOLDS, SAVE, EXPIRY, QUEUE, HAND_OVER, LIVE_HOLD, MAKE_READ)}
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
