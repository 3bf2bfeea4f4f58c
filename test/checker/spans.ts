import { type Call, type Fault, type History, type Span, standstillsOf } from './history.js';
import { TOKENS_OF_A_WRITER } from '../../lib/core/store/lock-store.js';

/** A replacement for `Map.groupBy`, which Node 20 lacks. */
export function groupBy<T, K>(list: Iterable<T>, keyOf: (one: T) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>();
  for (const one of list) {
    const key = keyOf(one);
    const group = groups.get(key);
    if (group) group.push(one);
    else groups.set(key, [one]);
  }
  return groups;
}

/** Joins spans that overlap or touch; sorted by their begin. */
export function union(spans: readonly Span[]): Span[] {
  const joined: Span[] = [];
  for (const { from, to } of spans.toSorted((a, b) => a.from - b.from)) {
    const last = joined.at(-1);
    if (last && from <= last.to) last.to = Math.max(last.to, to);
    else if (to > from) joined.push({ from, to });
  }
  return joined;
}

/** The parts of `span` that none of `others` covers. */
export function without(span: Span, others: readonly Span[]): Span[] {
  const parts: Span[] = [];
  let { from } = span;
  for (const other of union(others.filter((other) => other.to > span.from && other.from < span.to))) {
    if (other.from > from) parts.push({ from, to: other.from });
    from = Math.max(from, other.to);
  }
  if (from < span.to) parts.push({ from, to: span.to });
  return parts;
}

export const lengthOf = (spans: readonly Span[]): number => spans.reduce((sum, { from, to }) => sum + to - from, 0);

/** How much of `span` the others cover. */
export const covered = (span: Span, others: readonly Span[]): number =>
  lengthOf([span]) - lengthOf(without(span, others));

export const touches = (a: Span, b: Span): boolean => a.from <= b.to && b.from <= a.to;

/**
 * What is excused, and for how long. Everything else is a violation.
 *
 * - Lost data (a restart without it, an eviction, an operator, a failover, a clock that steps forward) ends a lock although
 *   its holder lives. The holder learns of it at its next renewal, and in any case when its lease ends (docs/guarantees.md,
 *   "What is not promised" and "Failover"). So a holder of before the loss may overlap with one of after it, for a lease. A
 *   fire whose record was lost may run again. Tokens are excused on a quorum only, the fenced resource never.
 * - A process that stands still (SIGSTOP, a blocked event loop) cannot notify its holders. `held` is false nevertheless,
 *   so exclusion is not excused for clients that prove their lease.
 * - While a fault lasts, and for `recoveryMs` after it, a call may wait longer than the bound of a wake-up.
 */

/** Losses of data, and how long a report of one may take. */
export interface Losses {
  readonly faults: readonly Fault[];
  readonly tellingMs: number;
}

/** The losses of data that may concern a key. */
export const lossesOf = ({ faults, limits: { tellingMs } }: History, key: string): Losses => ({
  faults: faults.filter(({ forgets }) => forgets === 'all' || forgets?.includes(key)),
  tellingMs,
});

/**
 * Whether a loss of data explains that two calls believed to hold one key together, until `to`. The one that was granted
 * before the loss may learn of its grant last.
 */
export const isForgotten = (losses: Losses, a: Call, b: Call, to: number): boolean =>
  isLost(losses, a, b, to) || isLost(losses, b, a, to);

/** Whether a loss of data between the grants of two calls explains that the first one believed in its lock until `to`. */
export const isLost = ({ faults, tellingMs }: Losses, before: Call, after: Call, to: number): boolean =>
  faults.some(
    (loss) => before.calledAt <= loss.to && after.grantedAt! >= loss.from && to <= loss.to + before.leaseMs + tellingMs,
  );

/** How long a process, or the networks, stood still within a span. */
export function stoodStill(history: History, process: string, span: Span): number {
  return covered(span, [...standstillsOf(history.process(process)), ...history.standstills]);
}

/** When a fault affected a worker, or might still; without a worker, all faults. */
export function faultsOf(history: History, worker: string | undefined, recoveryMs = history.limits.recoveryMs): Span[] {
  const spans = history.faults
    .filter((fault) => worker === undefined || fault.worker === undefined || fault.worker === worker)
    .map(({ from, to }) => ({ from, to: to + recoveryMs }));
  return union(spans);
}

/**
 * How long a holder believes to hold its lock: until its proof ends, it learns of the loss, it releases, or it dies, but at least
 * until it last looked and held it. If it has transferred the lock, no other call may have it until another process adopts it, or
 * until the lease is over, whatever becomes of this process.
 */
export function beliefOf(history: History, call: Call): Span {
  if (call.transferredAt !== undefined) {
    const adoptions = history.adoptions.get(call.op) ?? [];
    // An adoption that fails may have got the lock, and gives it back.
    const ends = adoptions.map(({ grantedAt, calledAt }) => grantedAt ?? calledAt);
    return { from: call.grantedAt!, to: Math.min(call.until, ...ends) };
  }
  const { until, lostAt = Infinity, unheldAt = Infinity, releasingAt = Infinity, acts } = call;
  const { endedAt = Infinity } = history.process(call.process);
  const learnsBetterAt = Math.min(until, lostAt, unheldAt, releasingAt, endedAt);
  return { from: call.grantedAt!, to: Math.max(learnsBetterAt, acts.at(-1) ?? -Infinity) };
}

/** The calls of each key, in their order. */
export function callsByKey(calls: Iterable<Call>): Map<string, Call[]> {
  const pairs = [...calls].flatMap((call) => call.keys.map((key) => ({ key, call })));
  const groups = groupBy(pairs, ({ key }) => key);
  return new Map([...groups].map(([key, list]) => [key, list.map(({ call }) => call)]));
}

/** The granted calls of each key, in the order of their grants. */
export function grantsByKey(history: History): Map<string, Call[]> {
  const granted = [...history.calls.values()].filter(({ grantedAt }) => grantedAt !== undefined);
  return callsByKey(granted.sort((a, b) => a.grantedAt! - b.grantedAt!));
}

/** The granted calls of one line, turn by turn: each has a grant in Redis, and the calls to which its hold was handed on. */
export function turnsOf(line: readonly Call[]): Call[][] {
  const turns: Call[][] = [];
  const granted = line.filter(({ tokens }) => tokens !== undefined);
  for (const call of granted.toSorted((a, b) => a.grantedAt! - b.grantedAt!)) {
    const turn = turns.at(-1);
    if (turn && call.tokens![0]! - turn[0]!.tokens![0]! < TOKENS_OF_A_WRITER) turn.push(call);
    else turns.push([call]);
  }
  return turns;
}

/** The part of a span in which a holder may write. */
export const writing = (call: Call, span: Span): Span =>
  call.mode === 'write' ? { from: span.from, to: Math.min(span.to, call.readsFrom ?? Infinity) } : { from: 0, to: 0 };

export const sharesOwner = (a: Call, b: Call): boolean => a.owner !== undefined && a.owner === b.owner;

export const tokenOf = (call: Call, key: string): number | undefined => call.tokens?.[call.keys.indexOf(key)];
