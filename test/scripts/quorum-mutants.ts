import { LOST, type Mutant } from './mutants.js';

const FOUND = 'local hold = live_hold()\nif not hold or';
const OTHER_TOKEN = 'hold.token ~= <token> and hold.token ~= new_token';
const FENCE = 'else fence = token_of_owner(writes - parked, fence) end\n';
const OWNED = 'token_of_owner(tonumber(count), before))';
const SAVING = `hand_over_and_save(swept, true)
return { 'written'`;

/** Ways to break the write-back; `find` stands in that script alone. */
export const WRITE_BACK_MUTANTS: readonly Mutant[] = [
  ['the lock does not learn the new token', '\ntoken = math.max(token, tonumber(new_token))', ''],
  ['the lock follows a lower token', 'token = math.max(token, tonumber(new_token))', 'token = tonumber(new_token)'],
  ['the hold keeps its old token', 'hold.token = new_token\n', ''],
  ['the hold is never lowered', 'hold.token = new_token\n',
    'if tonumber(new_token) > tonumber(hold.token) then hold.token = new_token end\n'],
  ['the fence stays', FENCE, 'end\n'],
  ['the fence falls below another hold', FENCE, 'else fence = new_token end\n'],
  ['the fence never falls', FENCE, 'else fence = token_of_owner(2, fence) end\n'],
  ['a parked hold counts as one of the owner', FENCE, FENCE.replace('writes - parked', 'writes')],
  ['reads count as writes of the owner', FENCE, FENCE.replace('writes', 'reads + writes')],
  ['the token of the owner stays', 'then write_owned() else', 'then else'],
  ['the token of the owner falls below another hold', OWNED, 'new_token)'],
  ['the token of the owner never falls', OWNED, 'token_of_owner(2, before))'],
  ['all reads count as those of the owner', OWNED, 'token_of_owner(reads, before))'],
  ['the only hold of an owner only raises', 'return (count == 1 or ', 'return ('],
  ['one of several holds never raises', 'count == 1 or tonumber(before) < tonumber(new_token)', 'count == 1'],
  ['one of several holds is what only lowers', 'tonumber(before) < tonumber(new_token)', 'tonumber(before) > tonumber(new_token)'],
  ['nobody is an owner', "'^(%d+) (%d+)$')\n  if not count then return end\n",
    "'^(%d+) (%d+)$')\n  count, before = count or '1', before or '0'\n"],
  ['the holds of the owner are counted anew', "count .. ' ' .. token_of_owner", "'1 ' .. token_of_owner"],
  ['the token is not checked', OTHER_TOKEN, 'false'],
  ['a write-back that is sent again is lost', ' and hold.token ~= new_token', ''],
  ['a write-back that is sent again fits any token', OTHER_TOKEN, 'tonumber(hold.token) < tonumber(<token>)'],
  ['a parked hold is written', FOUND, FOUND.replace('live_hold()', 'find_hold(<attempt>)')],
  ['the lease begins anew', 'hold.token = new_token\n', 'hold.token, hold.deadline = new_token, now + hold.lease\n'],
  ['the hold is said to be new', 'hold.token = new_token\n', 'hold.token, hold.since = new_token, now\n'],
  ['a hold that ended comes back', FOUND,
    "local hold = find_hold(<attempt>) or { deadline = now + 1000, lease = 1000, mode = 'write', take = 1, " +
      "token = <token>, since = now, owner = '-' }\nif hold.token == '0' or"],
  ['a lost write-back raises the lock', `new_token ${LOST}`,
    'new_token then\n  token = math.max(token, tonumber(new_token))\n  return lost(true)\nend'],
  ['swept holds are not saved when the write-back is lost', LOST, LOST.replace('swept', 'false')],
  ['a lost write-back makes a lock', LOST, LOST.replace('swept', 'true')],
  ['the new token is not saved', SAVING, SAVING.replace('true', 'false')],
  ['nothing is handed over', SAVING, SAVING.replace('hand_over_and_save(swept, true)', 'save()')],
  ['a place is handed over before the token is raised', 'begin_writes()\nhold.token = new_token',
    'begin_writes()\nif freed then hand_over(nil) end\nhold.token = new_token'],
  ['a full server refuses it', 'begin_writes()\nhold.token = new_token', 'hold.token = new_token'],
  ['it does not report that it was revoked', "{ 'lost', <attempt>, int(now), int(token), is_in(revoked, <attempt>)",
    "{ 'lost', <attempt>, int(now), int(token), false"],
];

const END_RUN = "if outcome == 'released' or <runOutcome> == 'void' then";
const IF_OPEN = "if told == '-' then forget_run";
const IS_OPEN = "run_outcome == '-' and (kind == 'gap' or run_fire == fire)";

