import { type LuaScript, arg, lua } from './lua.js';
import { EXPIRY } from './parts/expiry.js';
import { FINGERPRINTS } from './parts/fingerprints.js';
import { HAND_OVER } from './parts/hand-over.js';
import { HOLDS } from './parts/holds.js';
import { MESSAGES } from './parts/messages.js';
import { SAVE } from './parts/save.js';
import { inOrder } from './parts/script-part.js';
import { STATE } from './parts/state.js';

const command = arg('attempt');

/**
 * Ends all holds of the lock that an operator has seen, including parked ones. The holders receive `revoked <attempt>`
 * before the next waiter receives its grant. The attempts are remembered as revoked, and as released.
 *
 * KEYS: `lock`. ARGV: `attempt` id of this command: when it is sent again, it leaves later grants alone; `seenToken`, the
 * last token of the lock when the operator looked: a command that arrives late leaves later grants alone; `keepMs`,
 * `channelPrefix`, `countReceivers`.
 *
 * Reply `revoked attempt now holds`, with the number of holds that were ended, or `again attempt now 0`.
 */
export const forceReleaseScript = (clock: LuaScript<never, never>) => lua`
${clock}${inOrder(STATE, HOLDS, SAVE, EXPIRY, FINGERPRINTS, MESSAGES, HAND_OVER)}
local changed = end_expired()
local held, live, outcome = {}, {}, 'revoked'

-- A later grant has a greater token. A parked hold has lost its token: the time of its grant is compared instead. A
-- re-entry is granted later than its token, which the last token of the lock makes up for.
local function was_seen(hold)
  local granted = hold.token == '0' and math.min(hold.since * 1000, token) or tonumber(hold.token)
  return granted <= tonumber(${arg('seenToken')})
end

if is_in(revoked, ${command}) then
  outcome = 'again'
elseif writes + reads > 0 then
  each_hold(function(attempt, hold)
    if was_seen(hold) then table.insert(held, { attempt = attempt, hold = hold }) end
  end)
end

begin_writes()
for _, ended in ipairs(held) do
  drop_hold(ended.attempt, ended.hold)
  count_hold(ended.hold, -1)
  if ended.hold.token ~= '0' then table.insert(live, ended.attempt) end
end
table.sort(live)
for _, attempt in ipairs(live) do
  tell(attempt, 'revoked ' .. attempt)
  released, revoked = with(released, attempt), with(revoked, attempt)
  remember_late(attempt)
end
if #held > 0 then
  revoked = with(revoked, ${command})
  changed, freed = true, true
end
if freed then hand_over(nil) end
if changed then save() end
return { outcome, ${command}, int(now), int(#held) }
`;
