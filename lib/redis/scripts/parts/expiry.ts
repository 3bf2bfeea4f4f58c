import { lua } from '../lua.js';
import { HOLDS } from './holds.js';
import { SAVE } from './save.js';
import { scriptPart } from './script-part.js';
import { STATE } from './state.js';

/** Ends holds whose lease is over, and shortens leases that became too long because the clock stepped back. */
export const EXPIRY = scriptPart(
  { name: 'expiry', needs: [STATE, HOLDS, SAVE], reads: 'now writes reads due seen', writes: 'freed' },
  lua`
local function sweep()
  forget_bounds()
  each_hold(function(attempt, hold)
    if hold.deadline - now > hold.lease then
      hold.deadline = now + hold.lease
      write_hold(attempt, hold)
    end
    if hold.deadline <= now then
      drop_hold(attempt, hold)
      count_hold(hold, -1)
      freed = true
    else
      bound_by(hold)
    end
  end)
end

-- Looks at all holds when one may have ended, or when the clock stepped back. Returns whether it looked: if so, the script
-- must save.
local function end_expired()
  local is_due = writes + reads > 0 and (now >= due or now < seen)
  if is_due then
    begin_writes()
    sweep()
  end
  return is_due
end
`,
);
