import { type FoundBug } from '../found-bug.js';

/** Queues, wake-ups and polls. */
export const WAITING: readonly FoundBug[] = [
  {
    name: 'a writer is let in beside readers',
    file: 'lib/testing/memory/rules.ts',
    find: "if (mode === 'write') return held.length === 0;",
    replace: "if (mode === 'write') return !held.some((hold) => hold.mode === 'write');",
    rules: ['1: exclusion'],
    profile: 'calm',
    seeds: 4,
  },
  {
    name: 'a semaphore has one permit too many',
    file: 'lib/testing/memory/rules.ts',
    find: 'held.length < permits)',
    replace: 'held.length <= permits)',
    rules: ['1: permits'],
    profile: 'calm',
    seeds: 8,
  },
  {
    name: 'a fair request passes the queue',
    file: 'lib/testing/memory/requests.ts',
    find: 'return this.handOver.serve(lock, request.attempt) || (lock.queue.isServed && admits(lock, request));',
    replace: 'return admits(lock, request);',
    rules: ['first in, first out'],
    profile: 'calm',
    seeds: 8,
  },
  {
    name: 'waiters poll too seldom',
    file: 'lib/core/timing.ts',
    find: 'const pollMs = waiterLeaseMs(leaseMs) / 3;',
    replace: 'const pollMs = waiterLeaseMs(leaseMs) * 3;',
    rules: ['6: a free lock is granted within the poll', '6: a grant reaches its call'],
    profile: 'silent',
    seeds: 8,
  },
];
