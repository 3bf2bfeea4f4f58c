import { type LockEvents } from '../core/lock.events.js';

interface Run {
  users: number;
  readonly stop: () => void;
}

/** Starts something for the events of a service and a target, unless it runs; it ends when its last user stops it. */
export type ShareRun = (events: LockEvents, target: object, start: () => () => void) => () => void;

/** Makes sure that a service is measured once into one target, however often it is set up. */
export function sharedRuns(): ShareRun {
  const all = new WeakMap<LockEvents, Map<object, Run>>();
  return (events, target, start) => {
    const runs = all.get(events) ?? new Map<object, Run>();
    all.set(events, runs);
    const run = runs.get(target) ?? { users: 0, stop: start() };
    runs.set(target, run);
    run.users += 1;
    let isStopped = false;
    return () => {
      if (isStopped) return;
      isStopped = true;
      run.users -= 1;
      if (run.users > 0) return;
      runs.delete(target);
      run.stop();
    };
  };
}
