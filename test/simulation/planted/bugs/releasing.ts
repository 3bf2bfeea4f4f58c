import { type FoundBug } from '../found-bug.js';

/** Releases, and what is given back. */
export const RELEASING: readonly FoundBug[] = [
  {
    name: 'a release without an answer is not tried again',
    file: 'lib/core/hold/releaser.ts',
    find: 'else this.#retryLater(pending, error);',
    replace: 'else this.#leaveToLease(pending, error);',
    rules: ['10: no hold without an owner'],
    profile: 'longErrors',
    seeds: 12,
  },
  {
    name: 'a call that gives up keeps its place in the queue',
    file: 'lib/core/acquire/acquisition.ts',
    find: 'this.context.attempts.giveBackCancelled(this.#attempt, hasPlace);',
    replace: '',
    rules: ['10: no place without an owner'],
    profile: 'calm',
    seeds: 3,
  },
  {
    name: 'a dropped handle is not released',
    file: 'lib/core/hold/handle.ts',
    find: 'void lock.release();\n    };',
    replace: '};',
    rules: ['10: no hold without an owner'],
    profile: 'calm',
    seeds: 6,
  },
  {
    name: 'a release is answered before it is sent',
    file: 'lib/core/hold/releaser.ts',
    find: "if (store.startRelease && !events.isHeard('released')) return store.startRelease(request, timeoutMs, pending);",
    replace: 'if (store) return void Promise.resolve().then(() => pending.resolve(undefined as never));',
    rules: ['10: no hold without an owner'],
    profile: 'calm',
    seeds: 3,
  },
  {
    name: 'a call that does not wait for its release sends none',
    file: 'lib/core/reentry/run.ts',
    find: 'const ending = lock.finish(outcome);',
    replace: 'const ending = mayReturn ? null : lock.finish(outcome);',
    rules: ['a released lock is not held'],
    profile: 'calm',
    seeds: 3,
  },
  {
    name: 'an operator ends holds that he has not seen',
    file: 'lib/memory/operator-rules.ts',
    find: 'granted(hold) <= seenToken',
    replace: 'true',
    rules: ['an operator revokes what was seen'],
    profile: 'operator',
    seeds: 6,
  },
];
