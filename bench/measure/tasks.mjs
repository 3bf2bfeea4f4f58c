// What a candidate can be asked to do. Each task returns plain figures.
import { createHook } from 'node:async_hooks';
import { Session } from 'node:inspector/promises';
import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';

/** What one caller does again and again; `grant` is called when it has the lock. */
const CALLS = {
  async pair(lock, { key }, grant) {
    const held = await lock.acquire(key);
    grant();
    await lock.release(held);
  },
  async 'read or write'(lock, { key, nr }, grant) {
    const isWrite = nr % 20 === 0;
    const take = isWrite ? lock.acquire : (lock.read ?? lock.acquire);
    const held = await take(key);
    grant();
    await lock.release(held);
  },
  withLock: (lock, { key }, grant) => lock.withLock(key, grant),
  async decorated(lock, { key }, grant) {
    await lock.decorated(key);
    grant();
  },
  async nested(lock, { key, depth }, grant) {
    await lock.nested(key, depth);
    grant();
  },
};

const microsOf = ({ user, system }) => user + system;

/** Callers in a closed loop, until the time is over. */
async function loop(lock, { call = 'pair', callers, hot = false, ms, depth }) {
  const run = CALLS[call];
  const waits = [];
  const times = [];
  let failures = 0;
  let nr = 0;
  const cpu = process.cpuUsage();
  const startedAt = performance.now();
  const one = async (caller) => {
    const key = hot ? 'bench:hot' : `bench:${process.pid}:${caller}`;
    for (;;) {
      const from = performance.now();
      if (from - startedAt >= ms) return;
      try {
        await run(lock, { key, nr: nr++, depth }, () => waits.push(performance.now() - from));
        times.push(performance.now() - from);
      } catch {
        failures += 1;
      }
    }
  };
  await Promise.all(Array.from({ length: callers }, (_, caller) => one(caller)));
  const elapsedMs = performance.now() - startedAt;
  const cpuMicros = microsOf(process.cpuUsage(cpu));
  return { calls: times.length, failures, elapsedMs, cpuMicros, times: spread(times), waits: spread(waits) };
}

const at = (sorted, share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0;

function spread(values) {
  const sorted = Float64Array.from(values).sort();
  return { p50: at(sorted, 0.5), p99: at(sorted, 0.99), max: at(sorted, 1) };
}

/** How many promises, timers and ticks one call makes. */
async function count(lock, args) {
  const made = {};
  const hook = createHook({ init: (_, type) => (made[type] = (made[type] ?? 0) + 1) });
  await loop(lock, args);
  hook.enable();
  const { calls } = await loop(lock, args);
  hook.disable();
  const per = (type) => (made[type] ?? 0) / calls;
  return { promises: per('PROMISE'), timers: per('Timeout') + per('Immediate'), ticks: per('TickObject') };
}

/** How many bytes one call allocates. */
async function allocate(lock, args) {
  const session = new Session();
  session.connect();
  await loop(lock, args);
  const all = {
    samplingInterval: 4_096,
    includeObjectsCollectedByMajorGC: true,
    includeObjectsCollectedByMinorGC: true,
  };
  await session.post('HeapProfiler.startSampling', all);
  const { calls } = await loop(lock, args);
  const { profile } = await session.post('HeapProfiler.stopSampling');
  session.disconnect();
  const sizeOf = ({ selfSize, children }) => children.reduce((sum, child) => sum + sizeOf(child), selfSize);
  return { bytes: sizeOf(profile.head) / calls };
}

/** The turns of one caller at a hot key: when it was granted, and when it called release; on the clock of the machine. */
async function turns(lock, { ms, holdMs }) {
  const now = () => Number(process.hrtime.bigint()) / 1e6;
  const until = now() + ms;
  const all = [];
  while (now() < until) {
    const held = await lock.acquire('bench:hot');
    const grantedAt = now();
    await sleep(holdMs);
    all.push({ pid: process.pid, grantedAt, releasedAt: now() });
    await lock.release(held);
  }
  return all;
}

const heapUsed = async () => {
  // A second one, for what the finalizers of the first one let go.
  for (let i = 0; i < 2; i++) {
    globalThis.gc();
    await sleep(10);
  }
  return process.memoryUsage().heapUsed;
};

const times = async (count, callers, work) => {
  let next = 0;
  const one = async () => {
    while (next < count) await work(next++);
  };
  await Promise.all(Array.from({ length: callers }, one));
};

let leases = [];

/** Takes many locks, which stay held until `letGo`. */
async function hold(lock, { locks }) {
  const take = lock.hold ?? lock.acquire;
  const keys = Array.from({ length: locks }, (_, i) => `bench:lease:${i}`);
  leases = Array(locks);
  const before = await heapUsed();
  await times(locks, 64, async (i) => (leases[i] = await take(keys[i])));
  return { heap: ((await heapUsed()) - before) / locks };
}

/** Does nothing, so that what this process uses meanwhile is the renewals. */
async function idle(lock, { ms }) {
  const cpu = process.cpuUsage();
  const startedAt = performance.now();
  await sleep(ms);
  const elapsedMs = performance.now() - startedAt;
  return { elapsedMs, cpuMicros: microsOf(process.cpuUsage(cpu)) };
}

async function letGo(lock) {
  const lost = leases.filter((held) => lock.isLost?.(held)).length;
  const letGo = lock.letGo ?? lock.release;
  const failures = await Promise.allSettled(leases.map((held) => letGo(held)));
  leases = [];
  return { lost: Math.max(lost, failures.filter(({ status }) => status === 'rejected').length) };
}

/** Takes and releases locks, each of its own key, and tells what is left. */
async function cycles(lock, { count }) {
  await times(1_000, 64, async (i) => lock.release(await lock.acquire(`bench:cycle:${i}`)));
  const before = await heapUsed();
  await times(count, 64, async (i) => lock.release(await lock.acquire(`bench:cycle:${i}`)));
  const heapKiB = ((await heapUsed()) - before) / 1_024;
  const timers = process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
  return { heapKiB, timers };
}

export const TASKS = { loop, count, allocate, turns, hold, idle, letGo, cycles };
