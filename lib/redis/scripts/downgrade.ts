import { type LuaScript, arg, lua } from './lua.js';
import { EXPIRY } from './parts/expiry.js';
import { LIVE_HOLD } from './parts/live-hold.js';
import { MAKE_READ } from './parts/make-read.js';
import { SAVE } from './parts/save.js';
import { inOrder } from './parts/script-part.js';
import { STATE } from './parts/state.js';

const attempt = arg('attempt');

/**
 * Makes a live write hold a read hold, with the same lease and token, and lets in the readers at the head of the queue.
 * A read hold stays as it is, for example when the command is sent again.
 *
 * KEYS: `lock`. ARGV: `attempt`, `token`, `keepMs`, `channelPrefix`, `countReceivers`.
 *
 * Reply `downgraded attempt now`, or `lost attempt now token revoked` as for renew.
 */
export const downgradeScript = (clock: LuaScript<never, never>) => lua`
${clock}${inOrder(STATE, SAVE, EXPIRY, LIVE_HOLD, MAKE_READ)}
local swept = end_expired()
local hold = live_hold()
if not hold or hold.token ~= ${arg('token')} then return lost(swept) end
local changed = hold.mode == 'write'
if changed then
  begin_writes()
  make_read(hold)
end
hand_over_and_save(swept, changed)
return { 'downgraded', ${attempt}, int(now) }
`;
