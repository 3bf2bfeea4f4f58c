-- The fires of scheduled jobs, each of which is granted once; several jobs may share a lock. `job:<job>` has the last run of a job,
-- `fire attempt started ended outcome instance` (`0 -` while the end is unknown), and behind it the 16 latest fires (15 after a void
-- claim), `;1000;2000;`. An earlier fire counts as granted. `jobs` has until when each is kept: `job ms job ms`.
Lock.RUN = '^(%d+) (%S+) (%d+) (%d+) (%S+) (%S*) (%S+)$'

-- Reads the stored run of the job into the request. Returns whether its fire was granted. A run that ended without an outcome is
-- repeated on request; a run that continues keeps the lock busy.
function Lock.is_claimed(lock, asked)
  local job, kind, ms, age, remember, rerun = string.match(asked.job, '^(%S+) (%a+) (%d+) (%d+) (%d+) (%d)$')
  local width = ms + 0
  asked.job, asked.remember = job, remember + 0
  local fire, attempt, _, _, outcome, _, fires = string.match(redis.call('HGET', lock.key, 'job:' .. job) or '', lock.RUN)
  asked.run_attempt, asked.run_fire, asked.fires, asked.is_known = attempt, tonumber(fire), {}, false
  asked.fire = kind == 'at' and width or kind == 'slot' and math.floor((lock.now - age) / width) * width or lock.now
  for ms in string.gmatch(fires or '', '%d+') do asked.fires[#asked.fires + 1] = tonumber(ms) end
  table.sort(asked.fires)
  for _, ms in ipairs(asked.fires) do asked.is_known = asked.is_known or ms == asked.fire end
  local is_granted = asked.is_known or #asked.fires >= 15 and asked.fire < asked.fires[1]
  if kind == 'gap' then is_granted = attempt and attempt ~= '-' and math.abs(lock.now - fire) < width end
  asked.is_open = outcome == '-' and (kind == 'gap' or asked.run_fire == asked.fire)
  return is_granted and not (rerun == '1' and asked.is_open)
end

function Lock.record_run(lock, asked)
  if not asked.is_known then table.insert(asked.fires, asked.fire) end
  table.sort(asked.fires)
  if #asked.fires > 16 then table.remove(asked.fires, 1) end
  for i, ms in ipairs(asked.fires) do asked.fires[i] = string.format('%.0f', ms) end
  asked.run_attempt, asked.run_fire = asked.attempt, asked.fire
  lock:keep_job(asked.job, math.max(asked.remember, lock.terms.keep), string.format('%.0f %s %.0f 0 - %s ;%s;', asked.fire,
    asked.attempt, lock.now, string.match(asked.text, '^%S*'), table.concat(asked.fires, ';')))
end

-- An expired job is forgotten when another one is claimed or ends: the app may no longer have it.
function Lock.keep_job(lock, job, keep, value)
  local until_ms, kept = lock.now + keep, {}
  for name, ms in string.gmatch(lock.jobs, '(%S+) (%d+)') do
    local attempt = string.match(redis.call('HGET', lock.key, 'job:' .. name) or '', '^%d+ (%S+)')
    local is_running = attempt and (lock.slot and lock.slot.attempt == attempt or redis.call('HGET', lock.key, attempt))
    if name == job then
      until_ms = math.max(until_ms, tonumber(ms))
    elseif tonumber(ms) > lock.now or is_running then
      kept[#kept + 1] = name .. ' ' .. ms
    else
      redis.call('HDEL', lock.key, 'job:' .. name)
    end
  end
  kept[#kept + 1] = string.format('%s %.0f', job, until_ms)
  lock.jobs, lock.rare = table.concat(kept, ' '), lock.rare or {}
  lock:set('job:' .. job, value)
end

-- Ends the run of an attempt with its outcome. `void`: the run never began, and its fire may be claimed again.
function Lock.end_run(lock, attempt, job, outcome)
  local fire, by, started, _, before, instance, fires =
    string.match(redis.call('HGET', lock.key, 'job:' .. job) or '', lock.RUN)
  if by ~= attempt or outcome == '-' or outcome == 'void' and before ~= '-' then return end
  if outcome == 'void' then
    return lock:set('job:' .. job, '0 - 0 0 void - ' .. string.gsub(fires, ';' .. fire .. ';', ';', 1))
  end
  local run = string.format('%s %s %s %.0f %s %s %s', fire, by, started, lock.now, outcome, instance, fires)
  lock:keep_job(job, lock.terms.keep, run)
end
