import { type LuaScript, arg, key, lua } from './lua.js';
import { EXPIRY } from './parts/expiry.js';
import { FINGERPRINTS } from './parts/fingerprints.js';
import { HOLDS } from './parts/holds.js';
import { LIVE_HOLD } from './parts/live-hold.js';
import { NEW_LEASE } from './parts/new-lease.js';
import { SAVE } from './parts/save.js';
import { inOrder } from './parts/script-part.js';
import { STATE } from './parts/state.js';

const lock = key('lock');
const attempt = arg('attempt');
const from = arg('from');

/**
 * Makes a live hold that of another attempt, with the same token, owner and time of the grant, and extends its lease. The attempt
 * that has held it so far is remembered as released: nothing that it still sends changes anything.
 *
 * KEYS: `lock`. ARGV: `attempt` that adopts the hold, `from` that has held it so far, `token`, `leaseMs`, `holder` text for people,
 * `unanswered` (1: an acquire of `from` had no answer and may still come; it is refused then), `keepMs`, `channelPrefix`,
 * `countReceivers`.
 *
 * Reply `adopted attempt now remainingMs`, also when it is sent again, or `lost attempt now token revoked` as for renew. An attempt
 * that was released adopts nothing: its caller has given up.
 */
export const adoptScript = (clock: LuaScript<never, never>) => lua`
${clock}${inOrder(STATE, HOLDS, SAVE, EXPIRY, FINGERPRINTS, LIVE_HOLD, NEW_LEASE)}
local swept = end_expired()

-- The hold of an attempt with this token; none when it is parked.
local function hold_of(attempt)
  local hold = find_hold(attempt)
  if hold and hold.token ~= '0' and hold.token == ${arg('token')} then return hold end
end

local function take_over(hold)
  if hold == packed_hold then
    hold.attempt, by = ${attempt}, ${arg('holder')}
    redis.call('HSET', ${lock}, 'by', by)
  else
    redis.call('HDEL', ${lock}, 'hold:' .. ${from}, 'id:' .. ${from})
    redis.call('HSET', ${lock}, 'id:' .. ${attempt}, ${arg('holder')})
  end
  if writer == ${from} then writer = ${attempt} end
  if hold.mode == 'write' and hold.owner == '-' then owner = ${attempt} end
  released = with(released, ${from})
  if ${arg('unanswered')} == '1' then remember_late(${from}) end
end

-- The hold comes before any fingerprint: another attempt may have left the same one.
local hold = hold_of(${attempt})
local given_back = is_in(released, ${attempt}) or is_in_late(${attempt})
local adopted = not hold and not given_back and hold_of(${from})
if not hold and not adopted then
  hand_over_and_save(swept, false)
  local was_revoked = is_in(revoked, ${from}) or is_in(revoked, ${attempt})
  return { 'lost', ${attempt}, int(now), int(token), was_revoked and '1' or '0' }
end
begin_writes()
if adopted then
  hold = adopted
  take_over(hold)
end
return { 'adopted', ${attempt}, int(now), renew_and_save(${attempt}, hold, tonumber(${arg('leaseMs')})) }
`;
