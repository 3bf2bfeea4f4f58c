import { acquireScript } from './acquire.js';
import { SERVER_CLOCK } from './clock.js';
import { inspectScript } from './inspect.js';
import { type LuaScript } from './lua.js';
import { releaseScript } from './release.js';
import { renewScript } from './renew.js';

/** Builds the scripts on a clock: Lua that defines `server_time()`, in microseconds. Another clock is for tests only. */
export const createLockScripts = (clock: LuaScript<never, never> = SERVER_CLOCK) => ({
  acquire: acquireScript(clock),
  release: releaseScript(clock),
  renew: renewScript(clock),
  inspect: inspectScript(clock),
});

/** The Lua scripts of one store, by operation; provided in Nest as `LOCK_SCRIPTS`. */
export type LockScripts = ReturnType<typeof createLockScripts>;
