import { arg, key, lua } from '../lua.js';
import { scriptPart } from './script-part.js';
import { STATE } from './state.js';

const lock = key('lock');

/**
 * The jobs that have fires in this lock (`jobs`, `fires:`, `run:`). A job whose time is over is forgotten when another one is
 * claimed or ends: the app may no longer have it, while the others keep the key alive.
 */
export const JOBS = scriptPart(
  {
    name: 'jobs',
    needs: [STATE],
    defines: 'job',
    reads: 'now jobs remember',
    writes: 'jobs remember',
  },
  lua`
local job = ${arg('job')}

-- Whether the hold of its last run is still there.
local function is_running(name)
  local attempt = string.match(redis.call('HGET', ${lock}, 'run:' .. name) or '', '^%d+ (%S+)')
  return attempt and redis.call('HGET', ${lock}, 'hold:' .. attempt)
end

local function remember_job(ms)
  local until_ms, kept = now + ms, {}
  for name, time in string.gmatch(jobs, '(%S+) (%d+)') do
    if name == job then
      until_ms = math.max(until_ms, tonumber(time))
    elseif tonumber(time) > now or is_running(name) then
      table.insert(kept, name .. ' ' .. time)
    else
      redis.call('HDEL', ${lock}, 'fires:' .. name, 'run:' .. name, 'run:by:' .. name)
    end
  end
  table.insert(kept, job .. ' ' .. int(until_ms))
  jobs, remember = table.concat(kept, ' '), math.max(remember, until_ms)
  redis.call('HSET', ${lock}, 'jobs', jobs)
end
`,
);
