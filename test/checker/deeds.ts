import { type Deed } from './events.js';
import { faultsOf, groupBy, lossesOf, touches } from './spans.js';
import { type Call, type History, type Span, type Violation } from './history.js';

/** The maximum delay of the last extension of the first process, although another attempt was answered. */
const LATE_MS = 1_000;

/**
 * A transferred lock (docs/adr/020): the first handle counts as released, and the hold continues with its fencing token. Its text
 * works once, until its lease is over. That no other call gets the lock meanwhile is the rule of exclusion.
 */
export function transfers(history: History): Violation[] {
  return [...history.calls.values()].flatMap((call) => [
    ...(call.transferredAt === undefined ? [] : [...ofHandle(call), ...ofText(history, call)]),
    ...ofOrigin(history, call),
  ]);
}

const violation = (t: number, text: string): Violation => ({ rule: 'transfers', t, text });

function ofHandle({ op, transferredAt, isHeldAfterTransfer, lostAt = -Infinity }: Call): Violation[] {
  return [
    ...(isHeldAfterTransfer ? [violation(transferredAt!, `${op} transferred its lock, and held it still`)] : []),
    ...(lostAt > transferredAt! ? [violation(lostAt, `${op} transferred its lock, and was notified of its loss`)] : []),
  ];
}

/** Only a lock that was transferred is adopted, with its token and in its mode. */
function ofOrigin(history: History, { op, adopts, grantedAt, tokens, mode }: Call): Violation[] {
  if (adopts === undefined || grantedAt === undefined) return [];
  const from = history.calls.get(adopts);
  if (from?.transferredAt === undefined)
    return [violation(grantedAt, `${op} adopted what ${adopts} had not transferred`)];
  if (from.transferredMode && mode !== from.transferredMode)
    return [violation(grantedAt, `${op} adopted the lock of ${adopts} to ${mode}, not to ${from.transferredMode}`)];
  const [theirs, ours] = [from, { tokens }].map((call) => String(call.tokens));
  return theirs === ours
    ? []
    : [violation(grantedAt, `${op} adopted the lock of ${adopts} with the token ${ours}, not ${theirs}`)];
}

function ofText(history: History, from: Call): Violation[] {
  const adoptions = history.adoptions.get(from.op) ?? [];
  const granted = adoptions.filter(({ grantedAt }) => grantedAt !== undefined);
  const late = granted.filter((call) => isTooLate(history, from, call));
  const refused = adoptions.filter((call) => isRefused(history, from, call, adoptions));
  return [
    ...twice(history, from, granted),
    ...late.map(({ op, grantedAt }) => violation(grantedAt!, `${op} adopted the lock of ${from.op} after its lease`)),
    ...refused.map(({ op, failedAt }) =>
      violation(failedAt!, `${op} could not adopt the lock of ${from.op} within its lease`),
    ),
  ];
}

/** A loss of the first adoption permits a second one. */
function twice(history: History, from: Call, granted: readonly Call[]): Violation[] {
  const inOrder = granted.toSorted((a, b) => a.grantedAt! - b.grantedAt!);
  const losses = from.keys.flatMap((key) => lossesOf(history, key).faults);
  const second = inOrder.slice(1).find((call, i) => {
    const span = { from: Math.min(inOrder[i]!.calledAt, call.calledAt), to: call.grantedAt! };
    return !losses.some((loss) => touches(loss, span));
  });
  const names = inOrder.map(({ op }) => op).join(' and ');
  return second ? [violation(second.grantedAt!, `${names} adopted the lock of ${from.op}`)] : [];
}

const isTooLate = (history: History, from: Call, { process, calledAt, grantedAt }: Call): boolean =>
  calledAt > from.transferredAt! + from.leaseMs + LATE_MS &&
  isQuiet(history, [from.process, process], { from: from.calledAt, to: grantedAt! });

