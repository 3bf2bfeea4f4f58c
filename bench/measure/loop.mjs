// Callers that repeat one operation.
import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';

/** What one caller does; `grant` is called when it has the lock, `end` before it releases a lock that it has worked under. */
const CALLS = {
  // A candidate without such a pair has a separate call.
  pair: (lock, { key }, grant) => (lock.pair ? lock.pair(key, grant) : pair(lock, key, grant)),
  async work(lock, { key, workMs }, grant, end) {
    const held = await lock.acquire(key);
    grant();
    await sleep(workMs);
    end();
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
  decorated: (lock, { key }) => lock.decorated(key),
  // One call that holds the lock, and `inner` calls in it, one after the other.
  nested: (lock, { key, inner }) => lock.nested(key, inner),
  'nested withLock': (lock, { key, inner }) => lock.nestedWithLock(key, inner),
};

async function pair(lock, key, grant) {
  const held = await lock.acquire(key);
  grant();
  await lock.release(held);
}

const microsOf = ({ user, system }) => user + system;

/** What this process uses until the returned function is called. */
export function watchUse() {
  const cpu = process.cpuUsage();
  const startedAt = performance.now();
  return () => ({ elapsedMs: performance.now() - startedAt, cpuMicros: microsOf(process.cpuUsage(cpu)) });
}

/**
 * Callers in a closed loop, for `ms` or until they have made `count` calls. A call that has begun is waited for.
 * `inTime` calls ended within `ms`, the last of them after `lastMs`: callers with a long wait do not slow down the result of the others.
 * `heldMs`: for how long within `ms` a caller worked under its lock.
 */
export async function loop(lock, { call = 'pair', callers, hot = false, ms = Infinity, count = Infinity, ...rest }) {
  const run = CALLS[call];
  const waits = [];
  const times = [];
  let [failures, nr, inTime, lastMs, heldMs] = [0, 0, 0, 0, 0];
  const use = watchUse();
  const startedAt = performance.now();
  const one = async (caller) => {
    const key = hot ? 'bench:hot' : `bench:${process.pid}:${caller}`;
    while (nr < count) {
      const from = performance.now();
      if (from - startedAt >= ms) return;
      let grantedAt;
      const grant = () => waits.push((grantedAt = performance.now()) - from);
      const end = () => (heldMs += Math.max(Math.min(performance.now(), startedAt + ms) - grantedAt, 0));
      try {
        await run(lock, { key, nr: nr++, ...rest }, grant, end);
      } catch {
        failures += 1;
        continue;
      }
      const now = performance.now();
      times.push(now - from);
      if (now - startedAt > ms) continue;
      inTime += 1;
      lastMs = now - startedAt;
    }
  };
  await Promise.all(Array.from({ length: callers }, (_, caller) => one(caller)));
  const spreads = { times: spread(times), waits: spread(waits) };
  return { calls: times.length, failures, inTime, lastMs, heldMs, ...use(), ...spreads };
}

const at = (sorted, share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0;

function spread(values) {
  const sorted = Float64Array.from(values).sort();
  return { p50: at(sorted, 0.5), p99: at(sorted, 0.99), max: at(sorted, 1) };
}
