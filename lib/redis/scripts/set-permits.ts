import { type LuaScript, arg, lua } from './lua.js';
import { EXPIRY } from './parts/expiry.js';
import { HAND_OVER } from './parts/hand-over.js';
import { QUEUE } from './parts/queue.js';
import { SAVE } from './parts/save.js';
import { inOrder } from './parts/script-part.js';
import { STATE } from './parts/state.js';

const command = arg('attempt');

/**
 * Sets how many permits a lock has, whatever its requests say, and grants to the waiters that fit now. Nothing is taken from
 * those who hold it. The value is kept for 30 days after the last use of the lock.
 *
 * KEYS: `lock`. ARGV: `attempt` id of this command; `permits` (0: nobody may read; `-`: the requests say again how many there
 * are); `keepMs`, `channelPrefix`, `countReceivers`.
 *
 * Reply `set attempt now`, also when it is sent again.
 */
export const setPermitsScript = (clock: LuaScript<never, never>) => lua`
${clock}${inOrder(STATE, SAVE, EXPIRY, QUEUE, HAND_OVER)}
local swept = end_expired()
local wanted = tonumber(${arg('permits')})
if wanted ~= set_permits then
  set_permits, swept, freed = wanted, true, true
  head = first        -- A waiter that was passed over may fit now.
end
if swept or set_permits then
  begin_writes()
  if freed then hand_over(nil) end
  sweep_queue()
  save()
end
return { 'set', ${command}, int(now) }
`;
