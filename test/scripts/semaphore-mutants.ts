import { type Mutant } from './mutants.js';

/** Ways to break semaphores whose requests take several permits, and whose permits an operator sets. */
export const SEMAPHORE_MUTANTS: readonly Mutant[] = [
  { name: 'a hold takes one permit', find: 'reads + extra + asked.take', replace: 'reads + asked.take' },
  { name: 'a request needs one free permit', find: 'reads + extra + asked.take', replace: 'reads + extra + 1' },
  {
    name: 'the permits of a hold that ends stay taken',
    find: 'extra = extra + change * (hold.take - 1)',
    replace: 'extra = extra + math.max(change, 0) * (hold.take - 1)',
  },
  {
    name: 'the record of a hold does not say what it takes',
    find: 'mode_of(hold.mode, hold.take)',
    replace: 'hold.mode',
  },
  { name: 'a waiter takes one permit', find: 'mode_of(mode, asked.take)', replace: 'mode' },
  { name: 'a parked hold takes one permit', find: "take = hold.take, token = '0'", replace: "take = 1, token = '0'" },
  {
    name: 'the extra permits are not saved',
    find: "save_or_drop('extra', extra > 0 and extra, loaded[23])",
    replace: '',
  },
  {
    name: 'the extra permits are never forgotten',
    find: 'elseif was_there then\n    redis',
    replace: 'elseif false then\n    redis',
  },
  {
    name: 'the permits of the last reader are not saved',
    find: "save_or_drop('limit', reads > 0 and limit > 0 and limit, loaded[24])",
    replace: '',
  },
  { name: 'no grant notes its permits', find: '    limit = asked.permits\n', replace: '' },
  {
    name: 'the permits of an operator do not count',
    find: 'local permits = set_permits or asked.permits',
    replace: 'local permits = asked.permits',
  },
  {
    name: 'the permits of an operator count only where a request has some',
    find: 'permits == 0 and not set_permits',
    replace: 'asked.permits == 0',
  },
  {
    name: 'the permits of an operator are not saved',
    find: "save_or_drop('permits', set_permits, loaded[25])",
    replace: '',
  },
  {
    name: 'a lock with permits of an operator is packed',
    find: 'token < 1000000000000000 or set_permits then',
    replace: 'token < 1000000000000000 then',
  },
  {
    name: 'the permits of an operator are kept no longer than the rest',
    find: 'set_permits and 2592000000 or 0',
    replace: '0',
  },
  {
    name: 'a refused call does not keep the permits of an operator',
    find: 'elseif set_permits then keep() end',
    replace: 'end',
  },
  {
    name: 'a request that takes too many permits waits',
    find: "if exceeds(asked) then return 'refused', 'permits' end",
    replace: '',
  },
  {
    name: 'a waiter that takes too many permits blocks the queue',
    find: 'if waiter and exceeds(waiter) then',
    replace: 'if false then',
  },
  {
    name: 'a waiter that takes too many permits is not told',
    find: 'exceeds(waiter) then\n      wake(waiter)',
    replace: 'exceeds(waiter) then',
  },
  {
    name: 'a waiter that takes too many permits leaves the count of places',
    find: 'wake(waiter)\n      is_passed_over = true',
    replace: 'wake(waiter)',
  },
  {
    name: 'a writer is limited by permits',
    find: "asked.mode == 'read' and set_permits and",
    replace: 'set_permits and',
  },
  {
    name: 'new permits hand nothing over',
    find: 'set_permits, swept, freed = wanted, true, true',
    replace: 'set_permits, swept = wanted, true',
  },
  { name: 'new permits find nobody who was passed over', find: '  head = first        --', replace: '  --' },
  {
    name: 'a full server refuses new permits',
    find: 'if swept or set_permits then\n  begin_writes()',
    replace: 'if swept or set_permits then',
  },
  { name: 'permits that are set again are not kept', find: 'if swept or set_permits then', replace: 'if swept then' },
  {
    name: 'a refusal of several keys tells nothing of the permits',
    find: 'refusal.detail, refusal.refusal_detail()',
    replace: "refusal.detail, ''",
  },
];
