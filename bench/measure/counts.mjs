// What one call makes, counted in separate slices: counting costs time.
import { createHook } from 'node:async_hooks';
import { Session } from 'node:inspector/promises';
import { loop } from './loop.mjs';

const done = Promise.resolve();
const nothing = () => done;
async function nothingOften(_, inner) {
  for (let i = 0; i < inner; i++) await done;
}

/** A candidate that does nothing: what is counted with it comes from the bench, and is subtracted. */
const NOTHING = {
  acquire: nothing,
  read: nothing,
  release: nothing,
  decorated: nothing,
  nested: nothingOften,
  nestedWithLock: nothingOften,
  withLock(_, work) {
    work();
    return done;
  },
};
const CALLS_OF_NOTHING = 2_000;

/**
 * Counts what one call of a candidate makes, until `count` calls or `ms` are over. Code that is not yet compiled allocates more:
 * `warmUp` calls come first.
 */
const perCall =
  (work) =>
  async (lock, { warmUp = 0, ...args }) => {
    await loop(lock, { ...args, count: warmUp });
    const [own, all] = [await work(NOTHING, { ...args, count: CALLS_OF_NOTHING }), await work(lock, args)];
    return Object.fromEntries(Object.keys(all).map((name) => [name, all[name] - own[name]]));
  };

/** How many promises, timers and ticks one call makes. */
export const count = perCall(async (lock, args) => {
  const made = {};
  const hook = createHook({ init: (_, type) => (made[type] = (made[type] ?? 0) + 1) });
  hook.enable();
  const { calls } = await loop(lock, args);
  hook.disable();
  const per = (type) => (made[type] ?? 0) / calls;
  return { promises: per('PROMISE'), timers: per('Timeout') + per('Immediate'), ticks: per('TickObject') };
});

/** How many bytes one call allocates. */
export const allocate = perCall(async (lock, args) => {
  const session = new Session();
  session.connect();
  await session.post('HeapProfiler.startSampling', {
    samplingInterval: 1_024,
    includeObjectsCollectedByMajorGC: true,
    includeObjectsCollectedByMinorGC: true,
  });
  const { calls } = await loop(lock, args);
  const { profile } = await session.post('HeapProfiler.stopSampling');
  session.disconnect();
  const sizeOf = ({ selfSize, children }) => children.reduce((sum, child) => sum + sizeOf(child), selfSize);
  return { bytes: sizeOf(profile.head) / calls };
});
