import { lua } from '../lua.js';
import { scriptPart } from './script-part.js';
import { STATE } from './state.js';

/**
 * What a lock remembers of attempts that have ended, by their fingerprints. `released` and `revoked` are rings of fixed length;
 * `late` is a list with times, and `floor` stands for what it dropped.
 */
export const FINGERPRINTS = scriptPart(
  { name: 'fingerprints', needs: [STATE], reads: 'micros late late_micros floor', writes: 'late floor' },
  lua`
local function fingerprint(attempt)
  return string.sub(attempt, -8)
end

local function is_in(ring, attempt)
  return string.find(ring, ';' .. fingerprint(attempt) .. ';', 1, true) ~= nil
end

-- Returns the ring with the attempt in it; seven attempts fit.
local function with(ring, attempt)
  if is_in(ring, attempt) then return ring end
  ring = ring .. fingerprint(attempt) .. ';'
  while #ring > 64 do
    ring = string.gsub(ring, '^;[^;]*', '', 1)
  end
  return ring
end

local function is_in_late(attempt)
  return string.find(late, ';' .. fingerprint(attempt) .. ' ', 1, true) ~= nil
end

-- A command of this attempt had no answer, and may still arrive. The attempt is remembered for 20 s: by then such a command is
-- too old to be carried out (maxAcquireAgeMs, ADR 11). When there are too many attempts, the time of the oldest becomes the floor.
local function remember_late(attempt)
  if is_in_late(attempt) then return end
  local kept = {}
  for entry, at in string.gmatch(late, '([^;]+ (%d+));') do
    if micros - tonumber(at) < late_micros then table.insert(kept, entry) end
  end
  table.insert(kept, fingerprint(attempt) .. ' ' .. int(micros))
  if #kept > 16 then floor = math.max(floor, tonumber(string.match(table.remove(kept, 1), '%d+$'))) end
  late = ';' .. table.concat(kept, ';') .. ';'
end
`,
);
