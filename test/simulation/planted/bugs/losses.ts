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
    seeds: 3,
  },
  {
    name: 'a loss does not abort the signal',
    file: 'lib/core/hold/loss.ts',
    find: 'this.#signal?.abort(error);',
    replace: '',
    rules: ['4: a loss aborts the signal'],
    profile: 'operator',
    seeds: 3,
  },
  {
    name: 'a lost lock is still held',
    file: 'lib/core/hold/store-hold.ts',
    find: 'return this.isOver ? 0 : remainingOf(this, this.keeper.clock);',
    replace: 'return remainingOf(this, this.keeper.clock);',
    rules: ['4: a lost lock is not held'],
    profile: 'operator',
    seeds: 3,
  },
  {
    name: 'a revoked lock is told to have expired',
    file: 'lib/core/hold/loss.ts',
    find: "if (revoked) return 'revoked';",
    replace: '',
    rules: ['4: a loss has its reason'],
    profile: 'operator',
    seeds: 6,
  },
  {
    name: 'the end of a lease is not noticed',
    file: 'lib/core/hold/watchdog.ts',
    find: 'this.#wheel.put(lock, Math.min(at, lock.deadline), now);',
    replace: 'this.#wheel.put(lock, at, now);',
    rules: ['4: a loss is told before the next grant'],
    profile: 'calm',
    seeds: 3,
  },
  {
    name: 'the loss of one vote is the loss of the lock',
    file: 'lib/redis/quorum/quorum-merge.ts',
    find: 'if (rulesOutMajority(nodes, lost.length)) return mergeLosses(lost);\n  const failed',
    replace: 'if (lost.length > 0) return mergeLosses(lost);\n  const failed',
    rules: ['nothing is lost in calm'],
    profile: 'quorum',
    seeds: 9,
  },
];
