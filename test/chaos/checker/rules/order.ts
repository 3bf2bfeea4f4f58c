import { RECOVERY_MS, faultsOf, stoodStill } from '../allowances.js';
import { callsByKey, turnsOf } from '../belief.js';
import { groupBy, touches } from '../spans.js';
import { type Call, type History, type Span, type Violation } from '../history.js';

/** A call has asked Redis this long after it could, also on a busy machine. */
const ASKS_WITHIN_MS = 500;

/**
 * First in, first out among the calls of a line, and among the turns of lines (docs/adr/017), unless a fault concerns who waits or
 * its process stands still.
 */
export function firstInFirstOut(history: History): Violation[] {
  const faults = new Map<string, Span[]>();
  const disturbing = ({ process }: Call): Span[] => {
    const { worker } = history.process(process);
    if (!faults.has(worker)) faults.set(worker, faultsOf(history, worker, RECOVERY_MS));
    return faults.get(worker)!;
  };
  return [...callsByKey(history.calls.values())].flatMap(([key, calls]) => {
    const inQueue = calls.filter(queues).toSorted((a, b) => a.calledAt - b.calledAt);
    const places = new Places(inQueue);
    let waiting: Call[] = [];
    return inQueue.flatMap((call) => {
      waiting = waiting.filter((one) => waitedUntil(one) > call.calledAt);
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
const waitedUntil = ({ grantedAt, failedAt, failure }: Call): number =>
  grantedAt ?? (failure === 'LOCK_WAIT_TIMEOUT' ? failedAt! - ASKS_WITHIN_MS : -Infinity);

/** Readers share a grant, owners enter again, and a call for several keys waits for all of them. */
const queues = ({ keys, mode, owner, fair, waitMs }: Call): boolean =>
  keys.length === 1 && mode === 'write' && owner === undefined && fair !== false && waitMs > 0;

function isPassed(history: History, places: Places, first: Call, later: Call, faults: readonly Span[]): boolean {
  const { grantedAt = Infinity } = later;
  if (first.calledAt + ASKS_WITHIN_MS > later.calledAt || waitedUntil(first) < grantedAt) return false;
  if (first.line !== later.line && places.latest(first, grantedAt) + ASKS_WITHIN_MS > places.earliest(later))
    return false;
  const span = { from: first.calledAt, to: grantedAt };
  if (faults.some((fault) => touches(fault, span))) return false;
  return stoodStill(history, first.process, span) < ASKS_WITHIN_MS;
}

/** When the lines of one key took their places in the queue in Redis: one place for each turn. */
class Places {
  readonly #lines: Map<string, Call[]>;
  readonly #turns = new Map<string, Call[][]>();

  constructor(calls: readonly Call[]) {
    this.#lines = groupBy(calls, ({ line }) => line);
    for (const [line, members] of this.#lines) this.#turns.set(line, turnsOf(members));
  }

  /** When the line of a call that waits until `t` had a place at the latest: the one before it in the line had come to its end. */
  latest(waiting: Call, t: number): number {
    const served = this.#lines.get(waiting.line)!.filter(({ grantedAt = Infinity }) => grantedAt < t);
    const ends = served.map(({ releasedAt, transferredAt }) => releasedAt ?? transferredAt ?? Infinity);
    return Math.max(waiting.calledAt, ...ends);
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
