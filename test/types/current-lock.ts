import { currentLock } from '../../lib/core/reentry/context.js';
import type { Lock } from '../../lib/core/lock.js';
import type { UnlockedRun } from '../../lib/core/reentry/unlocked-run.js';
import { check, type Same } from './support.js';

/** A method that never runs without its lock has a token. */
const lock = currentLock('order:7');
check<Same<typeof lock, Lock>>();

/** One that may run without it must check. */
const unlocked = currentLock<'run-unlocked'>();
check<Same<typeof unlocked, Lock | UnlockedRun>>();
check<Same<typeof unlocked.fencingToken, number | null>>();

export const token: number = unlocked.held ? unlocked.fencingToken : 0;

if (unlocked.fencingToken !== null) check<Same<typeof unlocked, Lock>>();

// @ts-expect-error No other option changes the result.
currentLock<'skip'>();
