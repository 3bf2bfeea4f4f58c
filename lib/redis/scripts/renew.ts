import { type LuaScript, arg, key, lua } from './lua.js';
import { QUEUE } from './queue.js';
import { READING } from './reading.js';
import { STATE } from './state.js';

const lock = key('lock');
const attempt = arg('attempt');

/**
 * Sets the lease of a live hold to its full length again; never shortens it, never brings back one that has ended. A
 * hold that only reads by now, and of whose downgrade this server does not know, becomes a read hold.
 *
 * KEYS: `lock`. ARGV: `attempt`, `token`, `leaseMs`, `mode`, `keepMs`, `channelPrefix`, `countReceivers`.
 *
 * Reply `renewed attempt now remainingMs`, or `lost attempt now token revoked` with the lock's last token, which is greater
 * than the caller's when somebody else was granted since; `revoked` is 1 when an operator ended the hold, else 0.
 */
export const renewScript = (clock: LuaScript<never, never>) => lua`
${clock}${STATE}${QUEUE}${READING}
local lease = tonumber(${arg('leaseMs')})
local record = redis.call('HGET', ${lock}, 'hold:' .. ${attempt})
local hold = record and read_hold(record)
if not hold or hold.token == '0' or hold.token ~= ${arg('token')} then
  if freed then hand_over(nil) end
  if swept then save() end
  return { 'lost', ${attempt}, int(now), int(token), is_in(revoked, ${attempt}) and '1' or '0' }
end
-- The first write is one that a full server allows (HSET is not): then the ones after it are allowed, too.
keep_for(0)
if ${arg('mode')} == 'read' and hold.mode == 'write' then make_read(hold) end
hold.deadline = math.max(hold.deadline, now + lease)
hold.lease = math.max(lease, hold.deadline - now)
write_hold(${attempt}, hold)
if writes + reads == 1 then due, seen, latest = 0, 0, 0 end        -- the only hold: its deadline is known to the millisecond
bound_by(hold)
if freed then hand_over(nil) end
sweep_queue()
save()
return { 'renewed', ${attempt}, int(now), int(hold.deadline - now) }
`;
