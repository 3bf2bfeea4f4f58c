import { type FoundBug } from '../found-bug.js';

/** Locks that change hands. */
export const TRANSFERS: readonly FoundBug[] = [
  {
    name: 'the handle of a transferred lock is held still',
    file: 'lib/core/hold/hold.ts',
    find: 'this.#isReleased = true;\n    this.#isEnded = true;\n    this.tracker?.forget();\n    return this.giveAway();',
    replace: 'return this.giveAway();',
    rules: ['transfer: the first handle counts as released'],
    profile: 'transfers',
    seeds: 3,
  },
  {
    name: 'a process goes on renewing a lock that it has transferred',
    file: 'lib/core/hold/holds.ts',
    find: 'const transferred = transferredHold(hold, store.keyPrefix);\n    this.#remove(hold);',
    replace: 'const transferred = transferredHold(hold, store.keyPrefix);',
    rules: ['10: nothing is left in a process'],
    profile: 'transfers',
    seeds: 3,
  },
  {
    name: 'an adopted lock forgets that its first process has handed it on',
    file: 'lib/core/hold/holds.ts',
    find: 'return { keyPrefix, holds, mode, grantedMode, owner, handedOn, leaseMs,',
    replace: 'return { keyPrefix, holds, mode, grantedMode, owner, handedOn: 0 * handedOn, leaseMs,',
    rules: ['transfer: the fencing token goes on'],
    profile: 'transfersTurns',
    seeds: 3,
  },
  {
    name: 'a downgraded lock is adopted as it was granted',
    file: 'lib/core/acquire/adoptions.ts',
    find: 'presentMode: mode,',
    replace: '',
    rules: ['transfer: the mode goes on'],
    profile: 'transfers',
    seeds: 3,
  },
  {
    name: 'a text works again',
    file: 'lib/memory/rules.ts',
    find: 'lock.holds.delete(from);\n  lock.holds.set(attempt, hold);',
    replace: 'lock.holds.set(attempt, hold);',
    rules: ['transfer: one hold at a time', 'transfer: a text works once', '1: exclusion'],
    profile: 'transfers',
    seeds: 3,
  },
  {
    name: 'a late node of a quorum ends a lock that was transferred',
    file: 'lib/core/hold/holds.ts',
    find: 'this.#givenAway.set(hold.attempt, hold.keptUntil);',
    replace: '',
    rules: ['transfer: the store keeps it for its heir'],
    profile: 'transfersQuorum',
    seeds: 6,
  },
];
