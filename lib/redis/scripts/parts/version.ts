import { key, lua } from '../lua.js';
import { scriptPart } from './script-part.js';

/** The version of the data in the hash of a lock (see state): of `s` its first character, else the value of `v`. */
export const VERSION = scriptPart(
  { name: 'version', needs: [] },
  lua`
local function refuse_newer(packed, version)
  if (packed and string.sub(packed, 1, 1) or version or '1') ~= '1' then error('NEWERDATA in ' .. ${key('lock')}) end
end
`,
);
