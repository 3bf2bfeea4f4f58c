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
  ['a late duplicate acquire is not refused', 'if hold or given_back then return', 'if hold then return'],
  ['a duplicate acquire counts twice', "if hold and hold.token ~= '0' then return 'held', hold end", ''],
  ['a writer ignores readers', 'or reads == 0\nend', "or asked.mode == 'write'\nend"],
  ['a reader ignores writers', 'if writes > 0 then return false end', ''],
  ['one reader too many', 'asked.take <= permits', 'asked.take <= permits + 1'],
  ['tokens do not rise within a microsecond', 'reads > 0 and 1 or 64', 'reads > 0 and 0 or 64'],
  ['a writer reserves no tokens', 'reads > 0 and 1 or 64', '1'],
  ['each reader reserves tokens', 'reads > 0 and 1 or 64', '64'],
  ['a downgraded hold gives its tokens back', 'token = math.max(token, hold.token + 64 - 1)\n', ''],
  ['tokens are not seeded by the clock', 'math.max(token + (reads > 0 and 1 or 64), micros)', 'token + 64'],
  ['tokens follow a clock that steps back', 'math.max(token + (reads > 0 and 1 or 64), micros)', 'micros'],
  ['a full queue is joined', 'elseif waiter_lease > 0 and is_full() then', 'elseif false then'],
  ['a full queue of several keys is joined', 'math.huge, busy and busy.is_full()', 'math.huge, false'],
  ['nobody knows since when a waiter waits', "place .. ' ' .. int(now)", "place .. ' 0'"],
  ['a waiter is refused its own place', 'most > 0 and not place and', 'most > 0 and'],
  ['dead waiters fill a queue', 'if waiter_at(int(sequence)) then waiting', 'if true then waiting'],
  ['one waiter too many', 'tail - first + 1 >= most then', 'tail - first >= most then'],
  ['a full queue hands nothing over', 'is_full() then\n  if freed then hand_over(nil) end', 'is_full() then'],
  ['the fair queue is overtaken', 'head > tail and admits', 'admits'],
  ['a waiter whose turn it is is not served', 'return hand_over(<attempt>) or', 'return'],
  ['a caller that asks is also told by a message that it was granted', 'return hand_over(<attempt>) or', 'return hand_over(nil) or'],
  ['an unfair waiter does not barge', "if fair ~= '1' then return admits", 'if false then return admits'],
  ['holds end late', '(now >= due or', '(now >= due + 20 or'],
  ['a hold ends a millisecond late', 'if hold.deadline <= now then', 'if hold.deadline < now then'],
  ['a clock that stepped back is not noticed', 'or now < seen)', ')'],
  ['a hold that is too long is not shortened', 'hold.deadline = now + hold.lease\n', ''],
  ['a waiter that is too long is not shortened', 'if deadline - now > waiter_lease then', 'if false then'],
  ['a swept hold stays counted', '      count_hold(hold, -1)\n      freed', '      freed'],
  ['a swept reader stays counted for its owner', 'then count_owned(hold.owner, -1) end', 'then end'],
  ['a renewal ignores the token', `hold.token ~= <token> ${LOST}\nbegin`, `false ${LOST}\nbegin`],
  ['a renewal shortens', 'hold.deadline = math.max(hold.deadline, now + lease)', 'hold.deadline = now + lease'],
  ['a parked hold can be renewed', `live_hold()\nif not hold or hold.token ~= <token> ${LOST}\nbegin`,
    `find_hold(<attempt>)\nif not hold or hold.token ~= <token> ${LOST}\nbegin`],
  ['a parked hold can be released', "if hold and hold.token ~= '0' then\n  outcome", 'if hold then\n  outcome'],
  ['a parked hold does not count', '  count_hold(hold, 1)\n', ''],
  ['a parked hold can be re-entered', "if writes == parked then owner = '' end", ''],
  ['parking counts from a grant in the future', 'math.min(hold.since, now)', 'hold.since'],
  ['the lock is not kept for its minimum', 'if until_ms <= now then return end', 'if true then return end'],
  ['a second release frees again', "outcome = 'again'\n", "outcome = 'again'\n  writes = 0\n"],
  ['a release trusts the fingerprint more than the hold', "if hold and hold.token ~= '0' then\n  outcome",
    "if is_in(released, <attempt>) then\n  outcome = 'again'\nelseif hold and hold.token ~= '0' then\n  outcome"],
  ['a release is not remembered', 'released = with(released, <attempt>)\nif', 'if'],
  ['a release hands nothing over', 'hand_over(nil)\nif outcome', 'if outcome'],
  ['a foreign release frees the lock', 'elseif before then\n', 'else\n  writes = 0\n'],
  ['a cancelled waiter stays', "outcome = 'cancelled'\n  leave_queue", "outcome = 'cancelled'\n  local _ = function() end or leave_queue"],
  ['expired waiters stay', 'if deadline <= now then\n    leave_queue', 'if false then\n    leave_queue'],
  ['dead waiters are granted', 'heard and heard > 0', 'heard'],
  ['a waiter that was passed over loses its place', '    is_passed_over = true',
    "    leave_queue(waiter.attempt, waiter.sequence)\n        redis.call('HDEL', KEYS[1], 'id:' .. waiter.attempt)"],
  ['a waiter that was passed over stays behind', 'head = math.min(head, tonumber(place))', 'head = head'],
  ['dead unfair waiters swallow the wake-up', 'return heard ~= 0 or', 'return heard ~= -1 or'],
  ['a granted waiter stays in the queue', '    leave_queue(waiter.attempt, waiter.sequence)\n    return true', '    return true'],
  ['a re-entering waiter stays in the queue', 'local function take(owned_token)\n  leave_place()', 'local function take(owned_token)'],
  ['a refused waiter stays in the queue', 'local left = leave_place()', 'local left = false'],
  ['the hand-over grants too many', 'if not admits(waiter) then break end', ''],
  ['the hand-over lasts for the full lease', 'math.min(waiter.lease, waiter.waiter_lease)', 'waiter.lease'],
  ['waiters that must wait on are woken', 'not woken[process] and admits(waiter)', 'not woken[process]'],
  ['an upgrade is not refused', "if owned_token and mode == 'write' then", 'if false then'],
  ['an owner does not re-enter', 'if writes > 0 and owner == my_owner then return', 'if false then return'],
  ['re-entry takes a new token', "return 'entering', fence", "return 'entering', nil"],
  ['re-entry falls behind a later token', 'tonumber(hold_token) > tonumber(owned_token)', "owned_token == '0'"],
  ['a refusal does not save what it swept', 'if swept or left then save() elseif', 'if left then save() elseif'],
  // Late commands.
  ['a command that is too old is granted', 'or micros > tonumber(<untilMicros>)', ''],
  ['a command from the future is granted', 'return sent > micros or', 'return'],
  ['a command sent before the floor is granted', 'or sent <= floor or', 'or'],
  ['a command without an answer is forgotten', "if <unanswered> == '1' then remember_late(<attempt>) end", ''],
  ['a waiter is refused as late', 'if is_late() and not is_known() then', 'if is_late() then'],
  ['a command that is refused as late leaves no trace', "if reason == 'late' then return int(micros) end", ''],
  // The queue of those that come and ask.
  ['the new head is not told that it is', "if outcome == 'cancelled' and was_first then wake_head() end", ''],
  ['waiters that died in the queue stay', 'sweep_queue()\nsave()\nreturn { outcome', 'save()\nreturn { outcome'],
  ['a waiter that must ask is handed the lock', "waiter.fair == '1' and grants < 64", "waiter.fair ~= '0' and grants < 64"],
  ['a waiter that must ask is not called', '  return wake(waiter)\nend', '  return true\nend'],
  ['a waiter that must ask is passed over', 'if call(waiter) then', "if call(waiter) and waiter.fair ~= '2' then"],
  ['waiters wake each other without end', "if waiter.fair ~= '1' and head == told and not news then break end", ''],
  ['a second message does not reach a waiter', 'head == told and not news', 'head == told'],
  ['a waiter for several keys is handed one', "join_queue(fair == '1' and '2' or fair)", 'join_queue(fair)'],
  ['a waiter for a fire is handed the lock', "kind ~= '-' and '2' or fair", "kind ~= '-' and fair or fair"],
  // Several keys.
  ['several keys are granted when one is busy', 'busy = busy or lock end', 'busy = nil end'],
  ['some of several keys are granted while it waits', '  elseif busy then\n    lock.wait()',
    '  elseif busy and not lock.has_turn then\n    lock.wait()'],
  ['a refusal of one key is not a refusal of all', 'refusal = refusal or lock end', "lock.stands, lock.detail = 'waiting', nil end"],
  ['after a refusal, places in the other queues stay', 'do lock.refuse() end', "do if lock.stands == 'refused' then lock.refuse() end end"],
  ['only the busy key is waited for', '  elseif busy then\n    lock.wait()', '  elseif busy then\n    if lock == busy then lock.wait() end'],
  ['a key after the busy one is waited for, too', '  if past_busy then\n    lock.wait_no_more()', '  if past_busy then\n    lock.wait()'],
  ['of several keys, the longest lease is reported', 'shortest = math.min(shortest', 'shortest = math.max(0'],
  ['of several keys, a held one is acquired again', "if this.stands == 'held' then extend(hold) else hold = take(this.detail) end",
    "hold = take(this.stands ~= 'held' and this.detail or nil)"],
  ['several keys are not saved', '    sweep_queue()\n    save()', '    sweep_queue()'],
  // Fires.
  ['a fire is granted twice', 'if time == fire then return true end', ''],
  ['fires are forgotten', "'fires:' .. job, ';' .. table", "'fires:' .. job, ';' or table"],
  ['a fire older than all known ones is granted', '#fires >= 15 and fire < fires[1]', 'false'],
  ['too many fires are remembered', 'if #fires > 16 then', 'if #fires > 17 then'],
  ['the latest fire is forgotten', 'table.remove(fires, 1)', 'table.remove(fires)'],
  ['a lost run is never repeated', '  return not repeats', '  return true'],
  ['a lost run is repeated unasked', "<rerun> == '1' and", 'true and'],
  ['a finished run is repeated', "and run_outcome == '-' and", 'and'],
  ['any fire is repeated after a lost run', "(kind == 'gap' or run_fire == fire)", 'true'],
  ['a gap is too short', 'math.abs(now - run_fire) < width', 'math.abs(now - run_fire) < width - 1'],
  ['a gap before the last fire does not count', 'math.abs(now - run_fire)', '(now >= run_fire and now - run_fire or width)'],
  ['a slot is not rounded', 'math.floor((now - tonumber(<fireAgeMs>)) / width) * width', 'now'],
  ['a slot is that of the command', 'now - tonumber(<fireAgeMs>)', 'now'],
  ['a claim is not checked', "stands ~= 'refused' and claimed()", "stands ~= 'refused' and false"],
  ['a holder is told that its fire is claimed', "if stands ~= 'held' and stands ~= 'refused'", "if stands ~= 'refused'"],
  ['a repeated fire is reported to nobody', 'run_attempt == <attempt> and int(run_fire)', 'false and int(run_fire)'],
  ['the fires are kept no longer than the lock', 'remember - now,', '0,'],
  ['a run does not end', "if outcome == 'released' or", 'if'],
  ['a release ends the run of another', 'if run_attempt ~= <attempt> or', 'if run_attempt == nil or'],
  ['a run ends without an outcome', "or <runOutcome> == '-' then return", 'then return'],
  // Jobs.
  ['a job is refused the fires of another', "'fires:' .. job, 'run:' .. job)", "'fires:Reports.noon', 'run:' .. job)"],
  ['the run of a job is that of another', "'fires:' .. job, 'run:' .. job)", "'fires:' .. job, 'run:Reports.noon')"],
  ['a job is never forgotten', 'elseif tonumber(time) > now or is_running(name)', 'elseif true'],
  ['a job is forgotten too soon', 'elseif tonumber(time) > now', 'elseif tonumber(time) > now + 1'],
  ['a job is forgotten too late', 'elseif tonumber(time) > now', 'elseif tonumber(time) >= now'],
  ['a running job is forgotten', ' or is_running(name) then', ' then'],
  ['a job is remembered because it was run once', "return attempt and redis.call('HGET',",
    "return attempt or attempt and redis.call('HGET',"],
  ['a job ends with its claim', '  remember_job(tonumber(<keepMs>))\n', ''],
  ['the time of a job is shortened by its end', 'until_ms = math.max(until_ms, tonumber(time))', 'until_ms = until_ms'],
  ['a job is remembered for less than its lock', 'remember_job(math.max(tonumber(<rememberMs>), tonumber(<keepMs>)))',
    'remember_job(tonumber(<keepMs>))'],
  ['the fields of a forgotten job stay', ", 'fires:' .. name, 'run:' .. name, 'run:by:' .. name)", ", 'none')"],
  // Downgrade.
  ['a downgrade ignores the token', `hold.token ~= <token> ${LOST}\nlocal changed`, `false ${LOST}\nlocal changed`],
  ['a parked hold is downgraded', `live_hold()\nif not hold or hold.token ~= <token> ${LOST}\nlocal changed`,
    `find_hold(<attempt>)\nif not hold or hold.token ~= <token> ${LOST}\nlocal changed`],
  ['a downgraded hold stays counted as a writer', "count_hold(hold, -1)\n  hold.mode = 'read'", "hold.mode = 'read'"],
  ['a downgraded hold does not count as a reader', "hold.mode = 'read'\n  count_hold(hold, 1)", "hold.mode = 'read'"],
  ['a downgraded owner does not re-enter', '  count_owned(hold.owner, 1, hold.token)\n', ''],
  ['a downgrade that is sent again counts twice', "local changed = hold.mode == 'write'", 'local changed = true'],
  ['a downgrade lets no readers in', '- 1)\n  freed = true\n', '- 1)\n'],
  ['a downgraded writer is reported as the writer', "if writer == <attempt> then writer = '' end", ''],
  ['a renewal of a downgraded hold leaves a writer', "if <mode> == 'read' and hold.mode == 'write' then make_read(hold) end", ''],
  ['a renewal makes a writer read unasked', "if <mode> == 'read' and hold.mode == 'write' then", "if hold.mode == 'write' then"],
  ['a renewal counts a reader twice', "if <mode> == 'read' and hold.mode == 'write' then", "if <mode> == 'read' then"],
  // Revocation.
  ['a revocation that is sent again ends other holds', 'if is_in(revoked, <attempt>) then\n  outcome', 'if false then\n  outcome'],
  ['a revocation is not announced', "  tell(attempt, 'revoked ' .. attempt)\n", ''],
  ['a revocation is announced after the next grant', "  tell(attempt, 'revoked ' .. attempt)\n",
    "  hand_over(nil)\n  tell(attempt, 'revoked ' .. attempt)\n"],
  ['a revocation keeps a parked hold', 'if was_seen(hold) then', "if hold.token ~= '0' and was_seen(hold) then"],
  ['a revocation that is late ends all', 'return granted <= tonumber', 'return 0 <= tonumber'],
  ['a revocation that is late ends parked holds', "hold.token == '0' and math.min(hold.since * 1000, token) or", ''],
  ['a revocation misses a parked re-entry', 'math.min(hold.since * 1000, token)', 'hold.since * 1000'],
  ['a revocation counts nothing', '  count_hold(ended.hold, -1)\n', ''],
  ['a revoked attempt may acquire late', 'released, revoked = with(released, attempt), with', 'released, revoked = released, with'],
  ['a revoked attempt is not known as such', 'with(released, attempt), with(revoked, attempt)', 'with(released, attempt), revoked'],
  ['a revoked command is not remembered', '  revoked = with(revoked, <attempt>)\n', ''],
  ['a revocation hands nothing over', '  changed, freed = true, true\nend\nif freed then hand_over(nil) end\nif changed then save() end\nreturn',
    '  changed = true\nend\nif changed then save() end\nreturn'],
  ['a release does not report that it was revoked', 'elseif is_in(revoked, <attempt>) then', 'elseif false then'],
  ['a renewal does not report that it was revoked', "int(token), is_in(revoked, <attempt>) and '1' or '0' }", "int(token), '0' }"],
  ['revoked attempts are not saved', "if revoked ~= ';' then", 'if false then'],
  // The time to live.
  ['the time to live forgets a parked hold', 'math.max(held, spare)', 'spare'],
  ['a free lock is forgotten at once', 'keep_ms + spare + math.max(held, spare), remember - now', 'math.max(held, remember - now, 1)'],
  ['the key lives no longer than the first lease', 'latest - now or 0', 'due - now or 0'],
  ['a save leaves the time to live as it was', 'save_fields() end\n  keep()', 'save_fields() end'],
  ['the key lives as long as a lease that is gone', 'if hold.deadline >= latest and latest - now > tonumber(<keepMs>) then sweep() end', ''],
  ['the lease of the last release counts for the next holder', 'if writes + reads == 0 then forget_bounds() end', ''],
  ['a renewal of the only hold narrows no bounds', 'if writes + reads == 1 then forget_bounds() end', ''],
  ['the latest lease is that of the latest hold', 'latest = math.max(latest, hold.deadline)', 'latest = hold.deadline'],
  ['a short lease is not due before a long one', 'if due == 0 or hold.deadline < due then due', 'if due == 0 then due'],
  ['a parked hold does not bound the time to live', '  count_hold(hold, 1)\n  bound_by(hold)\nend\n', '  count_hold(hold, 1)\nend\n'],
  ['a revocation in vain does not prolong the time to live', 'begin_writes()\nfor _, ended',
    'if #held > 0 then begin_writes() end\nfor _, ended'],
  // Errors of the server.
  ['a full server keeps holds whose leases are over', 'if is_due then\n    begin_writes()\n', 'if is_due then\n'],
  ['a full server refuses a holder that asks again', 'local function extend(hold)\n  begin_writes()\n', 'local function extend(hold)\n'],
  ['a full server refuses its waiters', 'if not place then return end\n  begin_writes()\n', 'if not place then return end\n'],
  ['a full server refuses releases', 'begin_writes()\nlocal outcome', 'local outcome'],
  ['a full server refuses renewals', "begin_writes()\nif <mode> == 'read'", "if <mode> == 'read'"],
  ['a full server refuses downgrades', 'begin_writes()\n  make_read(hold)', 'make_read(hold)'],
  ['a full server takes new waiters', 'if waiter_lease > 0 then\n    if not place',
    'if waiter_lease > 0 then\n    begin_writes()\n    if not place'],
  ['a full server grants new holds', 'local function take(owned_token)\n', 'local function take(owned_token)\n  begin_writes()\n'],
  ['some of several keys are swept before one of another type is found', 'locks[i] = at(lock_key) end\nfor _, lock in ipairs(locks) do lock.begin() end',
    'locks[i] = at(lock_key) locks[i].begin() end'],
  ['what is under the key is replaced', 'local loaded = ',
    "if redis.call('TYPE', KEYS[1]).ok == 'string' then redis.call('DEL', KEYS[1]) end\nlocal loaded = "],
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
