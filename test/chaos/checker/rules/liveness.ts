import { RECOVERY_MS, faultsOf } from '../allowances.js';
import { callsByKey } from '../belief.js';
import { groupBy, lengthOf, touches, union, without } from '../spans.js';
import { type Call, type History, type Process, type Span, type Violation, standstillsOf } from '../history.js';
import { settledAt } from './settling.js';

/** A waiter asks again after a third of its waiter lease (1 s here); the rest is for a busy machine. */
const WAKE_UP_MS = 2_500;

/** A worker has several calls at a time, each of which waits for seconds, in a queue of a few others. */
const GRANT_MS = 15_000;

interface Waiter extends Span {
  readonly call: Call;
}

/** A free lock is granted to a live waiter, however many messages are lost. */
export function noLostWakeUp(history: History): Violation[] {
  const quiet = new Map<string, Span[]>();
  for (const { worker } of history.processes.values()) quiet.set(worker, faultsOf(history, worker, RECOVERY_MS));
  const anyFault = faultsOf(history, undefined, 0);
  return [...callsByKey(history.calls.values())].flatMap(([key, calls]) =>
    starvation(history, key, calls, { quiet, anyFault }),
  );
}

function starvation(
  history: History,
  key: string,
  calls: readonly Call[],
  { quiet, anyFault }: { quiet: Map<string, Span[]>; anyFault: Span[] },
): Violation[] {
  // A call for several keys holds back those behind it on a key that is free (docs/guarantees.md, promise 6).
  const held = union([
    ...calls.flatMap((call) => possibleHold(history, call, anyFault)),
    ...calls.filter((call) => call.keys.length > 1).map((call) => ({ from: call.calledAt, to: settledAt(call) })),
  ]);
  const gaps = without({ from: 0, to: history.stoppingAt }, held).filter(({ from, to }) => to - from > WAKE_UP_MS);
  return gaps.flatMap((gap) => {
    const waiters = calls.flatMap((call) =>
      waitsIn(history, call, gap, quiet.get(history.process(call.process).worker)!),
    );
    const starved = union(waiters).find(({ from, to }) => to - from > WAKE_UP_MS);
    if (!starved) return [];
    const names = waiters.filter((waiter) => touches(waiter, starved)).map(({ call }) => call.op);
    const text = `${key} was free for ${(starved.to - starved.from).toFixed(0)} ms while ${names.join(', ')} waited`;
    return [{ rule: 'no-lost-wake-up' as const, t: starved.from, text }];
  });
}

/** When a call may have kept the key from others, by its own report or as a hold or a place that nobody knows of. */
function possibleHold(history: History, call: Call, faults: readonly Span[]): Span[] {
  const { endedAt = Infinity } = history.process(call.process);
  const { grantedAt, failedAt, lostAt, leaseMs, until } = call;
  // What was transferred is not released.
  const releasedAt = call.releasedAt ?? call.transferredAt;
  const finite = Number.isFinite(until) ? until : 0;
  if (grantedAt === undefined) {
    const settled = Math.min(failedAt ?? Infinity, endedAt);
    const isSure = failedAt !== undefined && call.failure !== 'LOCK_STORE';
    const wasDisturbed = faults.some((fault) => touches(fault, { from: call.calledAt, to: settled }));
    // A dead process leaves what it had sent: a place, and then a hold.
    if (isSure && !wasDisturbed) return [];
    return [{ from: settled, to: settled + 2 * leaseMs }];
  }
  const leaseEnd = Math.max(finite, lostAt ?? 0, Math.min(releasedAt ?? Infinity, endedAt)) + leaseMs;
  const wasDisturbed = faults.some((fault) => touches(fault, { from: grantedAt, to: (releasedAt ?? leaseEnd) + 1 }));
  return [{ from: grantedAt, to: releasedAt !== undefined && call.wasHeld && !wasDisturbed ? releasedAt : leaseEnd }];
}

/** The parts of a gap in which a live call waited that no fault concerned. */
function waitsIn(history: History, call: Call, gap: Span, faults: readonly Span[]): Waiter[] {
  const process = history.process(call.process);
  const from = Math.max(call.calledAt, gap.from);
  const to = Math.min(settledAt(call), gap.to, process.endedAt ?? Infinity, process.closingAt ?? Infinity);
  if (to - from <= 0) return [];
  return without({ from, to }, [...faults, ...standstillsOf(process)]).map((span) => ({ ...span, call }));
}

/** A process that nothing disturbs any more is granted locks again, and a run without a grant proves nothing. */
export function recovery(history: History): Violation[] {
  const ofLanes = [...history.calls.values()].filter(({ fire, leads }) => fire === undefined && !leads);
  const granted = ofLanes.filter(({ grantedAt }) => grantedAt !== undefined);
  const ready = [...history.processes.values()].filter(({ readyAt }) => readyAt !== undefined);
  if (granted.length === 0 && ready.length > 0)
    return [{ rule: 'recovery', t: history.endedAt, text: 'no call was granted' }];
  const grants = groupBy(granted, ({ process }) => process);
  return ready.flatMap((process) => barren(history, process, grants.get(process.name) ?? []));
}

/** The times in which a process was granted nothing. What counts of them is when nothing disturbed it, all together. */
function barren(history: History, process: Process, granted: readonly Call[]): Violation[] {
  const { name, worker, readyAt, endedAt = Infinity, closingAt = Infinity } = process;
  const end = Math.min(endedAt, closingAt, history.stoppingAt);
  const disturbed = [...faultsOf(history, worker, RECOVERY_MS), ...standstillsOf(process)];
  const grants = granted.map(({ grantedAt }) => grantedAt!).filter((t) => t < end);
  const times = [readyAt!, ...grants.sort((a, b) => a - b), end];
  return times.slice(1).flatMap((to, i) => {
    const from = times[i]!;
    if (to - from <= GRANT_MS) return [];
    const quietMs = lengthOf(without({ from, to }, disturbed));
    if (quietMs <= GRANT_MS) return [];
    const [all, quiet] = [to - from, quietMs].map((ms) => `${(ms / 1_000).toFixed(1)} s`);
    const text = `${name} was granted nothing for ${all}; nothing disturbed it for ${quiet} of them`;
    return [{ rule: 'recovery' as const, t: from, text }];
  });
}
