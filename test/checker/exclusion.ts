import {
  beliefOf,
  covered,
  grantsByKey,
  isForgotten,
  isLost,
  lengthOf,
  type Losses,
  lossesOf,
  overlaps,
  sharesOwner,
  stoodStill,
  tokenOf,
  without,
  writing,
} from './spans.js';
import { type Call, type History, type Span, type Violation, standstillsOf } from './history.js';

interface Holder {
  readonly call: Call;
  readonly belief: Span;
}

/** Two holders never both believe to hold one key, unless they are readers; and never more readers than permits. */
export function exclusion(history: History): Violation[] {
  return [...grantsByKey(history)].flatMap(([key, calls]) => {
    const losses = lossesOf(history, key);
    let holders: Holder[] = [];
    return calls.flatMap((call) => {
      const belief = beliefOf(history, call);
      holders = holders.filter((holder) => holder.belief.to > belief.from);
      const others = holders.filter((holder) => !sharesOwner(holder.call, call));
      const second = { call, belief };
      holders.push(second);
      const found = others.map((first) => conflict(history, key, [first, second], losses));
      return [...found, tooMany(history, key, [...others, second], losses)].filter((one) => one !== undefined);
    });
  });
}

function conflict(
  history: History,
  key: string,
  [first, second]: readonly [Holder, Holder],
  losses: Losses,
): Violation | undefined {
  const shared = { from: second.belief.from, to: Math.min(first.belief.to, second.belief.to) };
  const written = [first, second].map(({ call, belief }) => writing(call, belief));
  const parts = written
    .filter((span) => overlaps(span, shared))
    .map(({ from, to }) => ({ from: Math.max(from, shared.from), to: Math.min(to, shared.to) }));
  const clash = parts.flatMap((part) => whileRunning(history, part, [first, second]));
  if (lengthOf(clash) <= history.limits.roundingMs || isForgotten(losses, first.call, second.call, shared.to))
    return undefined;
  const ms = lengthOf(clash).toFixed(1);
  const [one, other] = [first.call, second.call].map(({ op, mode }) => `${op} (${mode})`);
  return { rule: 'exclusion', t: clash[0]!.from, text: `${one} and ${other} held ${key} together for ${ms} ms` };
}

/** A holder that can prove its lease needs no excuse. One that cannot is only checked while it runs. */
function whileRunning(history: History, span: Span, holders: readonly Holder[]): Span[] {
  const withoutProof = holders.filter(({ call }) => call.until === Infinity);
  return without(
    span,
    withoutProof.flatMap(({ call }) => standstillsOf(history.process(call.process))),
  );
}

/** Holders granted before it count: the token proves the order, even if they learn of the grant later. */
function tooMany({ limits }: History, key: string, holders: readonly Holder[], losses: Losses): Violation | undefined {
  const { call, belief } = holders.at(-1)!;
  if (call.permits === 0 || call.mode === 'write') return undefined;
  const token = tokenOf(call, key) ?? Infinity;
  const isExcused = (first: Holder): boolean =>
    first.call !== call && isForgotten(losses, first.call, call, Math.min(first.belief.to, belief.to));
  const beside = holders.filter(
    (one) =>
      one.belief.to - belief.from > limits.roundingMs && (tokenOf(one.call, key) ?? 0) <= token && !isExcused(one),
  );
  if (beside.reduce((sum, one) => sum + one.call.take, 0) <= call.permits) return undefined;
  const names = beside.map(({ call: { op } }) => op).join(', ');
  return { rule: 'permits', t: belief.from, text: `${names} held ${key} together, with ${call.permits} permits` };
}

/** The signal of a lost lock is aborted before another call holds the lock. */
export function lossTold(history: History): Violation[] {
  return [...grantsByKey(history)].flatMap(([key, calls]) => {
    const losses = lossesOf(history, key);
    return calls.flatMap((call, i) => {
      const end = endOf(history, call);
      for (let j = i + 1; j < calls.length && calls[j]!.grantedAt! <= end; j++) {
        const violation = conflicts(call, calls[j]!) && told(history, key, [call, calls[j]!], losses);
        if (violation) return [violation];
      }
      return [];
    });
  });
}

/** When the holder had been notified, or had given up the lock itself. */
function endOf(history: History, { lostAt, releasingAt, process }: Call): number {
  const { endedAt = Infinity } = history.process(process);
  return Math.min(lostAt ?? Infinity, releasingAt ?? Infinity, endedAt, history.endedAt);
}

function conflicts(first: Call, next: Call): boolean {
  const reads = first.mode === 'read' || (first.readsFrom ?? Infinity) <= next.grantedAt!;
  return !sharesOwner(first, next) && !(reads && next.mode === 'read');
}

function told(
  history: History,
  key: string,
  [first, next]: readonly [Call, Call],
  losses: Losses,
): Violation | undefined {
  const { tellingMs } = history.limits;
  const span = { from: next.grantedAt! - tellingMs, to: endOf(history, first) };
  // A clock that stood still meanwhile is late by that time.
  const sleptMs = covered({ from: first.grantedAt!, to: span.to }, history.process(first.process).sleeps);
  const lateMs = span.to - next.grantedAt! - stoodStill(history, first.process, span) - sleptMs;
  if (first.until === Infinity || lateMs <= tellingMs) return undefined;
  // While the address of the server moves, the one that was granted first may be the one that keeps the lock.
  const nextEnd = Math.min(span.to, endOf(history, next));
  if (isLost(losses, first, next, span.to) || isLost(losses, next, first, nextEnd)) return undefined;
  const text = `${first.op} lost ${key}, and was notified ${lateMs.toFixed(0)} ms after the grant to ${next.op}`;
  return { rule: 'loss-told', t: next.grantedAt!, text };
}
