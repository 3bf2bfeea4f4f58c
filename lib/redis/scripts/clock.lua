-- The server's clock in microseconds, read once: before 7.2, Redis lets it advance inside a script. As a Lua number it is exact
-- below 2^53, until 2255.
local reading = redis.call('TIME')
local micros = reading[1] * 1000000 + reading[2]
