import { type FoundBug } from '../found-bug.js';

/** Calls that take several permits. */
export const SEMAPHORES: readonly FoundBug[] = [
  {
    name: 'a call takes one permit, however many it asks for',
    file: 'lib/memory/rules.ts',
    find: 'lock.taken + take <= most',
    replace: 'lock.taken + 1 <= most',
    rules: ['1: permits'],
    profile: 'semaphores',
    seeds: 3,
  },
  {
    name: 'a call does not say how many permits it takes',
    file: 'lib/core/acquire/request.ts',
    find: '    take,\n',
    replace: '',
    rules: ['1: permits'],
    profile: 'semaphores',
    seeds: 3,
  },
];
