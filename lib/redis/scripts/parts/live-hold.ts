import { arg, lua } from '../lua.js';
import { FINGERPRINTS } from './fingerprints.js';
import { HAND_OVER } from './hand-over.js';
import { HOLDS } from './holds.js';
import { SAVE } from './save.js';
import { scriptPart } from './script-part.js';
import { STATE } from './state.js';

const attempt = arg('attempt');

/** For commands that renew or change a hold: finds the hold, or builds the reply `lost`. */
export const LIVE_HOLD = scriptPart(
  {
    name: 'live-hold',
    needs: [STATE, HOLDS, SAVE, FINGERPRINTS, HAND_OVER],
    reads: 'now token revoked freed',
  },
  lua`
-- The hold of this attempt; none when it ended, or is parked.
local function live_hold()
  local hold = find_hold(${attempt})
  if hold and hold.token ~= '0' then return hold end
end

-- \`swept\`: the result of end_expired(). \`changed\`: the script has changed something itself.
local function hand_over_and_save(swept, changed)
  if freed then hand_over(nil) end
  if swept or changed then save() end
end

-- The lock's last token is greater than the caller's when another attempt was granted since.
local function lost(swept)
  hand_over_and_save(swept, false)
  return { 'lost', ${attempt}, int(now), int(token), is_in(revoked, ${attempt}) and '1' or '0' }
end
`,
);
