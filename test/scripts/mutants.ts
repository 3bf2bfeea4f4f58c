import { createHash } from 'node:crypto';
import { type AnyScript, type AnyScripts } from './run-script.js';

/** One way to break the scripts: a piece of their text and what stands there instead; `<attempt>` is that ARGV. */
export interface Mutant {
  readonly name: string;
  readonly find: string;
  readonly replace: string;
}

export const MUTANTS: readonly Mutant[] = [
  {
    name: 'a late duplicate acquire is not refused',
    find: 'if hold or was_released(<attempt>) then return',
    replace: 'if hold then return',
  },
  {
    name: 'a duplicate acquire counts twice',
    find: "if hold and hold.token ~= '0' then\n  keep_for(0)",
    replace: 'if false then\n  keep_for(0)',
  },
  { name: 'a writer ignores readers', find: 'or reads == 0\nend', replace: "or mode == 'write'\nend" },
  { name: 'a reader ignores writers', find: 'if writes > 0 then return false end', replace: '' },
  { name: 'one reader too many', find: 'reads < limit', replace: 'reads <= limit' },
  {
    name: 'tokens do not rise within a microsecond',
    find: 'math.max(token + 1, micros)',
    replace: 'math.max(token, micros)',
  },
  { name: 'tokens are not seeded by the clock', find: 'math.max(token + 1, micros)', replace: 'token + 1' },
  { name: 'tokens follow a clock that steps back', find: 'math.max(token + 1, micros)', replace: 'micros' },
  { name: 'the fair queue is overtaken', find: "(fair ~= '1' or head > tail)", replace: 'true' },
  { name: 'one try is not served in turn', find: "if fair == '1' and waiter_lease == 0", replace: 'if false' },
  {
    name: 'a last try is told by a message that it was granted',
    find: 'waiter_lease == 0 then handed = hand_over(<attempt>) end',
    replace: 'waiter_lease == 0 then hand_over(nil) end',
  },
  { name: 'an unfair waiter does not barge', find: "(fair ~= '1' or head > tail)", replace: 'head > tail' },
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
  { name: 'a swept hold stays counted', find: '        count_hold(hold, -1)\n        freed', replace: '        freed' },
  {
    name: 'a swept reader stays counted for its owner',
    find: 'then count_owned(hold.owner, -1) end',
    replace: 'then end',
  },
  { name: 'a renewal ignores the token', find: 'hold.token ~= <token>', replace: 'false' },
  {
    name: 'a renewal shortens',
    find: 'hold.deadline = math.max(hold.deadline, now + lease)',
    replace: 'hold.deadline = now + lease',
  },
  { name: 'a parked hold can be renewed', find: "or hold.token == '0' or", replace: 'or' },
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
    replace: "if was_released(<attempt>) then\n  outcome = 'again'\nelseif hold and hold.token ~= '0' then\n  outcome",
  },
  { name: 'a release is not remembered', find: 'remember_release(<attempt>)', replace: '' },
  {
    name: 'a release hands nothing over',
    find: 'hand_over(nil)\nsave()\nkeep_for(0)\nreturn { outcome',
    replace: 'save()\nkeep_for(0)\nreturn { outcome',
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
  { name: 'dead waiters are granted', find: 'if heard == 0 then', replace: 'if false then' },
  {
    name: 'dead unfair waiters swallow the wake-up',
    find: 'waiter.attempt) == 0 then',
    replace: 'waiter.attempt) == -1 then',
  },
  {
    name: 'a granted waiter stays in the queue',
    find: '  if not published then return false end\n  leave_queue(waiter.attempt, waiter.sequence)',
    replace: '  if not published then return false end',
  },
  {
    name: 'a re-entering waiter stays in the queue',
    find: '  if place then leave_queue(<attempt>, place) end\n',
    replace: '',
  },
  {
    name: 'a refused waiter stays in the queue',
    find: '  if place then\n    leave_queue(<attempt>, place)\n',
    replace: '  if place then\n',
  },
  {
    name: 'the hand-over grants too many',
    find: 'if not admits(waiter.mode, waiter.limit) then break end',
    replace: '',
  },
  {
    name: 'the hand-over lasts for the full lease',
    find: 'math.min(waiter.lease, waiter.waiter_lease)',
    replace: 'waiter.lease',
  },
  {
    name: 'waiters that must wait on are woken',
    find: ' and admits(waiter.mode, waiter.limit) then\n      if tell',
    replace: ' then\n      if tell',
  },
  { name: 'an upgrade is not refused', find: "if owned_token and mode == 'write' then", replace: 'if false then' },
  { name: 'an owner does not re-enter', find: 'if writes > 0 and owner == my_owner then', replace: 'if false then' },
  {
    name: 're-entry takes a new token',
    find: 'return granted_anew(fence)',
    replace: 'token = next_token() return granted_anew(int(token))',
  },
  {
    name: 're-entry falls behind a later token',
    find: 'tonumber(latest) > tonumber(owned_token)',
    replace: "owned_token == '0'",
  },
  { name: 'a refusal does not save what it swept', find: '  if swept or place then', replace: '  if place then' },
  {
    name: 'asking again shortens the time to live',
    find: '  keep_for(0)      -- as',
    replace: "  redis.call('PEXPIRE', KEYS[1], 12000)      -- as",
  },
  { name: 'the time to live forgets a parked hold', find: 'math.max(ms, longest, ', replace: 'math.max(ms, ' },
];

/** The scripts with one mutant in them; throws when their text does not have the place. */
export function mutate(scripts: AnyScripts, { name, find, replace }: Mutant): AnyScripts {
  const entries = Object.entries(scripts).map(([operation, script]) => [operation, mutateOne(script, find, replace)]);
  if (entries.every(([operation, script]) => script === scripts[operation as keyof AnyScripts])) {
    throw new Error(`The scripts have no place for the mutant "${name}".`);
  }
  return Object.fromEntries(entries) as AnyScripts;
}

function mutateOne(script: AnyScript, find: string, replace: string): AnyScript {
  const position = (name: string) => script.args.indexOf(name) + 1;
  const [from, to] = [find, replace].map((text) => text.replace(/<(\w+)>/g, (_, name) => `ARGV[${position(name)}]`));
  if (!script.text.includes(from!)) return script;
  const text = script.text.replaceAll(from!, () => to!);
  return { ...script, text, sha1: createHash('sha1').update(text).digest('hex') };
}
