// Tasks with many waiting calls, and with many instances in one process.
import { openCandidate } from '../candidates/index.mjs';
import { heapUsed } from './heap.mjs';
import { loop } from './loop.mjs';

let crowd = [];
let served = 0;
let failures = 0;

/** Calls for one lock, which another caller holds; `heap` is the memory of each when all have had the time to ask. */
export async function queueUp(lock, { calls, settleMs }) {
  const before = await heapUsed();
  const one = async () => lock.release(await lock.acquire('bench:crowd'));
  [served, failures] = [0, 0];
  crowd = Array.from({ length: calls }, () =>
    one().then(
      () => (served += 1),
      () => (failures += 1),
    ),
  );
  await new Promise((settled) => setTimeout(settled, settleMs));
  return { heap: ((await heapUsed()) - before) / calls };
}

/** Waits until each of these calls has had the lock, or until the time is over. */
export async function serve(lock, { ms }) {
  const startedAt = performance.now();
  let timer;
  const late = new Promise((over) => (timer = setTimeout(over, ms)));
  await Promise.race([Promise.all(crowd), late]);
  clearTimeout(timer);
  return { served, failures, elapsedMs: performance.now() - startedAt };
}

let instances = [];

/** Opens more instances of a candidate, each with its own connections. */
export async function openMore(_, { name, options, count }) {
  for (let i = 0; i < count; i++) instances.push(await openCandidate(name, options));
}

/** One caller in each instance, all for one lock. */
export async function loopEach(_, { ms }) {
  return Promise.all(instances.map((instance) => loop(instance, { callers: 1, hot: true, ms })));
}

export async function closeMore() {
  await Promise.all(instances.splice(0).map((instance) => instance.close()));
}
