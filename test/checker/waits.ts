import { CLOCK_DRIFT, commandTimeoutMs } from '../../lib/core/timing.js';
import { callsByKey, faultsOf, groupBy, lengthOf, stoodStill, touches, turnsOf, union, without } from './spans.js';
import { type Call, type History, type Process, type Span, standstillsOf, type Violation } from './history.js';

/** A deadline that passes while a process stands still waits this long for an answer that may have arrived (`READ_MS` of the library). */
const READ_MS = 60;

/** A first answer of the store may take this long, however short the wait of a call is; so may the answer to a release. */
export const FIRST_ANSWER_MS = 1_000;

/** An adoption is one command. */
const withinOf = ({ adopts, leaseMs, waitMs, abortAfterMs = Infinity }: Call): number =>
  adopts === undefined ? Math.min(waitMs, abortAfterMs) : commandTimeoutMs(leaseMs);

/** Every call settles in time: an acquisition within its wait, a call on a hold within the bound set by its caller. */
export function callsSettle(history: History): Violation[] {
  const acquisitions = [...history.calls.values()].map((call) => ({
    op: call.op,
    process: call.process,
    what: 'the call',
    from: call.calledAt,
    to: call.grantedAt ?? call.failedAt,
    withinMs: Math.max(withinOf(call), FIRST_ANSWER_MS),
  }));
  return [...acquisitions, ...history.questions].flatMap(({ op, process, what, from, to, withinMs }) => {
    const { endedAt, stuckAt } = history.process(process);
    const until = to ?? stuckAt ?? endedAt ?? history.endedAt;
    const stillMs = stoodStill(history, process, { from, to: until });
    const lateMs = history.limits.lateMs + (stillMs > 0 ? stillMs + READ_MS : 0);
    if (until - from <= withinMs * (1 + CLOCK_DRIFT) + lateMs) return [];
    const took = to === undefined ? 'has no end' : `took ${(to - from).toFixed(0)} ms`;
    const text = `${what} of ${op} ${took}; it had ${withinMs.toFixed(0)} ms`;
    return [{ rule: 'calls-settle' as const, t: from, text }];
  });
}

/** Whether the call was still waiting at this moment, as far as its process knows. */
const settledAt = ({ grantedAt, failedAt }: Call): number => grantedAt ?? failedAt ?? Infinity;

/** A worker has several calls at a time, each of which waits for seconds, in a queue of a few others. */
const GRANT_MS = 15_000;

interface Waiter extends Span {
  readonly call: Call;
}

/** A free lock is granted to a live waiter, even if any number of messages is lost. */
export function noLostWakeUp(history: History): Violation[] {
  const quiet = new Map<string, Span[]>();
  for (const { worker } of history.processes.values()) quiet.set(worker, faultsOf(history, worker));
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
  const { wakeUpMs } = history.limits;
  // A call for several keys, or for a fire, holds back those behind it on a key that is free (docs/guarantees.md, promise 6).
  const holdsBack = ({ keys, fire }: Call): boolean => keys.length > 1 || fire !== undefined;
  const held = union([
    ...calls.flatMap((call) => possibleHold(history, call, anyFault)),
    ...calls.filter(holdsBack).map((call) => ({ from: call.calledAt, to: settledAt(call) })),
  ]);
  const gaps = without({ from: 0, to: history.stoppingAt }, held).filter(({ from, to }) => to - from > wakeUpMs);
  return gaps.flatMap((gap) => {
    const waiters = calls.flatMap((call) =>
      waitsIn(history, call, gap, quiet.get(history.process(call.process).worker)!),
    );
    const starved = union(waiters).find(({ from, to }) => to - from > wakeUpMs);
    if (!starved) return [];
    const names = waiters.filter((waiter) => touches(waiter, starved)).map(({ call }) => call.op);
    const text = `${key} was free for ${(starved.to - starved.from).toFixed(0)} ms while ${names.join(', ')} waited`;
    return [{ rule: 'no-lost-wake-up' as const, t: starved.from, text }];
  });
}

/** When a call may have kept the key from others, by its report, or by a hold or a place that is not in any report. */
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
  const isFree = releasedAt !== undefined && call.wasHeld && !wasDisturbed;
  return [{ from: grantedAt, to: isFree ? Math.max(releasedAt, grantedAt + call.holdAtLeastMs) : leaseEnd }];
}

/** The parts of a gap in which a live call waited that no fault concerned. */
function waitsIn(history: History, call: Call, gap: Span, faults: readonly Span[]): Waiter[] {
  const process = history.process(call.process);
  const from = Math.max(call.calledAt, gap.from);
  const to = Math.min(settledAt(call), gap.to, process.endedAt ?? Infinity, process.closingAt ?? Infinity);
  if (to - from <= 0) return [];
  return without({ from, to }, [...faults, ...standstillsOf(process)]).map((span) => ({ ...span, call }));
}

/** An undisturbed process is granted locks again, and a run without a grant proves nothing. */
export function recovery(history: History): Violation[] {
  const ofLanes = [...history.calls.values()].filter(({ fire, leads }) => fire === undefined && !leads);
  const granted = ofLanes.filter(({ grantedAt }) => grantedAt !== undefined);
  const ready = [...history.processes.values()].filter(({ readyAt }) => readyAt !== undefined);
  if (granted.length === 0 && ready.length > 0)
    return [{ rule: 'recovery', t: history.endedAt, text: 'no call was granted' }];
  const grants = groupBy(granted, ({ process }) => process);
  return ready.flatMap((process) => barren(history, process, grants.get(process.name) ?? []));
}

