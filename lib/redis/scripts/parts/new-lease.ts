import { lua } from '../lua.js';
import { HAND_OVER } from './hand-over.js';
import { HOLDS } from './holds.js';
import { QUEUE } from './queue.js';
import { SAVE } from './save.js';
import { scriptPart } from './script-part.js';
import { STATE } from './state.js';

/** Gives a live hold its full lease again, never a shorter one, and saves: the end of a command that renews. */
export const NEW_LEASE = scriptPart(
  { name: 'new-lease', needs: [STATE, HOLDS, SAVE, QUEUE, HAND_OVER], reads: 'now writes reads freed' },
  lua`
-- Returns how much of the lease is left.
local function renew_and_save(attempt, hold, lease)
  extend_hold(attempt, hold, lease)
  if writes + reads == 1 then forget_bounds() end        -- the only hold: its deadline is known to the millisecond
  bound_by(hold)
  if freed then hand_over(nil) end
  sweep_queue()
  save()
  return int(hold.deadline - now)
end
`,
);
