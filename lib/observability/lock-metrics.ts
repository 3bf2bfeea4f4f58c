/** A label of a metric; OpenTelemetry has it as an attribute with the prefix `redis_lock.`. */
type MetricLabel = 'connection' | 'key_template' | 'mode' | 'outcome';

/** The labels of one measurement, by name. */
export type MetricLabels = Partial<Record<MetricLabel, string>>;

/** One metric of the locks, as both exporters have it. */
export interface MetricDefinition {
  /** The name in OpenTelemetry. */
  readonly name: string;
  /** The name in Prometheus, with its suffixes. */
  readonly prometheusName: string;
  /** The unit as in OpenTelemetry: `s`, or a noun in braces. */
  readonly unit: string;
  readonly description: string;
  readonly labels: readonly MetricLabel[];
}

const BY_LOCK = ['connection', 'key_template', 'mode'] as const;
const BY_LEADER = ['connection', 'key_template'] as const;

/** The metrics of the locks. Names and labels are part of the public API. */
export const LOCK_METRICS = {
  acquireDuration: {
    name: 'redis_lock.acquire.duration',
    prometheusName: 'redis_lock_acquire_duration_seconds',
    unit: 's',
    description: 'How long acquisitions took, from the call to the grant or the failure.',
    labels: [...BY_LOCK, 'outcome'],
  },
  holdDuration: {
    name: 'redis_lock.hold.duration',
    prometheusName: 'redis_lock_hold_duration_seconds',
    unit: 's',
    description: 'How long locks were held, until they were released, transferred or lost.',
    labels: [...BY_LOCK, 'outcome'],
  },
  held: {
    name: 'redis_lock.held',
    prometheusName: 'redis_lock_held',
    unit: '{lock}',
    description: 'Locks that this instance holds now.',
    labels: BY_LOCK,
  },
  waiting: {
    name: 'redis_lock.waiting',
    prometheusName: 'redis_lock_waiting',
    unit: '{waiter}',
    description: 'Calls of this instance that wait now for a busy lock.',
    labels: BY_LOCK,
  },
  renewals: {
    name: 'redis_lock.renewals',
    prometheusName: 'redis_lock_renewals_total',
    unit: '{renewal}',
    description: 'Renewals of leases: renewed, unknown (no answer, tried again), or lost.',
    labels: ['connection', 'outcome'],
  },
  leading: {
    name: 'redis_lock.leading',
    prometheusName: 'redis_lock_leading',
    unit: '{leader}',
    description: 'Leaders that this instance is now: 1 where it leads.',
    labels: BY_LEADER,
  },
  elections: {
    name: 'redis_lock.elections',
    prometheusName: 'redis_lock_elections_total',
    unit: '{election}',
    description: 'How often this instance was elected.',
    labels: BY_LEADER,
  },
} as const satisfies Record<string, MetricDefinition>;

/** The name of a metric in this library. */
export type LockMetric = keyof typeof LOCK_METRICS;

/** The outcomes of `renewals`; each is counted from 0, so that the first loss shows as a rise. */
export const RENEWAL_OUTCOMES = ['renewed', 'unknown', 'lost'] as const;

/** Bounds of the buckets in seconds, from one round trip to a wait of minutes. */
export const ACQUIRE_BUCKETS: readonly number[] = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300,
];

/** Bounds of the buckets in seconds, from the shortest work to a job of an hour. */
export const HOLD_BUCKETS: readonly number[] = [
  0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3_600,
];
