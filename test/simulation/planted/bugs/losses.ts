import { type FoundBug } from '../found-bug.js';

/** What holders are told. */
export const LOSSES: readonly FoundBug[] = [
  {
    name: 'work returns although its lock was lost',
    file: 'lib/core/reentry/run.ts',
    find: 'if (lost) throw withResult(lost, result, lock.mode);',
    replace: '',
    rules: ['4: a loss is always reported'],
    profile: 'operator',
    seeds: 4,
  },
];
