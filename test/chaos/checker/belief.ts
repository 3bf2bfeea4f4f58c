import { TOKENS_OF_A_WRITER } from '../../../lib/core/store/lock-store.js';
import { groupBy } from './spans.js';
import { type Call, type History, type Span } from './history.js';

/**
 * How long a holder believes to hold its lock: until its proof ends, it learns better, it releases, or it dies, but at least until it
 * last looked and held it. If it has transferred the lock, nobody else may have it until another process adopts it, or until the lease
 * is over, whatever becomes of this process.
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
