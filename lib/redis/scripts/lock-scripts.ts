import { ACQUIRE } from './acquire.js';
import { acquireManyScript } from './acquire-many.js';
import { adoptScript } from './adopt.js';
import { appendHistoryScript } from './append-history.js';
import { batchScript } from './batch.js';
import { downgradeScript } from './downgrade.js';
import { forceReleaseScript } from './force-release.js';
import { inspectScript } from './inspect.js';
import { type LuaScript } from './lua.js';
import { SERVER_CLOCK } from './parts/clock.js';
import { readHistoryScript } from './read-history.js';
import { RELEASE } from './release.js';
import { RENEW } from './renew.js';
import { setPermitsScript } from './set-permits.js';
import { writeBackScript } from './write-back.js';

/** Builds the scripts on a clock: Lua that defines `time`, in microseconds, as a text. Another clock is for tests only. */
export const createLockScripts = (clock: LuaScript<never, never> = SERVER_CLOCK) => ({
  acquire: ACQUIRE.alone(clock),
  batch: batchScript(clock),
  acquireMany: acquireManyScript(clock),
  release: RELEASE.alone(clock),
  renew: RENEW.alone(clock),
  downgrade: downgradeScript(clock),
  adopt: adoptScript(clock),
  forceRelease: forceReleaseScript(clock),
  setPermits: setPermitsScript(clock),
  writeBack: writeBackScript(clock),
  inspect: inspectScript(clock),
  appendHistory: appendHistoryScript(clock),
  readHistory: readHistoryScript(clock),
});

/** The Lua scripts of one store, by operation; provided in Nest as `LOCK_SCRIPTS`. */
export type LockScripts = ReturnType<typeof createLockScripts>;
