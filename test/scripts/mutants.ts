import { createHash } from 'node:crypto';
import { OPERATIONS } from '../support/model/wire-values.js';
import { type AnyScript, type AnyScripts } from './run-script.js';

/** One way to break the scripts: a piece of their text and what stands there instead; `<attempt>` is that ARGV. */
export interface Mutant {
  readonly name: string;
  readonly find: string;
  readonly replace: string;
}

/** How a script that changes a live hold goes on without one. */
export const LOST = 'then return lost(swept) end';

export const MUTANTS: readonly Mutant[] = [
  {
    name: 'a late duplicate acquire is not refused',
    find: 'if hold or given_back then return',
    replace: 'if hold then return',
  },
  {
    name: 'a duplicate acquire counts twice',
    find: "if hold and hold.token ~= '0' then return 'held', hold end",
    replace: '',
  },
  { name: 'a writer ignores readers', find: 'or reads == 0\nend', replace: "or asked.mode == 'write'\nend" },
  { name: 'a reader ignores writers', find: 'if writes > 0 then return false end', replace: '' },
  { name: 'one reader too many', find: 'asked.take <= permits', replace: 'asked.take <= permits + 1' },
  {
    name: 'tokens do not rise within a microsecond',
    find: 'reads > 0 and 1 or 64',
    replace: 'reads > 0 and 0 or 64',
  },
  {
    name: 'a writer reserves no tokens',
    find: 'reads > 0 and 1 or 64',
    replace: '1',
  },
  {
    name: 'each reader reserves tokens',
    find: 'reads > 0 and 1 or 64',
    replace: '64',
  },
  {
    name: 'a downgraded hold gives its tokens back',
    find: 'token = math.max(token, hold.token + 64 - 1)\n',
    replace: '',
  },
  {
    name: 'tokens are not seeded by the clock',
    find: 'math.max(token + (reads > 0 and 1 or 64), micros)',
    replace: 'token + 64',
  },
  {
    name: 'tokens follow a clock that steps back',
    find: 'math.max(token + (reads > 0 and 1 or 64), micros)',
    replace: 'micros',
  },
  { name: 'a full queue is joined', find: 'elseif waiter_lease > 0 and is_full() then', replace: 'elseif false then' },
  {
    name: 'a full queue of several keys is joined',
    find: 'math.huge, busy and busy.is_full()',
    replace: 'math.huge, false',
  },
  { name: 'nobody knows since when a waiter waits', find: "place .. ' ' .. int(now)", replace: "place .. ' 0'" },
  { name: 'a waiter is refused its own place', find: 'most > 0 and not place and', replace: 'most > 0 and' },
  {
    name: 'dead waiters fill a queue',
    find: 'if waiter_at(int(sequence)) then waiting',
    replace: 'if true then waiting',
  },
  { name: 'one waiter too many', find: 'tail - first + 1 >= most then', replace: 'tail - first >= most then' },
  {
    name: 'a full queue hands nothing over',
    find: 'is_full() then\n  if freed then hand_over(nil) end',
    replace: 'is_full() then',
  },
  { name: 'the fair queue is overtaken', find: 'head > tail and admits', replace: 'admits' },
  { name: 'a waiter whose turn it is is not served', find: 'return hand_over(<attempt>) or', replace: 'return' },
  {
    name: 'a caller that asks is also told by a message that it was granted',
    find: 'return hand_over(<attempt>) or',
    replace: 'return hand_over(nil) or',
  },
  {
    name: 'an unfair waiter does not barge',
    find: "if fair ~= '1' then return admits",
    replace: 'if false then return admits',
  },
  { name: 'holds end late', find: '(now >= due or', replace: '(now >= due + 20 or' },
  {
    name: 'a hold ends a millisecond late',
    find: 'if hold.deadline <= now then',
    replace: 'if hold.deadline < now then',
  },
  { name: 'a clock that stepped back is not noticed', find: 'or now < seen)', replace: ')' },
  { name: 'a hold that is too long is not shortened', find: 'hold.deadline = now + hold.lease\n', replace: '' },
  {
    name: 'a waiter that is too long is not shortened',
    find: 'if deadline - now > waiter_lease then',
    replace: 'if false then',
  },
  { name: 'a swept hold stays counted', find: '      count_hold(hold, -1)\n      freed', replace: '      freed' },
  {
    name: 'a swept reader stays counted for its owner',
    find: 'then count_owned(hold.owner, -1) end',
    replace: 'then end',
  },
  {
    name: 'a renewal ignores the token',
    find: `hold.token ~= <token> ${LOST}\nbegin`,
    replace: `false ${LOST}\nbegin`,
  },
  {
    name: 'a renewal shortens',
    find: 'hold.deadline = math.max(hold.deadline, now + lease)',
    replace: 'hold.deadline = now + lease',
  },
  {
    name: 'a parked hold can be renewed',
    find: `live_hold()\nif not hold or hold.token ~= <token> ${LOST}\nbegin`,
    replace: `find_hold(<attempt>)\nif not hold or hold.token ~= <token> ${LOST}\nbegin`,
  },
  {
    name: 'a parked hold can be released',
    find: "if hold and hold.token ~= '0' then\n  outcome",
    replace: 'if hold then\n  outcome',
  },
  { name: 'a parked hold does not count', find: '  count_hold(hold, 1)\n', replace: '' },
  { name: 'a parked hold can be re-entered', find: "if writes == parked then owner = '' end", replace: '' },
  { name: 'parking counts from a grant in the future', find: 'math.min(hold.since, now)', replace: 'hold.since' },
  {
    name: 'the lock is not kept for its minimum',
    find: 'if until_ms <= now then return end',
    replace: 'if true then return end',
  },
  {
    name: 'a second release frees again',
    find: "outcome = 'again'\n",
    replace: "outcome = 'again'\n  writes = 0\n",
  },
  {
    name: 'a release trusts the fingerprint more than the hold',
    find: "if hold and hold.token ~= '0' then\n  outcome",
    replace:
      "if is_in(released, <attempt>) then\n  outcome = 'again'\nelseif hold and hold.token ~= '0' then\n  outcome",
  },
  { name: 'a release is not remembered', find: 'released = with(released, <attempt>)\nif', replace: 'if' },
  {
    name: 'a release hands nothing over',
    find: 'hand_over(nil)\nif outcome',
    replace: 'if outcome',
  },
  {
    name: 'a foreign release frees the lock',
    find: 'elseif before then\n',
    replace: 'else\n  writes = 0\n',
  },
  {
    name: 'a cancelled waiter stays',
    find: "outcome = 'cancelled'\n  leave_queue",
    replace: "outcome = 'cancelled'\n  local _ = function() end or leave_queue",
  },
  {
    name: 'expired waiters stay',
    find: 'if deadline <= now then\n    leave_queue',
    replace: 'if false then\n    leave_queue',
  },
  { name: 'dead waiters are granted', find: 'heard and heard > 0', replace: 'heard' },
  {
    name: 'a waiter that was passed over loses its place',
    find: '    is_passed_over = true',
    replace:
      "    leave_queue(waiter.attempt, waiter.sequence)\n        redis.call('HDEL', KEYS[1], 'id:' .. waiter.attempt)",
  },
  {
    name: 'a waiter that was passed over stays behind',
    find: 'head = math.min(head, tonumber(place))',
    replace: 'head = head',
  },
  {
    name: 'dead unfair waiters swallow the wake-up',
    find: 'return heard ~= 0 or',
    replace: 'return heard ~= -1 or',
  },
  {
    name: 'a granted waiter stays in the queue',
    find: '    leave_queue(waiter.attempt, waiter.sequence)\n    return true',
    replace: '    return true',
  },
  {
    name: 'a re-entering waiter stays in the queue',
    find: 'local function take(owned_token)\n  leave_place()',
    replace: 'local function take(owned_token)',
  },
  {
    name: 'a refused waiter stays in the queue',
    find: 'local left = leave_place()',
    replace: 'local left = false',
  },
  {
    name: 'the hand-over grants too many',
    find: 'if not admits(waiter) then break end',
    replace: '',
  },
  {
    name: 'the hand-over lasts for the full lease',
    find: 'math.min(waiter.lease, waiter.waiter_lease)',
    replace: 'waiter.lease',
  },
  {
    name: 'waiters that must wait on are woken',
    find: 'not woken[process] and admits(waiter)',
    replace: 'not woken[process]',
  },
  { name: 'an upgrade is not refused', find: "if owned_token and mode == 'write' then", replace: 'if false then' },
  {
    name: 'an owner does not re-enter',
    find: 'if writes > 0 and owner == my_owner then return',
    replace: 'if false then return',
  },
  {
    name: 're-entry takes a new token',
    find: "return 'entering', fence",
    replace: "return 'entering', nil",
  },
  {
    name: 're-entry falls behind a later token',
    find: 'tonumber(hold_token) > tonumber(owned_token)',
    replace: "owned_token == '0'",
  },
  {
    name: 'a refusal does not save what it swept',
    find: 'if swept or left then save() elseif',
    replace: 'if left then save() elseif',
  },
  // Late commands.
  {
    name: 'a command that is too old is granted',
    find: 'or micros > tonumber(<untilMicros>)',
    replace: '',
  },
  { name: 'a command from the future is granted', find: 'return sent > micros or', replace: 'return' },
  { name: 'a command sent before the floor is granted', find: 'or sent <= floor or', replace: 'or' },
  {
    name: 'a command without an answer is forgotten',
    find: "if <unanswered> == '1' then remember_late(<attempt>) end",
    replace: '',
  },
  { name: 'a waiter is refused as late', find: 'if is_late() and not is_known() then', replace: 'if is_late() then' },
  {
    name: 'a command that is refused as late leaves no trace',
    find: "if reason == 'late' then return int(micros) end",
    replace: '',
  },
  // The queue of those that come and ask.
  {
    name: 'the new head is not told that it is',
    find: "if outcome == 'cancelled' and was_first then wake_head() end",
    replace: '',
  },
  {
    name: 'waiters that died in the queue stay',
    find: 'sweep_queue()\nsave()\nreturn { outcome',
    replace: 'save()\nreturn { outcome',
  },
  {
    name: 'a waiter that must ask is handed the lock',
    find: "waiter.fair == '1' and grants < 64",
    replace: "waiter.fair ~= '0' and grants < 64",
  },
  {
    name: 'a waiter that must ask is not called',
    find: '  return wake(waiter)\nend',
    replace: '  return true\nend',
  },
  {
    name: 'a waiter that must ask is passed over',
    find: 'if call(waiter) then',
    replace: "if call(waiter) and waiter.fair ~= '2' then",
  },
  {
    name: 'waiters wake each other without end',
    find: "if waiter.fair ~= '1' and head == told and not news then break end",
    replace: '',
  },
  {
    name: 'a second message does not reach a waiter',
    find: 'head == told and not news',
    replace: 'head == told',
  },
  {
    name: 'a waiter for several keys is handed one',
    find: "join_queue(fair == '1' and '2' or fair)",
    replace: 'join_queue(fair)',
  },
  {
    name: 'a waiter for a fire is handed the lock',
    find: "kind ~= '-' and '2' or fair",
    replace: "kind ~= '-' and fair or fair",
  },
  // Several keys.
  { name: 'several keys are granted when one is busy', find: 'busy = busy or lock end', replace: 'busy = nil end' },
  {
    name: 'some of several keys are granted while it waits',
    find: '  elseif busy then\n    lock.wait()',
    replace: '  elseif busy and not lock.has_turn then\n    lock.wait()',
  },
  {
    name: 'a refusal of one key is not a refusal of all',
    find: 'refusal = refusal or lock end',
    replace: "lock.stands, lock.detail = 'waiting', nil end",
  },
  {
    name: 'after a refusal, places in the other queues stay',
    find: 'do lock.refuse() end',
    replace: "do if lock.stands == 'refused' then lock.refuse() end end",
  },
  {
    name: 'only the busy key is waited for',
    find: '  elseif busy then\n    lock.wait()',
    replace: '  elseif busy then\n    if lock == busy then lock.wait() end',
  },
  {
    name: 'a key after the busy one is waited for, too',
    find: '  if past_busy then\n    lock.wait_no_more()',
    replace: '  if past_busy then\n    lock.wait()',
  },
  {
    name: 'of several keys, the longest lease is reported',
    find: 'shortest = math.min(shortest',
    replace: 'shortest = math.max(0',
  },
  {
    name: 'of several keys, a held one is acquired again',
    find: "if this.stands == 'held' then extend(hold) else hold = take(this.detail) end",
    replace: "hold = take(this.stands ~= 'held' and this.detail or nil)",
  },
  {
    name: 'several keys are not saved',
    find: '    sweep_queue()\n    save()',
    replace: '    sweep_queue()',
  },
  // Fires.
  { name: 'a fire is granted twice', find: 'if time == fire then return true end', replace: '' },
  { name: 'fires are forgotten', find: "'fires:' .. job, ';' .. table", replace: "'fires:' .. job, ';' or table" },
  { name: 'a fire older than all known ones is granted', find: '#fires >= 15 and fire < fires[1]', replace: 'false' },
  { name: 'too many fires are remembered', find: 'if #fires > 16 then', replace: 'if #fires > 17 then' },
  { name: 'the latest fire is forgotten', find: 'table.remove(fires, 1)', replace: 'table.remove(fires)' },
  { name: 'a lost run is never repeated', find: '  return not repeats', replace: '  return true' },
  { name: 'a lost run is repeated unasked', find: "<rerun> == '1' and", replace: 'true and' },
  { name: 'a finished run is repeated', find: "and run_outcome == '-' and", replace: 'and' },
  { name: 'any fire is repeated after a lost run', find: "(kind == 'gap' or run_fire == fire)", replace: 'true' },
  {
    name: 'a gap is too short',
    find: 'math.abs(now - run_fire) < width',
    replace: 'math.abs(now - run_fire) < width - 1',
  },
  {
    name: 'a gap before the last fire does not count',
    find: 'math.abs(now - run_fire)',
    replace: '(now >= run_fire and now - run_fire or width)',
  },
  { name: 'a slot is not rounded', find: 'math.floor((now - tonumber(<fireAgeMs>)) / width) * width', replace: 'now' },
  { name: 'a slot is that of the command', find: 'now - tonumber(<fireAgeMs>)', replace: 'now' },
  {
    name: 'a claim is not checked',
    find: "stands ~= 'refused' and claimed()",
    replace: "stands ~= 'refused' and false",
  },
  {
    name: 'a holder is told that its fire is claimed',
    find: "if stands ~= 'held' and stands ~= 'refused'",
    replace: "if stands ~= 'refused'",
  },
  {
    name: 'a repeated fire is reported to nobody',
    find: 'run_attempt == <attempt> and int(run_fire)',
    replace: 'false and int(run_fire)',
  },
  { name: 'the fires are kept no longer than the lock', find: 'remember - now,', replace: '0,' },
  { name: 'a run does not end', find: "if outcome == 'released' or", replace: 'if' },
  {
    name: 'a release ends the run of another',
    find: 'if run_attempt ~= <attempt> or',
    replace: 'if run_attempt == nil or',
  },
  { name: 'a run ends without an outcome', find: "or <runOutcome> == '-' then return", replace: 'then return' },
  // Jobs.
  {
    name: 'a job is refused the fires of another',
    find: "'fires:' .. job, 'run:' .. job)",
    replace: "'fires:Reports.noon', 'run:' .. job)",
  },
  {
    name: 'the run of a job is that of another',
    find: "'fires:' .. job, 'run:' .. job)",
    replace: "'fires:' .. job, 'run:Reports.noon')",
  },
  { name: 'a job is never forgotten', find: 'elseif tonumber(time) > now or is_running(name)', replace: 'elseif true' },
  {
    name: 'a job is forgotten too soon',
    find: 'elseif tonumber(time) > now',
    replace: 'elseif tonumber(time) > now + 1',
  },
  { name: 'a job is forgotten too late', find: 'elseif tonumber(time) > now', replace: 'elseif tonumber(time) >= now' },
  { name: 'a running job is forgotten', find: ' or is_running(name) then', replace: ' then' },
  {
    name: 'a job is remembered because it was run once',
    find: "return attempt and redis.call('HGET',",
    replace: "return attempt or attempt and redis.call('HGET',",
  },
  { name: 'a job ends with its claim', find: '  remember_job(tonumber(<keepMs>))\n', replace: '' },
  {
    name: 'the time of a job is shortened by its end',
    find: 'until_ms = math.max(until_ms, tonumber(time))',
    replace: 'until_ms = until_ms',
  },
  {
    name: 'a job is remembered for less than its lock',
    find: 'remember_job(math.max(tonumber(<rememberMs>), tonumber(<keepMs>)))',
    replace: 'remember_job(tonumber(<keepMs>))',
  },
  {
    name: 'the fields of a forgotten job stay',
    find: ", 'fires:' .. name, 'run:' .. name, 'run:by:' .. name)",
    replace: ", 'none')",
  },
  // Downgrade.
  {
    name: 'a downgrade ignores the token',
    find: `hold.token ~= <token> ${LOST}\nlocal changed`,
    replace: `false ${LOST}\nlocal changed`,
  },
  {
    name: 'a parked hold is downgraded',
    find: `live_hold()\nif not hold or hold.token ~= <token> ${LOST}\nlocal changed`,
    replace: `find_hold(<attempt>)\nif not hold or hold.token ~= <token> ${LOST}\nlocal changed`,
  },
  {
    name: 'a downgraded hold stays counted as a writer',
    find: "count_hold(hold, -1)\n  hold.mode = 'read'",
    replace: "hold.mode = 'read'",
  },
  {
    name: 'a downgraded hold does not count as a reader',
    find: "hold.mode = 'read'\n  count_hold(hold, 1)",
    replace: "hold.mode = 'read'",
  },
  { name: 'a downgraded owner does not re-enter', find: '  count_owned(hold.owner, 1, hold.token)\n', replace: '' },
  {
    name: 'a downgrade that is sent again counts twice',
    find: "local changed = hold.mode == 'write'",
    replace: 'local changed = true',
  },
  {
    name: 'a downgrade lets no readers in',
    find: '- 1)\n  freed = true\n',
    replace: '- 1)\n',
  },
  {
    name: 'a downgraded writer is reported as the writer',
    find: "if writer == <attempt> then writer = '' end",
    replace: '',
  },
  {
    name: 'a renewal of a downgraded hold leaves a writer',
    find: "if <mode> == 'read' and hold.mode == 'write' then make_read(hold) end",
    replace: '',
  },
  {
    name: 'a renewal makes a writer read unasked',
    find: "if <mode> == 'read' and hold.mode == 'write' then",
    replace: "if hold.mode == 'write' then",
  },
  {
    name: 'a renewal counts a reader twice',
    find: "if <mode> == 'read' and hold.mode == 'write' then",
    replace: "if <mode> == 'read' then",
  },
  // Revocation.
  {
    name: 'a revocation that is sent again ends other holds',
    find: 'if is_in(revoked, <attempt>) then\n  outcome',
    replace: 'if false then\n  outcome',
  },
  { name: 'a revocation is not announced', find: "  tell(attempt, 'revoked ' .. attempt)\n", replace: '' },
  {
    name: 'a revocation is announced after the next grant',
    find: "  tell(attempt, 'revoked ' .. attempt)\n",
    replace: "  hand_over(nil)\n  tell(attempt, 'revoked ' .. attempt)\n",
  },
  {
    name: 'a revocation keeps a parked hold',
    find: 'if was_seen(hold) then',
    replace: "if hold.token ~= '0' and was_seen(hold) then",
  },
  {
    name: 'a revocation that is late ends all',
    find: 'return granted <= tonumber',
    replace: 'return 0 <= tonumber',
  },
  {
    name: 'a revocation that is late ends parked holds',
    find: "hold.token == '0' and math.min(hold.since * 1000, token) or",
    replace: '',
  },
  {
    name: 'a revocation misses a parked re-entry',
    find: 'math.min(hold.since * 1000, token)',
    replace: 'hold.since * 1000',
  },
  { name: 'a revocation counts nothing', find: '  count_hold(ended.hold, -1)\n', replace: '' },
  {
    name: 'a revoked attempt may acquire late',
    find: 'released, revoked = with(released, attempt), with',
    replace: 'released, revoked = released, with',
  },
  {
    name: 'a revoked attempt is not known as such',
    find: 'with(released, attempt), with(revoked, attempt)',
    replace: 'with(released, attempt), revoked',
  },
  { name: 'a revoked command is not remembered', find: '  revoked = with(revoked, <attempt>)\n', replace: '' },
  {
    name: 'a revocation hands nothing over',
    find: '  changed, freed = true, true\nend\nif freed then hand_over(nil) end\nif changed then save() end\nreturn',
    replace: '  changed = true\nend\nif changed then save() end\nreturn',
  },
  {
    name: 'a release does not report that it was revoked',
    find: 'elseif is_in(revoked, <attempt>) then',
    replace: 'elseif false then',
  },
  {
    name: 'a renewal does not report that it was revoked',
    find: "int(token), is_in(revoked, <attempt>) and '1' or '0' }",
    replace: "int(token), '0' }",
  },
  { name: 'revoked attempts are not saved', find: "if revoked ~= ';' then", replace: 'if false then' },
  // The time to live.
  { name: 'the time to live forgets a parked hold', find: 'math.max(held, spare)', replace: 'spare' },
  {
    name: 'a free lock is forgotten at once',
    find: 'keep_ms + spare + math.max(held, spare), remember - now',
    replace: 'math.max(held, remember - now, 1)',
  },
  { name: 'the key lives no longer than the first lease', find: 'latest - now or 0', replace: 'due - now or 0' },
  {
    name: 'a save leaves the time to live as it was',
    find: 'save_fields() end\n  keep()',
    replace: 'save_fields() end',
  },
  {
    name: 'the key lives as long as a lease that is gone',
    find: 'if hold.deadline >= latest and latest - now > tonumber(<keepMs>) then sweep() end',
    replace: '',
  },
  {
    name: 'the lease of the last release counts for the next holder',
    find: 'if writes + reads == 0 then forget_bounds() end',
    replace: '',
  },
  {
    name: 'a renewal of the only hold narrows no bounds',
    find: 'if writes + reads == 1 then forget_bounds() end',
    replace: '',
  },
  {
    name: 'the latest lease is that of the latest hold',
    find: 'latest = math.max(latest, hold.deadline)',
    replace: 'latest = hold.deadline',
  },
  {
    name: 'a short lease is not due before a long one',
    find: 'if due == 0 or hold.deadline < due then due',
    replace: 'if due == 0 then due',
  },
  {
    name: 'a parked hold does not bound the time to live',
    find: '  count_hold(hold, 1)\n  bound_by(hold)\nend\n',
    replace: '  count_hold(hold, 1)\nend\n',
  },
  {
    name: 'a revocation in vain does not prolong the time to live',
    find: 'begin_writes()\nfor _, ended',
    replace: 'if #held > 0 then begin_writes() end\nfor _, ended',
  },
  // Errors of the server.
  {
    name: 'a full server keeps holds whose leases are over',
    find: 'if is_due then\n    begin_writes()\n',
    replace: 'if is_due then\n',
  },
  {
    name: 'a full server refuses a holder that asks again',
    find: 'local function extend(hold)\n  begin_writes()\n',
    replace: 'local function extend(hold)\n',
  },
  {
    name: 'a full server refuses its waiters',
    find: 'if not place then return end\n  begin_writes()\n',
    replace: 'if not place then return end\n',
  },
  {
    name: 'a full server refuses releases',
    find: 'begin_writes()\nlocal outcome',
    replace: 'local outcome',
  },
  {
    name: 'a full server refuses renewals',
    find: "begin_writes()\nif <mode> == 'read'",
    replace: "if <mode> == 'read'",
  },
  {
    name: 'a full server refuses downgrades',
    find: 'begin_writes()\n  make_read(hold)',
    replace: 'make_read(hold)',
  },
  {
    name: 'a full server takes new waiters',
    find: 'if waiter_lease > 0 then\n    if not place',
    replace: 'if waiter_lease > 0 then\n    begin_writes()\n    if not place',
  },
  {
    name: 'a full server grants new holds',
    find: 'local function take(owned_token)\n',
    replace: 'local function take(owned_token)\n  begin_writes()\n',
  },
  {
    name: 'some of several keys are swept before one of another type is found',
    find: 'locks[i] = at(lock_key) end\nfor _, lock in ipairs(locks) do lock.begin() end',
    replace: 'locks[i] = at(lock_key) locks[i].begin() end',
  },
  {
    name: 'what is under the key is replaced',
    find: 'local loaded = ',
    replace: "if redis.call('TYPE', KEYS[1]).ok == 'string' then redis.call('DEL', KEYS[1]) end\nlocal loaded = ",
  },
];

