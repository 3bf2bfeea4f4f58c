import { LOST, type Mutant } from './mutants.js';

const FOUND = 'local hold = live_hold()\nif not hold or';
const OTHER_TOKEN = 'hold.token ~= <token> and hold.token ~= new_token';
const FENCE = 'else fence = token_of_owner(writes - parked, fence) end\n';
const OWNED = 'token_of_owner(tonumber(count), before))';
const SAVING = `hand_over_and_save(swept, true)
return { 'written'`;

/** Ways to break the write-back; `find` stands in that script alone. */
export const WRITE_BACK_MUTANTS: readonly Mutant[] = [
  {
    name: 'the lock does not learn the new token',
    find: '\ntoken = math.max(token, tonumber(new_token))',
    replace: '',
  },
  {
    name: 'the lock follows a lower token',
    find: 'token = math.max(token, tonumber(new_token))',
    replace: 'token = tonumber(new_token)',
  },
  { name: 'the hold keeps its old token', find: 'hold.token = new_token\n', replace: '' },
  {
    name: 'the hold is never lowered',
    find: 'hold.token = new_token\n',
    replace: 'if tonumber(new_token) > tonumber(hold.token) then hold.token = new_token end\n',
  },
  { name: 'the fence stays', find: FENCE, replace: 'end\n' },
  { name: 'the fence falls below another hold', find: FENCE, replace: 'else fence = new_token end\n' },
  { name: 'the fence never falls', find: FENCE, replace: 'else fence = token_of_owner(2, fence) end\n' },
  {
    name: 'a parked hold counts as one of the owner',
    find: FENCE,
    replace: FENCE.replace('writes - parked', 'writes'),
  },
  { name: 'reads count as writes of the owner', find: FENCE, replace: FENCE.replace('writes', 'reads + writes') },
  { name: 'the token of the owner stays', find: 'then write_owned() else', replace: 'then else' },
  { name: 'the token of the owner falls below another hold', find: OWNED, replace: 'new_token)' },
  { name: 'the token of the owner never falls', find: OWNED, replace: 'token_of_owner(2, before))' },
  { name: 'all reads count as those of the owner', find: OWNED, replace: 'token_of_owner(reads, before))' },
  { name: 'the only hold of an owner only raises', find: 'return (count == 1 or ', replace: 'return (' },
  {
    name: 'one of several holds never raises',
    find: 'count == 1 or tonumber(before) < tonumber(new_token)',
    replace: 'count == 1',
  },
  {
    name: 'one of several holds is what only lowers',
    find: 'tonumber(before) < tonumber(new_token)',
    replace: 'tonumber(before) > tonumber(new_token)',
  },
  {
    name: 'nobody is an owner',
    find: "'^(%d+) (%d+)$')\n  if not count then return end\n",
    replace: "'^(%d+) (%d+)$')\n  count, before = count or '1', before or '0'\n",
  },
  {
    name: 'the holds of the owner are counted anew',
    find: "count .. ' ' .. token_of_owner",
    replace: "'1 ' .. token_of_owner",
  },
  { name: 'the token is not checked', find: OTHER_TOKEN, replace: 'false' },
  { name: 'a write-back that is sent again is lost', find: ' and hold.token ~= new_token', replace: '' },
  {
    name: 'a write-back that is sent again fits any token',
    find: OTHER_TOKEN,
    replace: 'tonumber(hold.token) < tonumber(<token>)',
  },
  {
    name: 'a parked hold is written',
    find: FOUND,
    replace: FOUND.replace('live_hold()', 'find_hold(<attempt>)'),
  },
  {
    name: 'the lease begins anew',
    find: 'hold.token = new_token\n',
    replace: 'hold.token, hold.deadline = new_token, now + hold.lease\n',
  },
  {
    name: 'the hold is said to be new',
    find: 'hold.token = new_token\n',
    replace: 'hold.token, hold.since = new_token, now\n',
  },
  {
    name: 'a hold that ended comes back',
    find: FOUND,
    replace:
      "local hold = find_hold(<attempt>) or { deadline = now + 1000, lease = 1000, mode = 'write', take = 1, " +
      "token = <token>, since = now, owner = '-' }\nif hold.token == '0' or",
  },
  {
    name: 'a lost write-back raises the lock',
    find: `new_token ${LOST}`,
    replace: 'new_token then\n  token = math.max(token, tonumber(new_token))\n  return lost(true)\nend',
  },
  {
    name: 'swept holds are not saved when the write-back is lost',
    find: LOST,
    replace: LOST.replace('swept', 'false'),
  },
  {
    name: 'a lost write-back makes a lock',
    find: LOST,
    replace: LOST.replace('swept', 'true'),
  },
  { name: 'the new token is not saved', find: SAVING, replace: SAVING.replace('true', 'false') },
  {
    name: 'nothing is handed over',
    find: SAVING,
    replace: SAVING.replace('hand_over_and_save(swept, true)', 'save()'),
  },
  {
    name: 'a place is handed over before the token is raised',
    find: 'begin_writes()\nhold.token = new_token',
    replace: 'begin_writes()\nif freed then hand_over(nil) end\nhold.token = new_token',
  },
  {
    name: 'a full server refuses it',
    find: 'begin_writes()\nhold.token = new_token',
    replace: 'hold.token = new_token',
  },
  {
    name: 'it does not report that it was revoked',
    find: "{ 'lost', <attempt>, int(now), int(token), is_in(revoked, <attempt>)",
    replace: "{ 'lost', <attempt>, int(now), int(token), false",
  },
];