/** Ways to break a release whose claim is void, and what it leaves to those who claim. */
export const VOID_CLAIM_MUTANTS: readonly Mutant[] = [
  ['the fire stays claimed', "'fires:' .. job, fires)", "'fires:' .. job, fires .. fire .. ';')"],
  ['all fires are forgotten', "'fires:' .. job, fires)", "'fires:' .. job, ';')"],
  ['the latest fire is forgotten', "';' .. fire .. ';', ';', 1)", "'%d+;$', '', 1)"],
  ['the earliest fire is forgotten', "';' .. fire .. ';', ';', 1)", "';%d+;', ';', 1)"],
  ['the ring falls apart', "';' .. fire .. ';', ';', 1)", "';' .. fire .. ';', '', 1)"],
  ['the run stays', "'run:' .. job, 'run:by:' .. job)\n  local fires", "'run:by:' .. job)\n  local fires"],
  ['its runner stays', "'run:' .. job, 'run:by:' .. job)\n  local fires", "'run:' .. job)\n  local fires"],
  ['the run of another is forgotten', 'if run_attempt ~= <attempt> or', 'if run_attempt == nil or'],
  ['the attempt is taken for a pattern', 'if run_attempt ~= <attempt> or',
    "if run_attempt ~= <attempt> and not string.match(run_attempt or '', '^' .. <attempt> .. '$') or"],
  ['the run is taken for a pattern', 'if run_attempt ~= <attempt> or',
    "if run_attempt ~= <attempt> and not string.match(<attempt>, '^' .. (run_attempt or '') .. '$') or"],
  ['void is an outcome like others', "if <runOutcome> == 'void' then\n    if told == '-' then forget_run(fire) end\n    return\n  end\n",
    ''],
  ['a run that has ended is forgotten', IF_OPEN, 'if true then forget_run'],
  ['a run that had failed is forgotten', IF_OPEN, "if told ~= 'done' then forget_run"],
  ['a run that was done is forgotten', IF_OPEN, "if told ~= 'failed' then forget_run"],
  ['a run that goes on stays', IF_OPEN, "if told ~= '-' then forget_run"],
  ['a run that is done is forgotten', "if <runOutcome> == 'void' then", "if <runOutcome> ~= 'failed' then"],
  ['a run that failed is forgotten', "if <runOutcome> == 'void' then", "if <runOutcome> ~= 'done' then"],
  ['a run without outcome is forgotten', "<runOutcome> == '-' then return end\n  if <runOutcome> == 'void'",
    "false then return end\n  if <runOutcome> == 'void' or <runOutcome> == '-'"],
  ['the hold stays', '  freed = true\n  park_or_drop(hold)\n',
    "  if <runOutcome> ~= 'void' then\n    freed = true\n    park_or_drop(hold)\n  end\n"],
  ['nothing is voided', END_RUN, "if outcome == 'released' and <runOutcome> ~= 'void' then"],
  ['nothing is voided when the hold is gone', END_RUN, "if outcome == 'released' then"],
  ['nothing is voided when the hold is long gone', END_RUN,
    "if outcome == 'released' or outcome == 'expired' and <runOutcome> == 'void' then"],
  ['a revoked run is not voided', END_RUN, "if outcome == 'released' or outcome ~= 'revoked' and <runOutcome> == 'void' then"],
  ['a released run is not voided', END_RUN, "if outcome == 'released' or outcome ~= 'again' and <runOutcome> == 'void' then"],
  ['only a void ends a run', END_RUN, "if <runOutcome> == 'void' then"],
  ['a run ends when the hold is gone', END_RUN, 'if true then'],
  ['a second one ends the run of the current holder', "  outcome = 'again'\nelseif before",
    "  outcome = 'again'\n  forget_run('%d+')\nelseif before"],
  ['a waiter voids the run of the holder', "  outcome = 'cancelled'\n", "  outcome = 'cancelled'\n  forget_run('%d+')\n"],
  // The fires that are out of the ring.
  ['a void lets a fire run twice', '#fires >= 15', '#fires >= 16'],
  ['fourteen fires are enough', '#fires >= 15', '#fires >= 14'],
  ['a later fire counts as granted', 'fire < fires[1]', 'fire < fires[#fires]'],
  // What is told to who is refused.
  ['the claimant is not reported', "is_open and run_attempt or ''", "''"],
  ['a runner that has finished is reported', `local is_open = ${IS_OPEN}`, `local is_open = ${IS_OPEN.slice(22)}`],
  ['the runner of another fire is reported', `local is_open = ${IS_OPEN}`, "local is_open = run_outcome == '-'"],
  ['a runner within the distance is not reported', `local is_open = ${IS_OPEN}`, "local is_open = run_outcome == '-' and run_fire == fire"],
  ['the caller is reported as the claimant', "is_open and run_attempt or ''", "is_open and <attempt> or ''"],
  ['the claimant is reported with every refusal', "detail == 'claimed' and claimed_by() or refusal_detail(detail)", 'claimed_by()'],
  ['the owner is not reported', 'int(ahead), holder, owner,', "int(ahead), holder, '',"],
  ['the attempt is reported as the owner', 'int(ahead), holder, owner,', 'int(ahead), holder, writer,'],
  ["the caller's name is reported as the owner", 'int(ahead), holder, owner,', 'int(ahead), holder, my_owner,'],
];
