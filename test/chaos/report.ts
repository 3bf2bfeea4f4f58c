import { groupBy, turnsOf } from '../checker/spans.js';
import { type Call, type Fault, type History, type Violation } from '../checker/history.js';

const SHOWN_VIOLATIONS = 20;
/** How long after a fault an interruption still counts as its own. */
const ATTRIBUTED_MS = 4_000;

/** A readable report of what a run did. */
export function report(history: History, violations: readonly Violation[]): string {
  return [...operations(history), '', ...faultTable(history), '', ...verdict(violations, history)].join('\n');
}

function operations(history: History): string[] {
  const all = [...history.calls.values()];
  const calls = all.filter(({ adopts, leads }) => adopts === undefined && !leads);
  const granted = calls.filter(isGranted);
  const lines = groupBy(granted, ({ line }) => line);
  const totals = [...history.resources.values()];
  const sum = (of: (one: (typeof totals)[number]) => number): number => totals.reduce((all, one) => all + of(one), 0);
  const unfenced = sum(({ plainConfirmed, plainCounted }) => plainConfirmed - plainCounted);
  return [
    `calls      ${count(calls)}: ${count(granted)} granted; not granted: ${by(calls, ({ failure }) => failure)}`,
    `handed on  ${count([...lines.values()].flatMap((line) => turnsOf(line).flatMap(([, ...others]) => others)))} of them in their process`,
    `losses     ${by(all, ({ lossReason }) => lossReason)}`,
    ...deeds(all),
    `fires      ${count(granted.filter(({ fire }) => fire !== undefined))} run`,
    `processes  ${history.processes.size}`,
    `resource   ${sum(({ confirmed }) => confirmed)} fenced writes, ${sum(({ refused }) => refused)} refused for their token; ` +
      `${sum(({ plainConfirmed }) => plainConfirmed)} unfenced writes, ${unfenced} of them lost`,
  ];
}

/** Locks that changed hands, and terms of leaders. */
function deeds(calls: readonly Call[]): string[] {
  const transferred = calls.filter(({ transferredAt }) => transferredAt !== undefined);
  const adoptions = calls.filter(({ adopts }) => adopts !== undefined);
  const terms = calls.filter(({ leads }) => leads).filter(isGranted);
  return [
    `transfers  ${count(transferred)}: ${count(adoptions.filter(isGranted))} adopted; ` +
      `not adopted: ${by(adoptions, ({ failure }) => failure)}`,
    `terms      ${count(terms)} of leaders; over: ${by(terms, ({ demotion }) => demotion)}`,
  ];
}

const isGranted = ({ grantedAt }: Call): boolean => grantedAt !== undefined;

const count = (list: readonly unknown[]): string => list.length.toLocaleString('en');

/** The number of calls by name. */
function by(calls: readonly Call[], nameOf: (call: Call) => string | undefined): string {
  const names = calls.map(nameOf).filter((name) => name !== undefined);
  const counts = groupBy(names, (name) => name);
  return [...counts].map(([name, list]) => `${count(list)} ${name}`).join(', ') || 'none';
}

/** How often each kind of fault was inflicted, and the longest time without a grant that it touches. */
function faultTable(history: History): string[] {
  const kinds = groupBy(history.faults, ({ kind }) => kind);
  const rows = [...kinds].map(([kind, faults]) => {
    const longest = Math.max(...faults.map((fault) => interruption(history, fault)));
    return `${kind.padEnd(26)}${String(faults.length).padStart(6)}${`${(longest / 1_000).toFixed(1)} s`.padStart(12)}`;
  });
  const head = `${'fault'.padEnd(26)}${'times'.padStart(6)}${'no grant for'.padStart(14)}`;
  return [head, ...rows.sort(), `${history.faults.length} faults`];
}

/** The longest time without a grant, among the calls that a fault concerns, from its begin until some time after its end. */
function interruption(history: History, { from, to, worker }: Fault): number {
  const end = Math.min(to + ATTRIBUTED_MS, history.stoppingAt);
  let last = from;
  let longest = 0;
  for (const t of grantTimes(history, worker)) {
    if (t < from) continue;
    if (last >= end) break;
    longest = Math.max(longest, t - last);
    last = t;
  }
  return last < end ? Math.max(longest, end - last) : longest;
}

const cache = new WeakMap<History, Map<string | undefined, number[]>>();

function grantTimes(history: History, worker: string | undefined): number[] {
  const known = cache.get(history) ?? new Map<string | undefined, number[]>();
  cache.set(history, known);
  const times = known.get(worker);
  if (times) return times;
  const found: number[] = [];
  for (const { grantedAt, process } of history.calls.values()) {
    if (grantedAt !== undefined && (worker === undefined || history.process(process).worker === worker)) {
      found.push(grantedAt);
    }
  }
  known.set(
    worker,
    found.sort((a, b) => a - b),
  );
  return found;
}

function verdict(violations: readonly Violation[], history: History): string[] {
  const start = Math.min(...[...history.processes.values()].map(({ readyAt = Infinity }) => readyAt));
  const shown = violations
    .slice(0, SHOWN_VIOLATIONS)
    .map(({ rule, t, text }) => `  ${rule} at ${((t - start) / 1_000).toFixed(3)} s: ${text}`);
  const counts = [...groupBy(violations, ({ rule }) => rule)].map(([rule, list]) => `${rule} ${list.length}`);
  const more = violations.length - shown.length;
  return [
    `violations ${violations.length}${counts.length > 0 ? `: ${counts.join(', ')}` : ''}`,
    ...shown,
    ...(more > 0 ? [`  and ${more} more`] : []),
  ];
}
