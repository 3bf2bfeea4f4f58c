import { Registry } from 'prom-client';
import { type LockEventMap, LockEvents } from '../../../lib/core/lock.events.js';
import { LockLostError } from '../../../lib/core/lock.errors.js';
import { collectLockMetrics } from '../../../lib/observability/prometheus.js';
import { FakeReporter } from '../../support/core/fake-store.js';

/** What a scrape has: series names with their labels, and of each label its values. */
export type ExportedMetrics = ReadonlyMap<string, ReadonlyMap<string, ReadonlySet<string>>>;

const LOCK = {
  key: 'order:7',
  keys: ['order:7'],
  template: 'order:<0>',
  where: '',
  note: undefined,
  mode: 'write',
  attempt: 'a',
  fencingToken: 1,
} as const;
const ERROR = new LockLostError('lost', { reason: 'expired' });

/** Each thing that is measured, at least once. */
function tellAll(events: LockEvents): void {
  const ended = { ...LOCK, heldMs: 1, holds: 0, reason: 'expired', error: ERROR } as const;
  events.emit('waiting', () => ({ ...LOCK, ahead: 0, holder: undefined }));
  events.emit('acquired', () => ({ ...LOCK, waitedMs: 1, waited: true, local: false, serverTimeMs: 0 }));
  const reasons: LockEventMap['acquireFailed']['reason'][] = ['busy', 'timeout', 'aborted', 'error'];
  for (const reason of reasons) {
    events.emit('acquireFailed', () => ({ ...LOCK, waitedMs: 1, waited: false, reason, error: ERROR }));
  }
  events.emit('released', () => ended);
  events.emit('lost', () => ended);
  events.emit('elected', () => LOCK);
}

/** What the library exports to Prometheus, from a scrape. */
export async function exportedMetrics(): Promise<ExportedMetrics> {
  const registry = new Registry();
  const events = new LockEvents(new FakeReporter());
  collectLockMetrics({ events, connection: undefined }, { registry });
  tellAll(events);
  const exported = new Map<string, Map<string, Set<string>>>();
  for (const [, name, labels] of (await registry.metrics()).matchAll(/^(\w+)\{(.*)\} /gm)) {
    const series = exported.get(name!) ?? new Map<string, Set<string>>();
    exported.set(name!, series);
    for (const [, label, value] of labels!.matchAll(/(\w+)="(.*?)"/g)) {
      series.set(label!, (series.get(label!) ?? new Set()).add(value!));
    }
  }
  return exported;
}

/** What a PromQL expression says that is not exported: names, labels, values of labels; and brackets that do not close. */
export function unknownIn(expression: string, exported: ExportedMetrics): string[] {
  const known = (label: string, names: readonly string[]) => names.every((name) => exported.get(name)?.has(label));
  const used = [...expression.matchAll(/\bredis_lock\w*/g)].map(([name]) => name);
  const found = used.filter((name) => !exported.has(name));
  for (const [, name, matchers] of expression.matchAll(/(\w+)\{(.*?)\}/g)) {
    for (const [, label, operator, value] of matchers!.matchAll(/(\w+)\s*(=~|!~|!=|=)\s*"(.*?)"/g)) {
      const values = exported.get(name!)?.get(label!);
      if (!values) found.push(`${name}{${label}}`);
      else if (operator === '=' && !values.has(value!)) found.push(`${label}="${value}"`);
    }
  }
  for (const [, labels] of expression.matchAll(/\b(?:by|without|on|ignoring)\s*\((.*?)\)/g)) {
    for (const label of labels!.split(',').map((text) => text.trim())) {
      if (!known(label, used)) found.push(`by (${label})`);
    }
  }
  // A function of histograms wants their buckets, and each of them apart.
  if (/histogram_quantile/.test(expression) && !/by \([^)]*\ble\b[^)]*\)/.test(expression)) found.push('no le');
  if (used.length === 0) found.push('no metric');
  return isBalanced(expression) ? found : [...found, 'brackets'];
}

function isBalanced(expression: string): boolean {
  const open: string[] = [];
  const pairs: Record<string, string> = { ')': '(', '}': '{', ']': '[' };
  for (const [bracket] of expression.replaceAll(/".*?"/g, '').matchAll(/[(){}[\]]/g)) {
    if (!(bracket in pairs)) open.push(bracket);
    else if (open.pop() !== pairs[bracket]) return false;
  }
  return open.length === 0;
}
