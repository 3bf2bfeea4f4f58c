-- What a script finds on a Redis server, for one run after the other. A run receives the keys that it declares, and returns what it
-- changed: the server keeps the data. Only what scripts of the library use is here; everything else is an error.
collectgarbage('setpause', 1000)
local raw_pcall, type, tonumber = pcall, type, tonumber
local byte, char, concat, find, floor, format, gmatch, gsub, match, sub = string.byte, string.char, table.concat, string.find,
  math.floor, string.format, string.gmatch, string.gsub, string.match, string.sub

-- Of this run.
local keys                    -- by name: the position in KEYS
local hashes                  -- by name: a hash, false for no key, or STRANGER; an error for a key that was not declared
local changed                 -- the keys that this step has changed
local tags, texts, lengths    -- what the run returns: what happened, in order, and then the reply
local count                   -- of the texts
local has_written, refusal, counts_text, clock

local counts_known, counts = nil, {}

-- The hashes as they were left, by the numbers that the server knows them by.
local kept, last_number = {}, 0

local ERROR = { __tostring = function(problem) return problem.err end }

local function fail(text)
  error(setmetatable({ err = text }, ERROR), 0)
end

local EMPTY = { values = {}, order = {} }
-- A value that is not a hash: reading a field fails.
local STRANGER = { order = {}, values = setmetatable({}, {
  __index = function() fail('WRONGTYPE Operation against a key holding the wrong kind of value') end,
}) }
local DECLARED = { __index = function(_, name)
  fail('ERR Script attempted to access a non local key in a cluster node: ' .. name)
end }

