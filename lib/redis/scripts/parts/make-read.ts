import { TOKENS_OF_A_WRITER } from '../../../core/store/lock-store.js';
import { arg, lua, verbatim } from '../lua.js';
import { HOLDS } from './holds.js';
import { scriptPart } from './script-part.js';
import { STATE } from './state.js';

const TOKENS = verbatim(String(TOKENS_OF_A_WRITER));

const attempt = arg('attempt');

/** Makes the write hold of this attempt a read hold, with the same lease and token. Readers may enter then. */
export const MAKE_READ = scriptPart(
  { name: 'make-read', needs: [STATE, HOLDS], reads: 'writer token', writes: 'writer token freed' },
  lua`
local function make_read(hold)
  count_hold(hold, -1)
  hold.mode = 'read'
  count_hold(hold, 1)
  count_owned(hold.owner, 1, hold.token)
  write_hold(${attempt}, hold)
  if writer == ${attempt} then writer = '' end
  -- The hold may have a token behind its first one (see \`next_token()\`). The readers who enter now need greater ones.
  token = math.max(token, hold.token + ${TOKENS} - 1)
  freed = true
end
`,
);
