import { onAbort } from '../abort-listener.js';
import { type Clock } from '../clock.js';
import { unansweredError } from '../error-texts.js';
import { CompositeHold, throwIfLost } from '../hold/composite-hold.js';
import { type StoreHold } from '../hold/store-hold.js';
import { type TimerQueue } from '../timer-queue.js';
import { FIRST_ANSWER_MS, RELEASE_PATIENCE_MS } from '../timing.js';
import { type LockRequest } from './request.js';

interface GroupParts {
  readonly clock: Clock;
  readonly timers: TimerQueue;
  /** Acquires the keys of one group. */
  readonly acquireGroup: (keys: readonly string[]) => Promise<StoreHold>;
}

/** Acquires groups of keys one after the other, in the order of the store: all or none. */
export async function acquireGroups(
  request: LockRequest,
  groups: readonly (readonly string[])[],
  { clock, timers, acquireGroup }: GroupParts,
): Promise<CompositeHold> {
  const { keys, options, startedAt } = request;
  const parts: StoreHold[] = [];
  try {
    for (const group of groups) parts.push(await acquireGroup(group));
    await prove(parts, request, clock, timers);
  } catch (error) {
    // Within the time limit of the whole call, even if Redis cannot be reached any more.
    const patienceMs = Math.min(startedAt + options.waitMs - clock.now(), 0) + RELEASE_PATIENCE_MS;
    await timers.withTimeout(patienceMs, Promise.all(parts.map((part) => part.release())));
    throw error;
  }
  return new CompositeHold(keys, parts);
}

/**
 * Makes sure that holds which were acquired one after the other are all proven. The machine may have slept meanwhile: then a
 * lease is over by the wall clock, and the store is asked once more, within the time limit of the call.
 */
async function prove(
  holds: readonly StoreHold[],
  { options: { signal, waitMs }, startedAt }: LockRequest,
  clock: Clock,
  timers: TimerQueue,
): Promise<void> {
  const unproven = holds.filter(({ provenMs }) => provenMs === 0);
  for (const hold of unproven) if (!hold.request.options.renew) hold.expire();
  throwIfLost(holds);
  if (unproven.length === 0) return;
  const answers = unproven.map((hold) => hold.extendBy(hold.request.options.leaseMs));
  let end!: () => void;
  const done = new Promise<void>((resolve) => (end = resolve));
  void Promise.allSettled(answers).then(end);
  const stopListening = signal && onAbort(signal, end);
  await timers.withTimeout(startedAt + waitMs + FIRST_ANSWER_MS - clock.now(), done);
  stopListening?.();
  signal?.throwIfAborted();
  throwIfLost(holds);
  const silent = holds.find(({ provenMs }) => provenMs === 0);
  if (silent) throw unansweredError(silent, Math.round(clock.now() - startedAt), silent.renewError);
}
