import { type FoundBug } from '../found-bug.js';

/** The end of a process. */
export const SHUTDOWN: readonly FoundBug[] = [
  {
    name: 'a shutdown leaves waiting calls alone',
    file: 'lib/core/acquire/locker.ts',
    find: 'for (const call of this.#attempts.calls) call.cancel(shutdownError());',
    replace: '',
    rules: ['10: nothing is left in a process'],
    profile: 'processes',
    seeds: 12,
  },
  {
    name: 'a released lock is watched until its lease is over',
    file: 'lib/core/hold/holds.ts',
    find: 'this.#watchdog.unwatch(hold);',
    replace: '',
    rules: ['10: nothing is left in a process'],
    profile: 'processes',
    seeds: 9,
  },
];
