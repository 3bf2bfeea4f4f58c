import { arg, key, lua } from '../lua.js';
import { JOBS } from './jobs.js';
import { scriptPart } from './script-part.js';
import { STATE } from './state.js';

const lock = key('lock');

/**
 * The fires of a scheduled job, each of which is granted once. Several jobs may share a lock. The 16 latest fires of a job are
 * remembered (15 after a void claim), and an earlier one counts as granted. `run_fire`, `run_attempt` and `run_outcome`
 * describe the last run before this command, until `record_run` sets the fire and the attempt.
 */
export const CLAIM = scriptPart(
  {
    name: 'claim',
    needs: [STATE, JOBS],
    defines: 'kind width recorded run_fire run_attempt run_outcome fire fires',
    reads: 'now job',
  },
  lua`
local kind, width = ${arg('fireKind')}, tonumber(${arg('fireMs')})
local recorded = kind ~= '-' and redis.call('HMGET', ${lock}, 'fires:' .. job, 'run:' .. job) or {}
local run_fire, run_attempt, run_outcome = string.match(recorded[2] or '', '^(%d+) (%S+) %d+ %d+ (%S+)$')
run_fire = tonumber(run_fire)

local function fire_of_call()
  if kind == 'at' then return width end
  return kind == 'slot' and math.floor((now - tonumber(${arg('fireAgeMs')})) / width) * width or now
end

local fire = fire_of_call()
local fires = {}
for time in string.gmatch(recorded[1] or '', '%d+') do table.insert(fires, tonumber(time)) end
table.sort(fires)

local function is_in_ring()
  for _, time in ipairs(fires) do
    if time == fire then return true end
  end
  return false
end

local function is_granted()
  if kind == 'gap' then return run_fire ~= nil and math.abs(now - run_fire) < width end
  return is_in_ring() or #fires >= 15 and fire < fires[1]
end

-- A run that ended without an outcome is repeated on request; one that goes on keeps the lock busy.
local function claimed()
  if kind == '-' or not is_granted() then return false end
  local repeats = ${arg('rerun')} == '1' and run_outcome == '-' and (kind == 'gap' or run_fire == fire)
  return not repeats
end

-- The attempt whose run of this fire has no outcome: it goes on, was lost, or never began. Empty when the run has an outcome.
local function claimed_by()
  local is_open = run_outcome == '-' and (kind == 'gap' or run_fire == fire)
  return is_open and run_attempt or ''
end

local function record_run()
  if kind == '-' then return end
  if not is_in_ring() then table.insert(fires, fire) end
  table.sort(fires)
  if #fires > 16 then table.remove(fires, 1) end
  for i, time in ipairs(fires) do fires[i] = int(time) end
  run_fire, run_attempt = fire, ${arg('attempt')}
  redis.call('HSET', ${lock}, 'fires:' .. job, ';' .. table.concat(fires, ';') .. ';',
    'run:' .. job, table.concat({ int(fire), run_attempt, int(now), '0', '-' }, ' '),
    'run:by:' .. job, string.match(${arg('holder')}, '^%S*'))
  remember_job(math.max(tonumber(${arg('rememberMs')}), tonumber(${arg('keepMs')})))
end

local function fire_of_mine()
  return run_attempt == ${arg('attempt')} and int(run_fire) or ''
end
`,
);
