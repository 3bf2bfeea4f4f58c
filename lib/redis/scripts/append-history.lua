--- @purpose  Adds entries to the history, and drops excess or old ones. A repeated batch is added again, under the same ids.
--- @KEYS     1 the history, a stream
--- @ARGV     1 batch id, 2 maxEntries, 3 keepMs: how much is kept (empty: as long as before), 4 host, 5 pid of the process, 6 expected: what the
---           time of this server should be in ms when the command is sent, by earlier answers, 7 last: the time of the last entry of this
---           writer (both empty: unknown); then, for each entry, its age in ms when the command is sent, its key, the list of its keys as
---           JSON (empty: there is one), and all else that it has, as JSON
--- @reply    `appended batch sent last`: when it counts as sent, and the time of its last entry

-- An entry has the time at which it happened. The command may be delayed, so the time of the server when it arrives is too late; the
-- expected time is more accurate. The entries of one writer are always in order, unless the clock of the server is set back.
--- @include clock
local now = math.floor(micros / 1000)
local batch, most, keep_ms, host, pid = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local sent, last = tonumber(ARGV[6]) or now, tonumber(ARGV[7]) or 0
-- No awaited command takes five seconds: a greater difference is a jump of a clock.
if sent > now or now - sent > 5000 then sent = now end
if last > now then last = 0 end
-- First, so that a server that refuses this command has added nothing yet.
if keep_ms ~= '' then redis.call('XTRIM', KEYS[1], 'MINID', '~', string.format('%.0f', now - tonumber(keep_ms))) end
local position, number = 8, 0
while ARGV[position] do
  last = math.max(sent - tonumber(ARGV[position]), last)
  redis.call('XADD', KEYS[1], 'MAXLEN', '~', most, '*', 'id', batch .. '.' .. number,
    'at', string.format('%.0f', last), 'host', host, 'pid', pid,
    'key', ARGV[position + 1], 'keys', ARGV[position + 2], 'facts', ARGV[position + 3])
  position, number = position + 4, number + 1
end
if keep_ms ~= '' then redis.call('PEXPIRE', KEYS[1], keep_ms) end
return { 'appended', batch, string.format('%.0f', sent), string.format('%.0f', last) }
