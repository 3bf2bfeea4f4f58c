import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Registry } from 'prom-client';
import { LockLostError } from '../../../lib/core/lock.errors.js';
import { type LockEventMap, LockEvents } from '../../../lib/core/lock.events.js';
import { LOCK_METRICS } from '../../../lib/observability/measure-locks.js';
import { collectLockMetrics } from '../../../lib/observability/prometheus.js';
import { FakeReporter } from '../../support/core/fake-store.js';

const docs = join(import.meta.dirname, '..', '..', '..', 'docs');
const text = readFileSync(join(docs, 'observability.md'), 'utf8');
const file = readFileSync(join(docs, 'grafana', 'nestjs-redis-lock.json'), 'utf8');
const { __inputs: inputs, __requires: requires, ...rest } = JSON.parse(file);
const dashboard = { inputs, requires, ...rest } as Dashboard;

interface Panel {
  readonly id: number;
  readonly title: string;
  readonly datasource: object;
  readonly gridPos: Record<'x' | 'y' | 'w' | 'h', number>;
  readonly targets: readonly { readonly expr: string; readonly datasource: object; readonly refId: string }[];
}

/** The export of Grafana, where `inputs` and `requires` have the prefix `__`. */
interface Dashboard {
  readonly inputs: readonly object[];
  readonly requires: readonly { readonly type: string; readonly id: string }[];
  readonly id: unknown;
  readonly schemaVersion: number;
  readonly templating: { readonly list: readonly Variable[] };
  readonly panels: readonly (Panel & { readonly type: string })[];
}

interface Variable {
  readonly name: string;
  readonly datasource: object;
  readonly definition: string;
  readonly query: { readonly query: string };
}

const variables = dashboard.templating.list;
const queries = dashboard.panels.flatMap(({ title, targets }) => targets.map(({ expr }) => [title, expr] as const));

/** The rules of the docs: `expr:` on one line, or folded over several. */
const alerts = [...text.matchAll(/- alert: (\w+)[^]*?expr: (?:>-\n((?: {10}.*\n)+)|(.*)\n)/g)].map(
  ([, name, folded, plain]) => [name!, (folded ?? plain!).trim().replaceAll(/\s*\n\s*/g, ' ')] as const,
);

/** What a scrape has: series names with their labels, and of each label its values. */
type ExportedMetrics = ReadonlyMap<string, ReadonlyMap<string, ReadonlySet<string>>>;

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

/** Each measurement, at least once. */
function tellAll(events: LockEvents): void {
  const ended = { ...LOCK, heldMs: 1, holds: 0, reason: 'expired', error: ERROR, earlier: [] } as const;
  events.emit('waiting', () => ({ ...LOCK, ahead: 0, holder: undefined }));
  events.emit('acquired', () => ({ ...LOCK, waitedMs: 1, waited: true, local: false, serverTimeMs: 0 }));
  const reasons: LockEventMap['acquireFailed']['reason'][] = ['busy', 'timeout', 'aborted', 'error'];
  for (const reason of reasons) {
    events.emit('acquireFailed', () => ({ ...LOCK, waitedMs: 1, waited: false, reason, error: ERROR }));
  }
  events.emit('released', () => ended);
  events.emit('lost', () => ended);
  events.emit('transferred', () => ended);
  events.emit('elected', () => LOCK);
}