/** Whether it failed although the lease was not over, and no other process had the text. */
function isRefused(
  history: History,
  from: Call,
  { op, process, failedAt, failure }: Call,
  all: readonly Call[],
): boolean {
  if (failure !== 'LOCK_LOST' || failedAt! >= from.until) return false;
  const others = all.filter((other) => other.op !== op && other.calledAt <= failedAt!);
  return others.length === 0 && isQuiet(history, [from.process, process], { from: from.calledAt, to: failedAt! });
}

/** Whether no fault affected the processes, or might still affect them. */
const isQuiet = (history: History, processes: readonly string[], span: Span): boolean =>
  processes.flatMap((name) => faultsOf(history, history.process(name).worker)).every((fault) => !touches(fault, span));

/**
 * A leader (docs/adr/019) no longer leads after its notification, and its process leads again only when the work of its last term
 * has ended. Exclusion, rising tokens and notification are rules of locks: a term is a hold.
 */
export function leaders(history: History): Violation[] {
  const terms = [...history.calls.values()].filter(({ leads, grantedAt }) => leads && grantedAt !== undefined);
  const groups = groupBy(terms, ({ process, keys }) => `${process} ${keys[0]}`);
  return [...groups.values()].flatMap((group) => [...group.flatMap(afterItsEnd), ...besideItsWork(group)]);
}

function afterItsEnd({ op, acts, lostAt = Infinity, releasingAt = Infinity }: Call): Violation[] {
  const overAt = Math.min(lostAt, releasingAt);
  const act = acts.find((t) => t > overAt);
  const text = `${op} led ${((act ?? 0) - overAt).toFixed(1)} ms after it was notified of the end of its term`;
  return act === undefined ? [] : [{ rule: 'leaders', t: act, text }];
}

function besideItsWork(terms: readonly Call[]): Violation[] {
  const inOrder = terms.toSorted((a, b) => a.grantedAt! - b.grantedAt!);
  return inOrder.slice(1).flatMap(({ op, grantedAt }, i) => {
    const before = inOrder[i]!;
    const text = `${op} began while the work of ${before.op} continued`;
    return (before.releasedAt ?? Infinity) <= grantedAt! ? [] : [{ rule: 'leaders' as const, t: grantedAt!, text }];
  });
}

/** A fire of a job runs once. */
export function oneRunPerFire(history: History): Violation[] {
  const runs = new Map<string, Call[]>();
  for (const call of history.calls.values()) {
    if (call.fire === undefined || call.grantedAt === undefined) continue;
    const name = `${call.keys[0]} at ${call.fire}`;
    runs.set(name, [...(runs.get(name) ?? []), call]);
  }
  return [...runs].flatMap(([name, calls]) => {
    const inOrder = calls.toSorted((a, b) => a.grantedAt! - b.grantedAt!);
    const second = inOrder.slice(1).find((call, i) => !isForgotten(history, inOrder[i]!, call));
    const text = `the fire of ${name} was run by ${calls.map(({ op }) => op).join(' and ')}`;
    return second ? [{ rule: 'one-run-per-fire' as const, t: second.grantedAt!, text }] : [];
  });
}

/** Whether the record of the first run may have been lost before the second one. */
const isForgotten = (history: History, first: Call, second: Call): boolean =>
  lossesOf(history, first.keys[0]!).faults.some(
    ({ from, to }) => Math.min(first.calledAt, second.calledAt) <= to && second.grantedAt! >= from,
  );

/** The required number of each kind of event. */
const TESTED: Record<Deed, { readonly what: string; readonly isDone: (call: Call) => boolean }> = {
  transfers: { what: 'no lock was adopted', isDone: ({ adopts }) => adopts !== undefined },
  leads: { what: 'no process was elected', isDone: ({ leads }) => leads },
};

/** A run in which the workers did not do all that they should proves nothing about it. */
export function somethingTested(history: History): Violation[] {
  const granted = [...history.calls.values()].filter(({ grantedAt }) => grantedAt !== undefined);
  const deeds = new Set([...history.processes.values()].flatMap(({ does = [] }) => does));
  return [...deeds]
    .filter((deed) => !granted.some(TESTED[deed].isDone))
    .map((deed) => ({ rule: 'nothing-tested', t: history.endedAt, text: TESTED[deed].what }));
}