local function emit(tag, text)
  tags[#tags + 1] = tag
  count = count + 1
  texts[count], lengths[count] = text, #text
end

-- A hash remembers the order in which its fields were added, as a small one in Redis does.
local function new_hash()
  return { order = {}, places = {}, values = {}, length = 0, size = 0 }
end

-- Leaves out the places of fields that were taken out.
local function compact(hash)
  local order, places, n = {}, {}, 0
  for _, field in ipairs(hash.order) do
    if field and hash.values[field] ~= nil then
      n = n + 1
      order[n], places[field] = field, n
    end
  end
  hash.order, hash.places, hash.length = order, places, n
end

-- A field that was not there. Where one was taken out before, its old place stays empty.
local function add(hash, field)
  if hash.length > 2 * hash.size + 32 then compact(hash) end
  local place = hash.places[field]
  if place then hash.order[place] = false end
  place = hash.length + 1
  hash.order[place], hash.places[field], hash.length, hash.size = field, place, place, hash.size + 1
end

local function flat(hash)
  local list, n, values = {}, 0, hash.values
  for _, field in ipairs(hash.order) do
    local value = field and values[field]
    if value then
      list[n + 1], list[n + 2] = field, value
      n = n + 2
    end
  end
  return list
end

-- The fields that this step may have changed; nil if it has not written the key.
local function touched_of(name)
  local touched = changed[name]
  if touched then return touched end
  touched = {}
  changed[name], changed[#changed + 1] = touched, name
  return touched
end

-- The changes of a step: the run of a function that the script protects, such as one operation of a batch; or what is left.
local function end_step()
  for i = 1, #changed do
    local name = changed[i]
    local hash, touched = hashes[name], changed[name]
    if hash and hash.size > 0 then
      last_number = last_number + 1
      kept[hash.number or 0], kept[last_number], hash.number = nil, hash, last_number
      emit('c', keys[name] .. ' ' .. last_number .. ' ' .. (hash.expires or ''))
      for j = 1, #touched do
        local field = touched[j]
        local value = hash.values[field]
        emit('f', field)
        if value then emit('v', value) else tags[#tags + 1] = '-' end
      end
    else
      emit('d', keys[name] .. '')
    end
  end
  tags[#tags + 1], changed = '/', {}
end

-- How many protected functions are running, one inside the other: the outermost one is a step.
local depth = 0
local function after_step(...)
  depth = depth - 1
  if depth == 0 then end_step() end
  return ...
end

-- Redis checks the first write of a script only: nothing refuses what follows.
local function begin_write(needs_memory)
  if not has_written and refusal ~= '' and (needs_memory or sub(refusal, 1, 3) ~= 'OOM') then fail(refusal) end
  has_written = true
end

local function listeners(channel)
  if counts_known ~= counts_text then
    counts_known, counts = counts_text, {}
    for name, count in gmatch(counts_text, '([^\n]*)\n(%d+)\n') do counts[name] = tonumber(count) end
  end
  return counts[channel] or 0
end

-- As Redis writes a number as an argument. Call it for what is not a string.
local function text_of(value)
  if type(value) == 'number' then return format('%.17g', value) end
  if type(value) ~= 'string' then fail('ERR Lua redis lib command arguments must be strings or integers') end
  return value
end

local commands = {}

function commands.TIME()
  return { match(clock, '^(%d+) (%d+)$') }
end

function commands.HGET(name, field)
  local values = (hashes[name] or EMPTY).values
  return values[field] or values[text_of(field)] or false
end

function commands.HMGET(name, ...)
  local values, reply = (hashes[name] or EMPTY).values, { ... }
  for i = 1, #reply do
    local field = reply[i]
    if type(field) ~= 'string' then field = text_of(field) end
    reply[i] = values[field] or false
  end
  return reply
end

function commands.HGETALL(name)
  local hash = hashes[name] or EMPTY
  -- Something else fails here.
  if hash == STRANGER then return hash.values[''] end
  return flat(hash)
end

function commands.HSET(name, ...)
  begin_write(true)
  local hash, added, given = hashes[name], 0, { ... }
  if #given == 0 or #given % 2 == 1 then fail("ERR wrong number of arguments for 'hset' command") end
  if not hash then
    hash = new_hash()
    hashes[name] = hash
  end
  local values = hash.values
  local touched = hash ~= STRANGER and touched_of(name) or values['']
  for i = 1, #given, 2 do
    local field, value = given[i], given[i + 1]
    if type(field) ~= 'string' then field = text_of(field) end
    if type(value) ~= 'string' then value = text_of(value) end
    local before = values[field]
    if before ~= value then
      if before == nil then
        add(hash, field)
        added = added + 1
      end
      values[field] = value
      touched[#touched + 1] = field
    end
  end
  return added
end

function commands.HDEL(name, ...)
  begin_write(false)
  local hash, removed, given = hashes[name] or EMPTY, 0, { ... }
  local values = hash.values
  for i = 1, #given do
    local field = text_of(given[i])
    if values[field] ~= nil then
      values[field], hash.size, removed = nil, hash.size - 1, removed + 1
      local touched = touched_of(name)
      touched[#touched + 1] = field
    end
  end
  if hash.size == 0 then hashes[name] = false end
  return removed
end

local function expire_at(name, at, is_over)
  begin_write(false)
  local hash = hashes[name]
  if not hash or hash == STRANGER then return hash and 1 or 0 end
  touched_of(name)
  if is_over then hashes[name] = false else hash.expires = format('%.0f', at) end
  return 1
end

local function whole(value)
  local text = text_of(value)
  if not find(text, '^%-?%d+$') then fail('ERR value is not an integer or out of range') end
  return tonumber(text)
end

function commands.PEXPIRE(name, ms)
  local seconds, micros = match(clock, '^(%d+) (%d+)$')
  return expire_at(name, seconds * 1000 + floor(micros / 1000) + whole(ms), whole(ms) <= 0)
end

function commands.PEXPIREAT(name, at)
  return expire_at(name, whole(at), false)
end

function commands.PUBLISH(channel, message)
  emit('m', text_of(channel))
  emit('t', text_of(message))
  return listeners(channel)
end

function commands.PUBSUB(what, ...)
  if what ~= 'NUMSUB' then fail('ERR unknown subcommand') end
  local reply = {}
  for _, channel in ipairs({ ... }) do
    reply[#reply + 1] = channel
    reply[#reply + 1] = listeners(channel)
  end
  return reply
end

-- Redis's `struct`, as far as scripts use it: `B` and `I1` to `I7` unsigned, `cN` and `c0` texts; `>` and `<` the order of bytes behind it.
local struct, parts_of = {}, {}

local function parse(formats)
  local parts, is_big = {}, false
  if find(gsub(formats, '%d', ''), '[^<>BIc]') then fail('ERR invalid format option') end
  for kind, count in gmatch(formats, '([<>BIc])(%d*)') do
    if kind == '<' or kind == '>' then
      is_big = kind == '>'
    else
      parts[#parts + 1] = { is_text = kind == 'c', is_big = is_big, width = kind == 'B' and 1 or tonumber(count) or kind == 'I' and 4 or 1 }
    end
  end
  parts_of[formats] = parts
  return parts
end

function struct.pack(formats, ...)
  local texts = { ... }
  for i, part in ipairs(parts_of[formats] or parse(formats)) do
    local value, width = texts[i], part.width
    if part.is_text then
      value = text_of(value)
      if #value < width then fail('ERR string too short') end
      texts[i] = width == 0 and value or sub(value, 1, width)
    else
      local bytes, rest = {}, floor(tonumber(value))
      for place = 1, width do
        bytes[part.is_big and width + 1 - place or place] = rest % 256
        rest = floor(rest / 256)
      end
      texts[i] = char(unpack(bytes))
    end
  end
  return concat(texts)
end

local function big(data, at, width)
  local a, b, c, d, e, f, g = byte(data, at, at + width - 1)
  if width < 2 then return a end
  if width == 2 then return a * 256 + b end
  if width == 3 then return a * 65536 + b * 256 + c end
  local value = ((a * 256 + b) * 256 + c) * 256 + d
  if width > 4 then value = value * 256 + e end
  if width > 5 then value = value * 256 + f end
  return width > 6 and value * 256 + g or value
end

function struct.unpack(formats, data, from)
  local values, count, at = {}, 0, from or 1
  for _, part in ipairs(parts_of[formats] or parse(formats)) do
    local width = part.width
    if width == 0 then
      width, count = values[count], count - 1
      if type(width) ~= 'number' then fail('ERR format `c0` needs a previous size') end
    end
    if at + width - 1 > #data then fail('ERR data string too short') end
    local bytes = sub(data, at, at + width - 1)
    count, at = count + 1, at + width
    values[count] = part.is_text and bytes or big(part.is_big and bytes or string.reverse(bytes), 1, width)
  end
  values[count + 1] = at
  return unpack(values, 1, count + 1)
end

local redis = {}

function redis.call(name, ...)
  local command = commands[name]
  if not command then fail('ERR Unknown Redis command called from script: ' .. tostring(name)) end
  return command(...)
end

function redis.pcall(...)
  local is_done, reply = raw_pcall(redis.call, ...)
  if is_done or type(reply) == 'table' then return reply end
  error(reply, 0)
end

function redis.error_reply(text)
  return { err = text }
end

function redis.status_reply(text)
  return { ok = text }
end

math.random, math.randomseed = nil, nil
local globals = {
  redis = redis, struct = struct, string = string, table = table, math = math, type = type, tonumber = tonumber, error = error,
  tostring = tostring, ipairs = ipairs, pairs = pairs, next = next, select = select, unpack = unpack, assert = assert, setmetatable = setmetatable,
  pcall = function(...)
    depth = depth + 1
    return after_step(raw_pcall(...))
  end,
}
setmetatable(globals, {
  __index = function(_, name) error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2) end,
})
local sandbox = setmetatable({}, {
  __index = globals,
  __newindex = function(_, name) error('Attempt to modify a readonly table: ' .. tostring(name), 2) end,
})

local scripts = {}

-- Writes a reply as it travels: tags, and a text for each value.
local function emit_reply(value)
  local kind = type(value)
  if kind == 'string' then
    emit('s', value)
  elseif kind == 'number' then
    emit('i', format('%.0f', value < 0 and math.ceil(value) or floor(value)))
  elseif kind == 'table' and value.err then
    emit('e', value.err)
  elseif kind == 'table' and value.ok then
    emit('s', value.ok)
  elseif kind == 'table' then
    tags[#tags + 1] = '('
    for _, one in ipairs(value) do emit_reply(one) end
    tags[#tags + 1] = ')'
  elseif value == true then
    emit('i', '1')
  else
    tags[#tags + 1] = 'n'
  end
end

-- Compiles a script; returns what is wrong with it.
function load_script(sha, text)
  -- Here, `%d` has 32 bits; in Redis, 64.
  if find(text, 'format%(.[^\n)]*%%%d*d') then return 'write numbers with %.0f' end
  local chunk, problem = loadstring(text, '@user_script')
  if not chunk then return problem end
  scripts[sha] = setfenv(chunk, sandbox)
  return ''
end

-- Forgets all hashes.
function forget_hashes()
  kept = {}
end

-- Runs a script. `...`: for each key, its name, the number of its hash, its time of expiry, and how many texts follow: its fields and
-- values, if the hash is not kept here; then the arguments.
function run_script(sha, time, refused, listening, key_count, ...)
  local given, KEYS, ARGV, at = { ... }, {}, {}, 1
  clock, refusal, counts_text, has_written = time, refused, listening, false
  tags, texts, lengths, count, changed, keys, hashes = {}, {}, {}, 0, {}, {}, setmetatable({}, DECLARED)
  for i = 1, tonumber(key_count) do
    local name, number, fields = given[at], given[at + 1], tonumber(given[at + 3])
    local hash = number ~= '' and (number == 'other' and STRANGER or kept[tonumber(number)])
    if fields > 0 then
      hash = new_hash()
      for j = at + 4, at + 3 + fields, 2 do
        add(hash, given[j])
        hash.values[given[j]] = given[j + 1]
      end
      number = tonumber(number)
      hash.number, hash.expires, kept[number] = number, given[at + 2], hash
    end
    KEYS[i], keys[name], hashes[name] = name, i - 1, hash
    at = at + 4 + fields
  end
  for i = at, #given do ARGV[i - at + 1] = given[i] end
  globals.KEYS, globals.ARGV = KEYS, ARGV
  local is_done, reply = raw_pcall(scripts[sha])
  if not is_done then
    reply = { err = (type(reply) == 'table' and reply.err or 'ERR ' .. tostring(reply)) .. ' script: ' .. sha }
  end
  end_step()
  emit_reply(reply)
  return concat(tags), concat(lengths, ' '), concat(texts)
end
