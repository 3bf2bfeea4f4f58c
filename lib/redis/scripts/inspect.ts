import { type LuaScript, key, lua } from './lua.js';
import { inOrder } from './parts/script-part.js';
import { VERSION } from './parts/version.js';

const lock = key('lock');

/**
 * Returns everything about a lock and changes nothing; the client leaves out what has expired.
 *
 * KEYS: `lock`. Reply: the server's time in ms, then the fields and values of the hash (see parts/state.ts), flat.
 */
export const inspectScript = (clock: LuaScript<never, never>) => lua`
${clock}${inOrder(VERSION)}
local versions = redis.call('HMGET', ${lock}, 's', 'v')
refuse_newer(versions[1], versions[2])
local reply = redis.call('HGETALL', ${lock})
table.insert(reply, 1, string.sub(time, 1, -4))
return reply
`;
