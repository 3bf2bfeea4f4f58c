import { lua } from '../lua.js';

/**
 * The one place where a script reads the time: the server's clock in microseconds, as a Lua number (exact below 2^53,
 * that is until the year 2255). It is read once per script, because Redis before 7.2 lets it advance inside one.
 */
export const SERVER_CLOCK = lua`
local time = redis.call('TIME')
local micros = tonumber(time[1]) * 1000000 + tonumber(time[2])
`;
