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
    reads: 'micros now token writes reads extra set_permits',
    writes: 'owner writer fence limit',
  },
  lua`
-- \`asked\`: the \`mode\`, \`permits\` and \`take\` of a request. What an operator has set counts for all of them.
local function admits(asked)
  if writes > 0 then return false end
  local permits = set_permits or asked.permits
  local is_unlimited = permits == 0 and not set_permits
  return asked.mode == 'read' and (is_unlimited or reads + extra + asked.take <= permits) or reads == 0
end

-- Whether a request takes more permits than there are: it would wait until an operator adds some.
local function exceeds(asked)
  return asked.mode == 'read' and set_permits and asked.take > set_permits
end

-- Returns the next token; the caller sets \`token\`. Tokens always rise, and come from the clock again when the hash was lost.
-- The process of a writer may have given the tokens behind that of its grant to its own callers, to whom it handed the lock.
-- Readers hand nothing over: beside another one, the last grant was that of a reader.
local function next_token()
  return math.max(token + (reads > 0 and 1 or ${TOKENS}), micros)
end

local function grant(attempt, asked, lease, hold_token)
  local mode, hold_owner = asked.mode, asked.owner
  local hold = { deadline = now + lease, lease = lease, mode = mode, take = asked.take, token = hold_token, since = now,
    owner = hold_owner }
  write_hold(attempt, hold)
  bound_by(hold)
  count_hold(hold, 1)
  if mode == 'write' then
    owner = hold_owner == '-' and attempt or hold_owner
    writer, fence = attempt, hold_token
  else
    count_owned(hold_owner, 1, hold_token)
    limit = asked.permits
  end
  return hold
end
`,
);
