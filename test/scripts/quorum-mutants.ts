import { type Mutant } from './mutants.js';

const LOST_CONDITION = "hold.token == '0' or hold.token ~= <token> and hold.token ~= new_token";
const SAVING = `if freed then hand_over(nil) end
if changed then
  save()
  keep_for(0)
end
if not lost then return { 'written'`;

/** Ways to break the write-back; `find` stands in that script alone. */
export const WRITE_BACK_MUTANTS: readonly Mutant[] = [
  {
    name: 'the lock does not learn the new token',
    find: '  token = math.max(token, tonumber(new_token))\n',
    replace: '',
  },
  {
    name: 'the lock follows a lower token',
    find: 'token = math.max(token, tonumber(new_token))',
    replace: 'token = tonumber(new_token)',
  },
  { name: 'the hold keeps its old token', find: '  hold.token = new_token\n', replace: '' },
  {
    name: 'the hold is never lowered',
    find: '  hold.token = new_token\n',
    replace: '  if tonumber(new_token) > tonumber(hold.token) then hold.token = new_token end\n',
  },
  { name: 'the fence is not raised', find: '    fence = new_token\n', replace: '' },
  { name: 'the fence falls', find: 'elseif tonumber(fence) < tonumber(new_token) then', replace: 'else' },
  { name: 'the token of the owner is not raised', find: '    raise_owned()\n', replace: '' },
  {
    name: 'the token of the owner falls',
    find: 'if not count or tonumber(owned_token) >= tonumber(new_token) then',
    replace: 'if not count then',
  },
  { name: 'the holds of the owner are counted anew', find: "count .. ' ' .. new_token", replace: "'1 ' .. new_token" },
  { name: 'the token is not checked', find: LOST_CONDITION, replace: "hold.token == '0'" },
  { name: 'a write-back that is sent again is lost', find: ' and hold.token ~= new_token', replace: '' },
  {
    name: 'a write-back that is sent again fits any token',
    find: LOST_CONDITION,
    replace: "hold.token == '0' or tonumber(hold.token) < tonumber(<token>)",
  },
  {
    name: 'a parked hold is written',
    find: LOST_CONDITION,
    replace: LOST_CONDITION.slice("hold.token == '0' or ".length),
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
    find:
      'local hold = record and read_hold(record)\nlocal changed = swept\nlocal lost = not hold or ' + LOST_CONDITION,
    replace:
      "local hold = record and read_hold(record) or { deadline = now + 1000, lease = 1000, mode = 'write', " +
      "token = <token>, since = now, owner = '-' }\nlocal changed = swept\nlocal lost = not hold or " +
      LOST_CONDITION,
  },
  {
    name: 'a lost write-back raises the lock',
    find: SAVING,
    replace: `if lost then token, changed = math.max(token, tonumber(new_token)), true end\n${SAVING}`,
  },
  {
    name: 'what was swept is not saved when it is lost',
    find: `changed = swept\nlocal lost = not hold or ${LOST_CONDITION}`,
    replace: `changed = false\nlocal lost = not hold or ${LOST_CONDITION}`,
  },
  {
    name: 'a lost write-back makes a lock',
    find: `changed = swept\nlocal lost = not hold or ${LOST_CONDITION}`,
    replace: `changed = true\nlocal lost = not hold or ${LOST_CONDITION}`,
  },
  { name: 'the new token is not saved', find: '  changed = true\nend\n' + SAVING, replace: 'end\n' + SAVING },
  {
    name: 'nothing is handed over',
    find: SAVING,
    replace: SAVING.replace('if freed then hand_over(nil) end\n', ''),
  },
  {
    name: 'a place is handed over before the token is raised',
    find: '  keep_for(0)\n  hold.token = new_token',
    replace: '  keep_for(0)\n  if freed then hand_over(nil) end\n  hold.token = new_token',
  },
  {
    name: 'a full server refuses it',
    find: '  keep_for(0)\n  hold.token = new_token',
    replace: '  hold.token = new_token',
  },
  {
    name: 'it does not tell that it was forced',
    find: "{ 'written', <attempt>, int(now) } end\nreturn { 'lost', <attempt>, int(now), int(token), is_in(forced, <attempt>)",
    replace: "{ 'written', <attempt>, int(now) } end\nreturn { 'lost', <attempt>, int(now), int(token), false",
  },
];

/** Ways to break a release whose claim is void. */
export const VOID_CLAIM_MUTANTS: readonly Mutant[] = [
  { name: 'the fire stays claimed', find: "'fires', fires)", replace: "'fires', fires .. fire .. ';')" },
  { name: 'all fires are forgotten', find: "'fires', fires)", replace: "'fires', ';')" },
  { name: 'the latest fire is forgotten', find: "';' .. fire .. ';', ';', 1)", replace: "'%d+;$', '', 1)" },
  { name: 'the earliest fire is forgotten', find: "';' .. fire .. ';', ';', 1)", replace: "';%d+;', ';', 1)" },
  { name: 'the ring falls apart', find: "';' .. fire .. ';', ';', 1)", replace: "';' .. fire .. ';', '', 1)" },
  { name: 'the run stays', find: "'run', 'run:by')\n  local fires", replace: "'run:by')\n  local fires" },
  { name: 'who ran it stays', find: "'run', 'run:by')\n  local fires", replace: "'run')\n  local fires" },
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
    name: 'it is an outcome as others are',
    find: "if <runOutcome> == 'void' then return forget_run(fire) end",
    replace: '',
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
    find: '  park_or_drop(hold)\n  end_run()',
    replace: "  if <runOutcome> ~= 'void' then park_or_drop(hold) end\n  end_run()",
  },
  { name: 'nothing is voided', find: '  end_run()\nelseif', replace: 'elseif' },
  {
    name: 'it ends the run of who holds it when it is sent again',
    find: "  outcome = 'again'\nelseif before",
    replace: "  outcome = 'again'\n  forget_run('%d+')\nelseif before",
  },
  {
    name: 'who waits voids the run of the holder',
    find: "  outcome = 'cancelled'\n",
    replace: "  outcome = 'cancelled'\n  forget_run('%d+')\n",
  },
];
