import { arg, lua } from './lua.js';

const attempt = arg('attempt');

/** Makes a write hold a read hold, with the same lease and token. Needs STATE before it. */
export const READING = lua`
local function make_read(hold)
  count_hold(hold, -1)
  hold.mode = 'read'
  count_hold(hold, 1)
  count_owned(hold.owner, 1, hold.token)
  write_hold(${attempt}, hold)
  if writer == ${attempt} then writer = '' end
  freed = true
end
`;
