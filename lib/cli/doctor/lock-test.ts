import { systemRandomness } from '../../core/randomness.js';
import { randomAttempt } from '../../core/store/attempt-ids.js';
import { type AcquireReply, type AcquireRequest, type LockStore } from '../../core/store/lock-store.js';
import { within } from '../session.js';
import { type Settings } from '../settings.js';
import { type Result, ok, problem, warn } from './finding.js';
import { type Server, comes } from './servers.js';

const LEASE_MS = 10_000;
const ROUNDS = 5;
const SLOW_MS = 100;
const HANDOVER_MS = 2_000;

const ignore = (): void => undefined;

/** A store with what a call of it needs; the attempts are those of the store. */
class Caller {
  constructor(
    private readonly settings: Settings,
    readonly store: LockStore,
    private readonly key: string,
  ) {}

  newAttempt(): string {
    return randomAttempt(this.store.clientId, systemRandomness);
  }

  acquire(attempt: string, waiterLeaseMs = 0): Promise<AcquireReply> {
    const request: AcquireRequest = {
      keys: [this.key],
      attempt,
      owner: undefined,
      mode: 'write',
      leaseMs: LEASE_MS,
      waiterLeaseMs,
      fair: true,
      permits: 0,
      holder: `doctor:${process.pid}`,
    };
    return within(this.settings, this.store.acquire(request, this.settings.timeoutMs, ignore));
  }

  release(attempt: string): Promise<unknown> {
    const request = { key: this.key, attempt, holdAtLeastMs: 0, leaseMs: LEASE_MS };
    return within(this.settings, this.store.release(request, this.settings.timeoutMs));
  }
}

/** Acquires and releases a lock of the doctor's own some times; what is left of it is removed by `removeTraces`. */
export async function checkLock(settings: Settings, store: LockStore, key: string): Promise<Result[]> {
  const caller = new Caller(settings, store, key);
  const times: { readonly acquire: number; readonly release: number }[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const attempt = caller.newAttempt();
    const start = performance.now();
    const reply = await caller.acquire(attempt);
    const middle = performance.now();
    if (reply.outcome !== 'granted') {
      return [
        problem('A lock that nobody holds was not granted.', 'Check whether the servers keep what is written to them.'),
      ];
    }
    await caller.release(attempt);
    times.push({ acquire: middle - start, release: performance.now() - middle });
  }
  const [acquire, release] = [median(times.map((one) => one.acquire)), median(times.map((one) => one.release))];
  const text = `A lock is acquired in ${msText(acquire)} and released in ${msText(release)} (the median of ${ROUNDS}).`;
  if (acquire + release < SLOW_MS) return [ok(text)];
  const means = `${text} Every locked call is slower by that.`;
  return [warn(means, 'Check the network between this machine and Redis, and the slow log of Redis.')];
}

/** Whether a release hands the lock to a waiter by a message. */
export async function checkHandover(settings: Settings, { place, key }: Server): Promise<Result[]> {
  if (!(await place.listens())) {
    const text =
      'The subscription to the channel of wake-ups was not confirmed. Waiters poll, and get a lock up to two seconds late.';
    return [
      problem(
        text,
        'Check the rights of the user (+subscribe, and the channels), and whether a proxy refuses pub/sub.',
      ),
    ];
  }
  const caller = new Caller(settings, place.store, key);
  const [first, second] = [caller.newAttempt(), caller.newAttempt()];
  await caller.acquire(first);
  await caller.acquire(second, LEASE_MS);
  const start = performance.now();
  await caller.release(first);
  const isWoken = await comes(() => place.wakeUpOf(second) !== undefined, HANDOVER_MS);
  const tookMs = performance.now() - start;
  await caller.release(second);
  if (!isWoken) {
    const text =
      'No message came when a lock was released that was waited for. Waiters poll, and get a lock up to two seconds late.';
    return [
      problem(text, 'Check the rights of the user (+publish, and the channels), and whether a proxy drops pub/sub.'),
    ];
  }
  return [ok(`A waiter gets a released lock by a message, ${msText(tookMs)} after the release began.`)];
}

/** With the rights that locks need, which do not include DEL. */
const REMOVE = `local fields = redis.call('HGETALL', KEYS[1])
for i = 1, #fields, 2 do redis.call('HDEL', KEYS[1], fields[i]) end
return 0`;

/** Removes what the locks of the doctor have left on a server. */
export const removeTraces = ({ ask }: Server, storageKey: string): Promise<unknown> =>
  ask((client) => client.evaluate(REMOVE, [1, storageKey]));

const median = (values: readonly number[]): number => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)]!;

const msText = (ms: number): string => `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
