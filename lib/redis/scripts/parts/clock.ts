import { lua } from '../lua.js';

/**
 * The one place where a script reads the time: the server's clock in microseconds, as a text of 16 digits (until the year
 * 2286; as a Lua number, it is exact below 2^53, until 2255). It is read once per script, because Redis before 7.2 lets it
 * advance inside one.
 */
export const SERVER_CLOCK = lua`
local reading = redis.call('TIME')
local time = reading[1] .. string.sub('000000' .. reading[2], -6)
`;
