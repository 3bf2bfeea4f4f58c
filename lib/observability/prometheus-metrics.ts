import { Counter, Gauge, Histogram, type OpenMetricsContentType, type Registry } from 'prom-client';
import { ACQUIRE_BUCKETS, HOLD_BUCKETS, LOCK_METRICS, type LockMetric, type MetricLabels } from './lock-metrics.js';
import { type RecordMetric } from './measure-locks.js';
import { type BucketOptions } from './observability-options.js';

/** A registry of either text format; internal. */
export type AnyRegistry = Registry | Registry<OpenMetricsContentType>;

type AnyMetric = Counter | Gauge | Histogram;

/** One series of a registry; `level` is the sum of its changes, which is the value of a gauge. */
interface Series {
  readonly labels: MetricLabels;
  level: number;
}

/** Every series of the registry by metric and labels, of all services and of every copy of the package. */
type AllSeries = Map<string, Map<string, Series>>;

const ALL_SERIES = Symbol.for('nestjs-redis-lock:prometheus-series');

const NAMES = Object.keys(LOCK_METRICS) as LockMetric[];

/**
 * Writes measurements into a registry. Metrics that exist are used, so that several services share them. When they are
 * reset, or the registry is cleared, their series start over: counters and histograms at 0, gauges with the locks and
 * waiters that there are.
 */
export function recorderOf(registry: AnyRegistry, buckets: BucketOptions): RecordMetric {
  const all = ((registry as { [ALL_SERIES]?: AllSeries })[ALL_SERIES] ??= new Map());
  const find = (name: LockMetric) =>
    registry.getSingleMetric(LOCK_METRICS[name].prometheusName) as AnyMetric | undefined;
  const register = (name: LockMetric): AnyMetric => {
    const metric = create(name, registry, buckets);
    const series = seriesOf(all, name);
    const reset = metric.reset.bind(metric);
    metric.reset = () => {
      reset();
      for (const one of series.values()) begin(metric, one);
    };
    metric.reset();
    return metric;
  };
  const registerAll = (): void => {
    for (const name of NAMES) if (!find(name)) register(name);
  };
  registerAll();
  return (name, value, labels) => {
    if (!find(name)) registerAll();
    remember(all, name, value, labels);
    const metric = find(name)!;
    if ('observe' in metric) metric.observe(labels, value);
    else metric.inc(labels, value);
  };
}

function create(name: LockMetric, registry: AnyRegistry, { acquireBuckets, holdBuckets }: BucketOptions): AnyMetric {
  const { prometheusName, description, labels } = LOCK_METRICS[name];
  const configuration = { name: prometheusName, help: description, labelNames: [...labels], registers: [registry] };
  if (name === 'held' || name === 'leading' || name === 'waiting') return new Gauge(configuration);
  if (name === 'renewals' || name === 'elections') return new Counter(configuration);
  const bounds = name === 'holdDuration' ? (holdBuckets ?? HOLD_BUCKETS) : (acquireBuckets ?? ACQUIRE_BUCKETS);
  return new Histogram({ ...configuration, buckets: [...bounds] });
}

function seriesOf(all: AllSeries, name: LockMetric): Map<string, Series> {
  const series = all.get(name) ?? new Map<string, Series>();
  all.set(name, series);
  return series;
}

function remember(all: AllSeries, name: LockMetric, value: number, labels: MetricLabels): void {
  const series = seriesOf(all, name);
  const id = JSON.stringify(LOCK_METRICS[name].labels.map((label) => labels[label]));
  const one = series.get(id) ?? { labels, level: 0 };
  series.set(id, one);
  one.level += value;
}

function begin(metric: AnyMetric, { labels, level }: Series): void {
  if ('observe' in metric) metric.zero(labels);
  else if ('set' in metric) metric.set(labels, level);
  else metric.inc(labels, 0);
}
