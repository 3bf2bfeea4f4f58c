import { type Span } from './history.js';

/** What `Map.groupBy` does, which Node 20 lacks. */
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

/** Whether two spans share more than a moment. */
export const overlaps = (a: Span, b: Span): boolean => a.from < b.to && b.from < a.to;
