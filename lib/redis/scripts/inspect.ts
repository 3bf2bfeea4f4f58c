import { type LuaScript, key, lua } from './lua.js';

/**
 * Returns everything about a lock and changes nothing; the client leaves out what has expired.
 *
 * KEYS: `lock`. Reply: the server's time in ms, then the fields and values of the hash (see parts/state.ts), flat.
 */
export const inspectScript = (clock: LuaScript<never, never>) => lua`
${clock}
local reply = redis.call('HGETALL', ${key('lock')})
table.insert(reply, 1, string.format('%.0f', math.floor(server_time() / 1000)))
return reply
`;
