import { type FoundBug } from '../found-bug.js';

/** Fires of jobs. */
export const JOBS: readonly FoundBug[] = [
  {
    name: 'a fire is granted again',
    file: 'lib/testing/memory/rules.ts',
    find: 'return isKnown && !(repeats && run.fire === fire);',
    replace: 'return false;',
    rules: ['one run per fire'],
    profile: 'calm',
    seeds: 12,
  },
];
