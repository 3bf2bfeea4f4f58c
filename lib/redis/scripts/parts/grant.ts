import { lua } from '../lua.js';
import { HOLDS } from './holds.js';
import { scriptPart } from './script-part.js';
import { STATE } from './state.js';

/** Decides whether one more hold may join those that exist, and writes the grant. The caller checks before it grants. */
export const GRANT = scriptPart(
  {
    name: 'grant',
    needs: [STATE, HOLDS],
    reads: 'micros now token writes reads',
    writes: 'owner writer fence',
  },
  lua`
local function admits(mode, permits)
  if writes > 0 then return false end
  return mode == 'read' and (permits == 0 or reads < permits) or reads == 0
end

-- Returns the next token; the caller sets \`token\`. Tokens always rise: by one within a microsecond, and from the clock again
-- when the hash was lost.
local function next_token()
  return math.max(token + 1, micros)
end

local function grant(attempt, mode, lease, hold_owner, hold_token)
  local hold = { deadline = now + lease, lease = lease, mode = mode, token = hold_token, since = now, owner = hold_owner }
  write_hold(attempt, hold)
  bound_by(hold)
  count_hold(hold, 1)
  if mode == 'write' then
    owner = hold_owner == '-' and attempt or hold_owner
    writer, fence = attempt, hold_token
  else
    count_owned(hold_owner, 1, hold_token)
  end
  return hold
end
`,
);