/** The scripts with one mutant in them; throws when their text does not have the place. */
export function mutate(scripts: AnyScripts, { name, find, replace }: Mutant): AnyScripts {
  const entries = Object.entries(scripts).map(([operation, script]) => [operation, mutateOne(script, find, replace)]);
  if (entries.every(([operation, script]) => script === scripts[operation as keyof AnyScripts])) {
    throw new Error(`The scripts have no place for the mutant "${name}".`);
  }
  return Object.fromEntries(entries) as AnyScripts;
}

/** The operations of a batch are functions in its text, each with arguments of its own. */
function mutateOne(script: AnyScript, find: string, replace: string): AnyScript {
  let text = mutateText(script.text, script.args, find, replace);
  for (const { body } of Object.values(OPERATIONS)) {
    text = text.replace(body.text, () => mutateText(body.text, body.args, find, replace));
  }
  if (text === script.text) return script;
  return { ...script, text, sha1: createHash('sha1').update(text).digest('hex') };
}

function mutateText(text: string, args: readonly string[], find: string, replace: string): string {
  const position = (name: string) => args.indexOf(name) + 1;
  const [from, to] = [find, replace].map((part) => part.replace(/<(\w+)>/g, (_, name) => `ARGV[${position(name)}]`));
  return text.replaceAll(from!, () => to!);
}
