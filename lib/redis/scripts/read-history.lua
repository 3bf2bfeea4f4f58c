--- @purpose  Reads a part of the history from its end, and changes nothing.
--- @KEYS     1 the history, a stream
--- @ARGV     1 question: another text each time, which identifies its reply, 2 before which entry, or `+` for the last one,
---           3 most entries to look at, 4 the key which the entries are about, or empty for all of them, 5 the same as a text of JSON
--- @reply    `entries question looked last`: how many entries it has looked at, and the last of them; then, of each entry that fits, its `id`,
---           `at`, `host`, `pid`, `key`, `keys` and `facts`. If an entry has several keys, each counts; an entry without a key always fits.

local question, before, wanted, quoted = ARGV[1], ARGV[2], ARGV[4], ',' .. ARGV[5] .. ','
local from = before == '+' and before or '(' .. before
local entries = redis.call('XREVRANGE', KEYS[1], from, '-', 'COUNT', ARGV[3])
local reply = { 'entries', question, #entries, #entries > 0 and entries[#entries][1] or '' }
-- In the list of the keys, a quote behind a comma begins a key, and one before a comma ends it: others are escaped.
local function fits(key, keys)
  if wanted == '' or key == '' then return true end
  if keys == '' then return key == wanted end
  return string.find(',' .. string.sub(keys, 2, -2) .. ',', quoted, 1, true) ~= nil
end
for i = 1, #entries do
  local texts, fields = entries[i][2], {}
  for j = 1, #texts, 2 do fields[texts[j]] = texts[j + 1] end
  if fits(fields.key or '', fields.keys or '') then
    for _, name in ipairs({ 'id', 'at', 'host', 'pid', 'key', 'keys', 'facts' }) do reply[#reply + 1] = fields[name] or '' end
  end
end
return reply