/** What the library exports to Prometheus, from a scrape. */
async function exportedMetrics(): Promise<ExportedMetrics> {
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

/** The parts of a PromQL expression that are not exported: names, labels, values of labels; and brackets that do not close. */
function unknownIn(expression: string, exported: ExportedMetrics): string[] {
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
  // A histogram function needs the buckets, each as a separate series.
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

let exported: ExportedMetrics;

beforeAll(async () => {
  exported = await exportedMetrics();
});

describe('the dashboard for Grafana', () => {
  it('has the panels of the docs', () => {
    expect(dashboard.panels.map(({ title }) => title)).toEqual([
      'Held now', 'Waiting now', 'Timed out', 'Lost', 'Acquisitions by outcome', 'Time to acquire', 'Time held, p95',
      'Held and waiting', 'Renewals by outcome', 'Losses', 'Who leads', 'Changes of leaders',
    ]); // prettier-ignore
    const quantiles = queries.flatMap(([title, expr]) => {
      const quantile = /histogram_quantile\((.*?),/.exec(expr)?.[1];
      return quantile ? [`${title} ${quantile}`] : [];
    });
    const times = ['0.5', '0.95', '0.99'].map((quantile) => `Time to acquire ${quantile}`);
    expect(quantiles).toEqual([...times, 'Time held, p95 0.95']);
  });

  it.each(queries)('queries only exported metrics in "%s": %s', (_title, expr) => {
    expect(unknownIn(expr, exported)).toEqual([]);
  });

  it('selects a connection and a key template by exported labels', () => {
    expect(variables.map(({ name }) => name)).toEqual(['connection', 'template']);
    for (const { definition, query } of variables) {
      const [, series, label] = /^label_values\((.*), (\w+)\)$/.exec(definition)!;
      expect(unknownIn(series!, exported)).toEqual([]);
      expect(exported.get(/\w+/.exec(series!)![0])!.has(label!)).toBe(true);
      expect(query.query).toBe(definition);
    }
  });

  it('uses only its own variables, and each of them in every panel that can', () => {
    const known = [...variables.map(({ name }) => name), '__rate_interval', '__range'];
    for (const [, expr] of queries) {
      for (const [, name] of expr.matchAll(/\$(\w+)/g)) expect(known).toContain(name);
      expect(expr).toContain('connection=~"$connection"');
      if (!expr.includes('redis_lock_renewals')) expect(expr).toContain('key_template=~"$template"');
    }
  });

  it('can be imported: it names its data source and its requirements, and its panels do not overlap', () => {
    const datasource = { type: 'prometheus', uid: '${DS_PROMETHEUS}' };
    expect(dashboard.inputs).toEqual([
      expect.objectContaining({ name: 'DS_PROMETHEUS', type: 'datasource', pluginId: 'prometheus' }),
    ]);
    expect([dashboard.id, dashboard.schemaVersion]).toEqual([null, expect.any(Number)]);
    const sources = [...variables, ...dashboard.panels, ...dashboard.panels.flatMap(({ targets }) => targets)];
    for (const source of sources) expect(source.datasource).toEqual(datasource);
    const needed = dashboard.requires.filter(({ type }) => type === 'panel').map(({ id }) => id);
    expect(needed.sort()).toEqual([...new Set(dashboard.panels.map(({ type }) => type))].sort());
    const cells = dashboard.panels.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, i) => `${x + (i % w)},${y + Math.floor(i / w)}`),
    );
    expect(new Set(cells).size).toBe(cells.length);
    expect(new Set(dashboard.panels.map(({ id }) => id)).size).toBe(dashboard.panels.length);
  });
});

describe('the docs', () => {
  it('contain the alerts', () => {
    expect(alerts.map(([name]) => name)).toEqual([
      'LockLost', 'LockRenewalsUnanswered', 'LockWaitsLong', 'LockTimeouts', 'LockErrors', 'LockHeldTooLong', 'LocksHeldLong',
    ]); // prettier-ignore
  });

  it.each(alerts)('query only exported metrics in the alert %s: %s', (_name, expr) => {
    expect(unknownIn(expr, exported)).toEqual([]);
  });

  it.each(Object.values(LOCK_METRICS).map((metric) => [metric.prometheusName, metric] as const))(
    'have a row for %s, with its unit and labels',
    (prometheusName, { name, unit, labels }) => {
      const row = text.split('\n').find((line) => line.startsWith(`| \`${prometheusName}\``))!;
      const [, , otel, kind, labelCell] = row.split('|').map((cell) => cell.trim());
      expect(otel).toBe(`\`${name}\``);
      expect(kind).toContain(`\`${unit}\``);
      expect(labelCell).toBe(labels.map((label) => `\`${label}\``).join(', '));
    },
  );

  it('describe the number of series that a template costs', () => {
    const series = (metric: string) => [...exported.keys()].filter((name) => name.startsWith(metric));
    const buckets = (metric: string) => exported.get(`${metric}_bucket`)!.get('le')!.size + 2;
    const [acquire, hold] = ['redis_lock_acquire_duration_seconds', 'redis_lock_hold_duration_seconds'];
    expect([series(acquire), series(hold)].map(({ length }) => length)).toEqual([3, 3]);
    const outcomes = (metric: string) => exported.get(`${metric}_count`)!.get('outcome')!.size;
    const most = buckets(acquire) * outcomes(acquire) + buckets(hold) * outcomes(hold) + 2;
    expect(text).toContain(`has ${buckets(acquire)} series for each outcome of an acquisition`);
    expect(text).toContain(`at most ${outcomes(acquire)}), ${buckets(hold)} for`);
    expect(text).toContain(`at most ${most}.`);
  });
});

describe('the check of an expression', () => {
  it.each([
    ['sum(rate(redis_lock_acquire_seconds_count[5m]))', ['redis_lock_acquire_seconds_count']],
    ['redis_lock_held{template="x"}', ['redis_lock_held{template}']],
    ['redis_lock_renewals_total{outcome="failed"}', ['outcome="failed"']],
    ['sum by (key_template) (redis_lock_renewals_total)', ['by (key_template)']],
    ['sum by (le) (redis_lock_held)', ['by (le)']],
    ['histogram_quantile(0.5, rate(redis_lock_hold_duration_seconds_bucket[5m]))', ['no le']],
    ['sum(redis_lock_held', ['brackets']],
    ['sum(up)', ['no metric']],
    ['sum by (mode) (redis_lock_held{connection="default"})', []],
  ])('finds what is wrong in %s', (expr, found) => expect(unknownIn(expr, exported)).toEqual(found));
});
