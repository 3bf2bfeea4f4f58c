import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';

const COLLECTIONS = 5;

/** The bytes of the heap that are in use: the least of several collections, since renewals and finalizers continue. */
export async function heapUsed() {
  let least = Infinity;
  for (let i = 0; i < COLLECTIONS; i++) {
    globalThis.gc();
    await sleep(20);
    globalThis.gc();
    least = Math.min(least, process.memoryUsage().heapUsed);
  }
  return least;
}

/** Does `work` with each number below `count`, `callers` at a time, or until the time is over; returns how many it did. */
export async function times(count, callers, work, ms = Infinity) {
  const until = performance.now() + ms;
  let next = 0;
  const one = async () => {
    while (next < count && performance.now() < until) await work(next++);
  };
  await Promise.all(Array.from({ length: callers }, one));
  return next;
}
