// The tasks of a candidate. Each returns plain figures.
import { getEventListeners, setMaxListeners } from 'node:events';
import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';
import { allocate, count } from './counts.mjs';
import { closeMore, loopEach, openMore, queueUp, serve } from './crowd.mjs';
import { heapUsed, times } from './heap.mjs';
import { loop, watchUse } from './loop.mjs';

const now = () => Number(process.hrtime.bigint()) / 1e6;

/** The turns of one caller at a hot key: when it was granted, and when it called release; on the clock of the machine. */
async function turns(lock, { ms, holdMs }) {
  const until = now() + ms;
  const all = [];
  let failures = 0;
  while (now() < until) {
    try {
      const held = await lock.acquire('bench:hot');
      const grantedAt = now();
      await sleep(holdMs);
      all.push({ pid: process.pid, grantedAt, releasedAt: now() });
      await lock.release(held);
    } catch {
      failures += 1;
    }
  }
  return { turns: all, failures };
}

/** The time of one command, each after the same rest as between two turns. */
async function roundTrips(lock, { ms, holdMs }) {
  const until = now() + ms;
  const all = [];
  while (now() < until) {
    await sleep(holdMs);
    const askedAt = now();
    const held = await lock.acquire('bench:round-trip');
    all.push(now() - askedAt);
    await lock.release(held);
  }
  return all;
}

const BATCH = 20;

/** The CPU that `more` costs on top of `plain`, in small batches that alternate. */
async function overhead(lock, { plain, more, ms }) {
  const microsOf = async (call) => {
    if (call.isHeard) lock.listen();
    const { cpuMicros, calls } = await loop(lock, { ...call, callers: 1, count: BATCH });
    if (call.isHeard) lock.stopListening();
    return cpuMicros / calls;
  };
  const until = now() + ms;
  const all = [];
  while (now() < until) {
    const without = await microsOf(plain);
    all.push((await microsOf(more)) - without);
  }
  return all;
}

let leases = [];

/** Takes many locks, which stay held until `letGo`. */
async function hold(lock, { locks }) {
  const take = lock.hold ?? lock.acquire;
  const letGo = lock.letGo ?? lock.release;
  // What is compiled and cached by the first calls is not the memory of a lock.
  await times(1_000, 64, async (i) => letGo(await take(`bench:warm-up:${i}`)));
  const keys = Array.from({ length: locks }, (_, i) => `bench:lease:${i}`);
  leases = Array(locks);
  const before = await heapUsed();
  await times(locks, 64, async (i) => (leases[i] = await take(keys[i])));
  return { heap: ((await heapUsed()) - before) / locks };
}

/** Does nothing, so that what this process uses meanwhile is the renewals. */
async function idle(lock, { ms }) {
  const use = watchUse();
  await sleep(ms);
  return use();
}

/** Releases what `hold` has taken; `lost` is the number of losses that the candidate reports. */
async function letGo(lock) {
  const lost = leases.map((held) => lock.isLost?.(held) ?? false);
  const letGo = lock.letGo ?? lock.release;
  const ends = await Promise.allSettled(leases.map((held) => letGo(held)));
  const refused = ends.map(({ status }) => status === 'rejected');
  leases = [];
  return { lost: lost.filter((isLost, i) => isLost || refused[i]).length };
}

const CALLERS = 64;

/** Takes and releases locks, each with its own key, and returns what is left. */
async function cycles(lock, { count, ms }) {
  const cycle = async (i) => lock.release(await lock.acquire(`bench:cycle:${i}`));
  await times(1_000, CALLERS, cycle);
  const before = { heap: await heapUsed(), ...leftOf() };
  const done = await times(count, CALLERS, cycle, ms);
  const after = { heap: await heapUsed(), ...leftOf() };
  return {
    done,
    heapKiB: (after.heap - before.heap) / 1_024,
    timers: after.timers - before.timers,
    listeners: after.listeners - before.listeners + (await listenersLeft(lock)),
  };
}

const leftOf = () => ({
  timers: process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length,
  listeners: process.eventNames().reduce((total, name) => total + process.listenerCount(name), 0),
});

/** The number of listeners that calls leave on a signal that outlives them. */
async function listenersLeft(lock) {
  if (!lock.acquireWithSignal) return 0;
  const { signal } = new AbortController();
  setMaxListeners(0, signal);
  await times(1_000, CALLERS, async (i) => lock.release(await lock.acquireWithSignal(`bench:cycle:${i}`, signal)));
  return getEventListeners(signal, 'abort').length;
}

let only;

async function acquireOne(lock, { key }) {
  only = await lock.acquire(key);
}

const releaseOne = async (lock) => void (await lock.release(only));

const CROWD = { acquireOne, releaseOne, queueUp, serve, openMore, loopEach, closeMore };

export const TASKS = { loop, count, allocate, turns, roundTrips, overhead, hold, idle, letGo, cycles, ...CROWD };
