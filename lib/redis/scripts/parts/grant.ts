import { TOKENS_OF_A_WRITER } from '../../../core/store/lock-store.js';
import { lua, verbatim } from '../lua.js';
import { HOLDS } from './holds.js';
import { scriptPart } from './script-part.js';
import { STATE } from './state.js';

const TOKENS = verbatim(String(TOKENS_OF_A_WRITER));

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

-- Returns the next token; the caller sets \`token\`. Tokens always rise, and come from the clock again when the hash was lost.
-- The process of a writer may have given the tokens behind that of its grant to its own callers, to whom it handed the lock.
-- Readers hand nothing over: beside another one, the last grant was that of a reader.
local function next_token()
  return math.max(token + (reads > 0 and 1 or ${TOKENS}), micros)
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