/** The times in which a process was granted nothing, counting the undisturbed parts only. */
function barren(history: History, process: Process, granted: readonly Call[]): Violation[] {
  const { name, worker, readyAt, endedAt = Infinity, closingAt = Infinity } = process;
  const end = Math.min(endedAt, closingAt, history.stoppingAt);
  const disturbed = [...faultsOf(history, worker), ...standstillsOf(process)];
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

/**
 * First in, first out among the writers of a line, and among the turns of lines (docs/adr/022), unless a fault concerns who waits or
 * its process stands still.
 */
export function firstInFirstOut(history: History): Violation[] {
  const faults = new Map<string, Span[]>();
  const disturbing = ({ process }: Call): Span[] => {
    const { worker } = history.process(process);
    if (!faults.has(worker)) faults.set(worker, faultsOf(history, worker));
    return faults.get(worker)!;
  };
  return [...callsByKey(history.calls.values())].flatMap(([key, calls]) => {
    const inQueue = calls.filter(queues).toSorted((a, b) => a.calledAt - b.calledAt);
    const places = new Places(calls, history);
    let waiting: Call[] = [];
    return inQueue.flatMap((call) => {
      waiting = waiting.filter((one) => waitedUntil(one, history) > call.calledAt);
      const passed = waiting.filter((one) => isPassed(history, places, one, call, disturbing(one)));
      waiting.push(call);
      return passed.map((one) => {
        const text = `${call.op} was granted ${key} before ${one.op}, which had waited for it`;
        return { rule: 'first-in-first-out' as const, t: call.grantedAt!, text };
      });
    });
  });
}

/**
 * Until when a call has waited for sure. One whose wait is over has given its place back a little earlier than it fails; one that
 * fails in another way may have had no place.
 */
const waitedUntil = ({ grantedAt, failedAt, failure }: Call, { limits }: History): number =>
  grantedAt ?? (failure === 'LOCK_WAIT_TIMEOUT' ? failedAt! - limits.asksWithinMs : -Infinity);

/** Owners enter again, and a call for several keys waits for all of them. */
const stands = ({ keys, owner, fair, waitMs }: Call): boolean =>
  keys.length === 1 && owner === undefined && fair !== false && waitMs > 0;

/** Readers share a grant, and a nested call may have waited in its hold first. */
const queues = (call: Call): boolean => stands(call) && call.mode === 'write' && !call.isNested;

function isPassed(history: History, places: Places, first: Call, later: Call, faults: readonly Span[]): boolean {
  const { grantedAt = Infinity } = later;
  const { asksWithinMs } = history.limits;
  if (first.calledAt + asksWithinMs > later.calledAt || waitedUntil(first, history) <= grantedAt) return false;
  if (first.line !== later.line && places.latest(first, grantedAt) + asksWithinMs > places.earliest(later))
    return false;
  const span = { from: first.calledAt, to: grantedAt };
  if (faults.some((fault) => touches(fault, span))) return false;
  return stoodStill(history, first.process, span) < asksWithinMs;
}

/** When the lines of one key took their places in the queue in Redis: one place for each turn. */
class Places {
  readonly #lines: Map<string, Call[]>;
  readonly #turns = new Map<string, Call[][]>();

  constructor(
    private readonly calls: readonly Call[],
    private readonly history: History,
  ) {
    this.#lines = groupBy(calls.filter(stands), ({ line }) => line);
    for (const [line, members] of this.#lines) this.#turns.set(line, turnsOf(members));
  }

  /**
   * When the line of a call that waits until `t` had a place at the latest: those before it in the line had come to their end, and
   * those of an owner had their answer, since each asks on its own.
   * A reader that still waits before it has the place. On a cluster, a call for keys of several slots asks for each as for one key.
   */
  latest(waiting: Call, t: number): number {
    const before = this.calls.filter(
      ({ process, calledAt }) => process === waiting.process && calledAt <= waiting.calledAt,
    );
    const isBehind = ({ keys, releasedAt, failedAt }: Call): boolean =>
      keys.length > 1 && (releasedAt ?? failedAt ?? Infinity) > waiting.calledAt;
    if (before.some(isBehind)) return Infinity;
    const asksAlone = ({ keys, owner, fair }: Call): boolean =>
      keys.length === 1 && owner !== undefined && fair === true;
    const answers = before.filter(asksAlone).map(settledAt);
    const line = this.#lines.get(waiting.line)!;
    const isAhead = (one: Call) =>
      one.mode === 'read' && one.calledAt <= waiting.calledAt && waitedUntil(one, this.history) >= t;
    if (line.some(isAhead)) return Infinity;
    const isBefore = ({ grantedAt, failedAt = Infinity, calledAt }: Call): boolean =>
      grantedAt === undefined ? failedAt < t && calledAt <= waiting.calledAt : grantedAt < t;
    const ends = line
      .filter(isBefore)
      .map(({ releasedAt, transferredAt, failedAt }) => releasedAt ?? transferredAt ?? failedAt ?? Infinity);
    return Math.max(waiting.calledAt, ...answers, ...ends);
  }

  /**
   * When the turn of a granted call had its place at the earliest: after the grant of the turn before, and when a call waited for it,
   * if only one that left its place to the others.
   */
  earliest(call: Call): number {
    const turns = this.#turns.get(call.line)!;
    const before = turns[turns.findIndex((turn) => turn.includes(call)) - 1];
    const grantBefore = before?.[0]!.grantedAt ?? -Infinity;
    const waiting = this.#lines
      .get(call.line)!
      .filter((one) => (one.grantedAt ?? one.failedAt ?? Infinity) > grantBefore && !before?.includes(one));
    return Math.max(grantBefore, Math.min(...waiting.map(({ calledAt }) => calledAt)));
  }
}
