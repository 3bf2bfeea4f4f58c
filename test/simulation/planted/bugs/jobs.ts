import { type FoundBug } from '../found-bug.js';

/** Fires of jobs. */
export const JOBS: readonly FoundBug[] = [
  {
    name: 'a fire is granted again',
    file: 'lib/memory/rules.ts',
    find: 'return isKnown && !(repeats && run.fire === fire);',
    replace: 'return false;',
    rules: ['one run per fire'],
    profile: 'calm',
    seeds: 12,
  },
  {
    name: 'a run that failed is repeated',
    file: 'lib/memory/rules.ts',
    find: "if (outcome !== 'void') {",
    replace: "if (outcome === 'done') {",
    rules: ['one run per fire'],
    profile: 'jobs',
    seeds: 9,
  },
  {
    name: 'the outcome of a run is not reported',
    file: 'lib/core/hold/holds.ts',
    find: 'runOutcome: fire && outcome,',
    replace: 'runOutcome: undefined,',
    rules: ['one run per fire'],
    profile: 'jobs',
    seeds: 3,
  },
  {
    name: 'a fire is not noted',
    file: 'lib/memory/requests.ts',
    find: 'startRun(lock, request, this.settings.keepMs);',
    replace: '',
    rules: ['one run per fire'],
    profile: 'jobs',
    seeds: 3,
  },
];
