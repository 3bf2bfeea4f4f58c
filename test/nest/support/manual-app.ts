import { type Type } from '@nestjs/common';
import { RedisLockService } from '../../../lib/index.js';
import { ManualClock, MemoryLockServer, RedisLockTestingModule } from '../../../lib/testing/index.js';
import { closeLater, startModule } from '../../support/apps/lock-app.js';

/** A step of the clock, much shorter than any lease or limit of a test. */
const STEP_MS = 50;

/** Starts an app with locks in memory, whose time passes only when a test moves it. */
export async function startManual<T>(
  type: Type<T>,
  options: Parameters<typeof RedisLockTestingModule.forRoot>[0] = {},
) {
  const clock = new ManualClock();
  const server = new MemoryLockServer({ clock });
  const imports = [RedisLockTestingModule.forRoot({ server, ...options })];
  const app = await startModule({ imports, providers: [type] });
  /** Advances the clock until this has settled. */
  const settle = async <R>(promise: Promise<R>): Promise<R> => {
    const state = { isPending: true };
    const end = (): void => void (state.isPending = false);
    promise.then(end, end);
    while (state.isPending) await clock.advance(STEP_MS);
    return promise;
  };
  /** Advances the clock until the test ends. */
  const race = (): void => {
    const state = { isRacing: true };
    closeLater({ close: async () => void (state.isRacing = false) });
    void (async () => {
      while (state.isRacing) await clock.advance(STEP_MS);
    })();
  };
  return { app, clock, server, settle, race, locks: app.get(RedisLockService), service: app.get(type) };
}
