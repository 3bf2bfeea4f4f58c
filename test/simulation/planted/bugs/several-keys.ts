import { type FoundBug } from '../found-bug.js';

/** Locks of several keys. */
export const SEVERAL_KEYS: readonly FoundBug[] = [
  {
    name: 'only the first of several keys is released',
    file: 'lib/core/hold/holds.ts',
    find: 'for (const key of ending.keys) this.#releaseKey(ending, key, outcome, now);',
    replace: 'this.#releaseKey(ending, ending.keys[0]!, outcome, now);',
    rules: ['10: no hold without an owner'],
    profile: 'several',
    seeds: 6,
  },
  {
    name: 'only the first of several keys is renewed',
    file: 'lib/core/hold/watchdog.ts',
    find: 'return lock.refs.map(({ key, attempt, fencingToken }) => ({',
    replace: 'return lock.refs.slice(0, 1).map(({ key, attempt, fencingToken }) => ({',
    rules: ['1: a belief is backed'],
    profile: 'several',
    seeds: 12,
  },
  {
    name: 'the tokens of several keys are mixed up',
    file: 'lib/core/acquire/request.ts',
    find: 'holds: callerKeys.map((key) => grant.holds.find((hold) => hold.key === key)!)',
    replace: 'holds: callerKeys.map((key, i) => ({ ...grant.holds[i]!, key }))',
    rules: ['1: a belief is backed'],
    profile: 'several',
    seeds: 4,
  },
  {
    name: 'only the first of several keys must be free',
    file: 'lib/memory/requests.ts',
    find: 'all.filter((one) => !this.#checkTurn(one, request))',
    replace: 'all.slice(0, 1).filter((one) => !this.#checkTurn(one, request))',
    rules: ['1: exclusion'],
    profile: 'several',
    seeds: 3,
  },
];
