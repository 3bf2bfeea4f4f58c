import { arg, lua } from '../lua.js';
import { HOLDS } from './holds.js';
import { scriptPart } from './script-part.js';
import { STATE } from './state.js';

const attempt = arg('attempt');

/** Makes the write hold of this attempt a read hold, with the same lease and token. Readers may enter then. */
export const MAKE_READ = scriptPart(
  { name: 'make-read', needs: [STATE, HOLDS], reads: 'writer', writes: 'writer freed' },
  lua`
local function make_read(hold)
  count_hold(hold, -1)
  hold.mode = 'read'
  count_hold(hold, 1)
  count_owned(hold.owner, 1, hold.token)
  write_hold(${attempt}, hold)
  if writer == ${attempt} then writer = '' end
  freed = true
end
`,
);