const END_RUN = "if outcome == 'released' or <runOutcome> == 'void' then";
const IF_OPEN = "if told == '-' then forget_run";
const IS_OPEN = "run_outcome == '-' and (kind == 'gap' or run_fire == fire)";

/** Ways to break a release whose claim is void, and what it leaves to those who claim. */
export const VOID_CLAIM_MUTANTS: readonly Mutant[] = [
  {
    name: 'the fire stays claimed',
    find: "'fires:' .. job, fires)",
    replace: "'fires:' .. job, fires .. fire .. ';')",
  },
  { name: 'all fires are forgotten', find: "'fires:' .. job, fires)", replace: "'fires:' .. job, ';')" },
  { name: 'the latest fire is forgotten', find: "';' .. fire .. ';', ';', 1)", replace: "'%d+;$', '', 1)" },
  { name: 'the earliest fire is forgotten', find: "';' .. fire .. ';', ';', 1)", replace: "';%d+;', ';', 1)" },
  { name: 'the ring falls apart', find: "';' .. fire .. ';', ';', 1)", replace: "';' .. fire .. ';', '', 1)" },
  {
    name: 'the run stays',
    find: "'run:' .. job, 'run:by:' .. job)\n  local fires",
    replace: "'run:by:' .. job)\n  local fires",
  },
  {
    name: 'its runner stays',
    find: "'run:' .. job, 'run:by:' .. job)\n  local fires",
    replace: "'run:' .. job)\n  local fires",
  },
  {
    name: 'the run of another is forgotten',
    find: 'if run_attempt ~= <attempt> or',
    replace: 'if run_attempt == nil or',
  },
  {
    name: 'the attempt is taken for a pattern',
    find: 'if run_attempt ~= <attempt> or',
    replace: "if run_attempt ~= <attempt> and not string.match(run_attempt or '', '^' .. <attempt> .. '$') or",
  },
  {
    name: 'the run is taken for a pattern',
    find: 'if run_attempt ~= <attempt> or',
    replace: "if run_attempt ~= <attempt> and not string.match(<attempt>, '^' .. (run_attempt or '') .. '$') or",
  },
  {
    name: 'void is an outcome like others',
    find: "if <runOutcome> == 'void' then\n    if told == '-' then forget_run(fire) end\n    return\n  end\n",
    replace: '',
  },
  { name: 'a run that has ended is forgotten', find: IF_OPEN, replace: 'if true then forget_run' },
  { name: 'a run that had failed is forgotten', find: IF_OPEN, replace: "if told ~= 'done' then forget_run" },
  { name: 'a run that was done is forgotten', find: IF_OPEN, replace: "if told ~= 'failed' then forget_run" },
  {
    name: 'a run that goes on stays',
    find: IF_OPEN,
    replace: "if told ~= '-' then forget_run",
  },
  {
    name: 'a run that is done is forgotten',
    find: "if <runOutcome> == 'void' then",
    replace: "if <runOutcome> ~= 'failed' then",
  },
  {
    name: 'a run that failed is forgotten',
    find: "if <runOutcome> == 'void' then",
    replace: "if <runOutcome> ~= 'done' then",
  },
  {
    name: 'a run without outcome is forgotten',
    find: "<runOutcome> == '-' then return end\n  if <runOutcome> == 'void'",
    replace: "false then return end\n  if <runOutcome> == 'void' or <runOutcome> == '-'",
  },
  {
    name: 'the hold stays',
    find: '  freed = true\n  park_or_drop(hold)\n',
    replace: "  if <runOutcome> ~= 'void' then\n    freed = true\n    park_or_drop(hold)\n  end\n",
  },
  { name: 'nothing is voided', find: END_RUN, replace: "if outcome == 'released' and <runOutcome> ~= 'void' then" },
  { name: 'nothing is voided when the hold is gone', find: END_RUN, replace: "if outcome == 'released' then" },
  {
    name: 'nothing is voided when the hold is long gone',
    find: END_RUN,
    replace: "if outcome == 'released' or outcome == 'expired' and <runOutcome> == 'void' then",
  },
  {
    name: 'a revoked run is not voided',
    find: END_RUN,
    replace: "if outcome == 'released' or outcome ~= 'revoked' and <runOutcome> == 'void' then",
  },
  {
    name: 'a released run is not voided',
    find: END_RUN,
    replace: "if outcome == 'released' or outcome ~= 'again' and <runOutcome> == 'void' then",
  },
  { name: 'only a void ends a run', find: END_RUN, replace: "if <runOutcome> == 'void' then" },
  { name: 'a run ends when the hold is gone', find: END_RUN, replace: 'if true then' },
  {
    name: 'a second one ends the run of the current holder',
    find: "  outcome = 'again'\nelseif before",
    replace: "  outcome = 'again'\n  forget_run('%d+')\nelseif before",
  },
  {
    name: 'a waiter voids the run of the holder',
    find: "  outcome = 'cancelled'\n",
    replace: "  outcome = 'cancelled'\n  forget_run('%d+')\n",
  },
  // The fires that are out of the ring.
  { name: 'a void lets a fire run twice', find: '#fires >= 15', replace: '#fires >= 16' },
  { name: 'fourteen fires are enough', find: '#fires >= 15', replace: '#fires >= 14' },
  { name: 'a later fire counts as granted', find: 'fire < fires[1]', replace: 'fire < fires[#fires]' },
  // What is told to who is refused.
  { name: 'the claimant is not reported', find: "is_open and run_attempt or ''", replace: "''" },
  {
    name: 'a runner that has finished is reported',
    find: `local is_open = ${IS_OPEN}`,
    replace: `local is_open = ${IS_OPEN.slice(22)}`,
  },
  {
    name: 'the runner of another fire is reported',
    find: `local is_open = ${IS_OPEN}`,
    replace: "local is_open = run_outcome == '-'",
  },
  {
    name: 'a runner within the distance is not reported',
    find: `local is_open = ${IS_OPEN}`,
    replace: "local is_open = run_outcome == '-' and run_fire == fire",
  },
  {
    name: 'the caller is reported as the claimant',
    find: "is_open and run_attempt or ''",
    replace: "is_open and <attempt> or ''",
  },
  {
    name: 'the claimant is reported with every refusal',
    find: "detail == 'claimed' and claimed_by() or refusal_detail(detail)",
    replace: 'claimed_by()',
  },
  { name: 'the owner is not reported', find: 'int(ahead), holder, owner,', replace: "int(ahead), holder, ''," },
  {
    name: 'the attempt is reported as the owner',
    find: 'int(ahead), holder, owner,',
    replace: 'int(ahead), holder, writer,',
  },
  {
    name: "the caller's name is reported as the owner",
    find: 'int(ahead), holder, owner,',
    replace: 'int(ahead), holder, my_owner,',
  },
];
