import { types } from 'node:util';
import { EventListeners } from '../core/event-listeners.js';
import { LockError } from '../core/lock.errors.js';
import { type LockEvent, type LockEventMap, type LockEvents } from '../core/lock.events.js';
import { checkOptions, CONNECTION_NAME, kindOf, type Option, option, type OptionTable } from '../core/option-checks.js';
import { refuse } from '../core/read-options.js';
import type { RedisLockService } from '../redis-lock.service.js';

/** A label of a metric; OpenTelemetry has it as an attribute with the prefix `redis_lock.`. */
type MetricLabel = 'connection' | 'key_template' | 'mode' | 'outcome';

export type MetricLabels = Partial<Record<MetricLabel, string>>;

/** The bounds of the histograms' buckets, in seconds, in rising order. */
export interface BucketOptions {
  /**
   * The bounds for the time that acquisitions take.
   * @default 1 ms to 5 minutes, in 16 buckets
   */
  acquireBuckets?: readonly number[];
  /**
   * The bounds for the time that locks are held.
   * @default 1 ms to an hour, in 17 buckets
   */
  holdBuckets?: readonly number[];
}

/** The lock services that an exporter's module observes. */
export interface ConnectionsOption {
  /**
   * The names of the connections; `undefined` is the default one.
   * @default [undefined]
   */
  connections?: readonly (string | undefined)[];
}

/** One metric of the locks, as both exporters have it. */
export interface MetricDefinition {
  readonly kind: 'histogram' | 'gauge' | 'counter';
  readonly name: string;
  /** The name in Prometheus, with its suffixes. */
  readonly prometheusName: string;
  /** The unit as in OpenTelemetry: `s`, or a noun in braces. */
  readonly unit: string;
  readonly description: string;
  readonly labels: readonly MetricLabel[];
  /** The option that replaces the bounds of the buckets. */
  readonly buckets?: keyof BucketOptions;
}

const BY_LOCK = ['connection', 'key_template', 'mode'] as const;
const BY_LEADER = ['connection', 'key_template'] as const;

/** The metrics of the locks. Names and labels are part of the public API. */
export const LOCK_METRICS = {
  acquireDuration: {
    kind: 'histogram',
    name: 'redis_lock.acquire.duration',
    prometheusName: 'redis_lock_acquire_duration_seconds',
    unit: 's',
    description: 'How long acquisitions took, from the call to the grant or the failure.',
    labels: [...BY_LOCK, 'outcome'],
    buckets: 'acquireBuckets',
  },
  holdDuration: {
    kind: 'histogram',
    name: 'redis_lock.hold.duration',
    prometheusName: 'redis_lock_hold_duration_seconds',
    unit: 's',
    description: 'How long locks were held, until they were released, transferred or lost.',
    labels: [...BY_LOCK, 'outcome'],
    buckets: 'holdBuckets',
  },
  held: {
    kind: 'gauge',
    name: 'redis_lock.held',
    prometheusName: 'redis_lock_held',
    unit: '{lock}',
    description: 'Locks that this instance holds now.',
    labels: BY_LOCK,
  },
  waiting: {
    kind: 'gauge',
    name: 'redis_lock.waiting',
    prometheusName: 'redis_lock_waiting',
    unit: '{waiter}',
    description: 'Calls of this instance that wait now for a busy lock.',
    labels: BY_LOCK,
  },
  renewals: {
    kind: 'counter',
    name: 'redis_lock.renewals',
    prometheusName: 'redis_lock_renewals_total',
    unit: '{renewal}',
    description: 'Renewals of leases: renewed, unknown (no answer, tried again), or lost.',
    labels: ['connection', 'outcome'],
  },
  leading: {
    kind: 'gauge',
    name: 'redis_lock.leading',
    prometheusName: 'redis_lock_leading',
    unit: '{leader}',
    description: 'Leaders that this instance is now: 1 where it leads.',
    labels: BY_LEADER,
  },
  elections: {
    kind: 'counter',
    name: 'redis_lock.elections',
    prometheusName: 'redis_lock_elections_total',
    unit: '{election}',
    description: 'How often this instance was elected.',
    labels: BY_LEADER,
  },
} as const satisfies Record<string, MetricDefinition>;

export type LockMetric = keyof typeof LOCK_METRICS;

export const METRIC_NAMES = Object.keys(LOCK_METRICS) as LockMetric[];

/** In seconds: from one round trip to a wait of minutes, and from the shortest work to a job of an hour. */
const BUCKETS: Readonly<Required<BucketOptions>> = {
  acquireBuckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300],
  holdBuckets: [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3_600],
};

export const boundsOf = ({ buckets = 'acquireBuckets' }: MetricDefinition, options: BucketOptions): number[] => [
  ...(options[buckets] ?? BUCKETS[buckets]),
];

const BOUNDS = kindOf('a list of rising seconds above 0, such as [0.01, 0.1, 1]', (value) => {
  if (!Array.isArray(value) || value.length === 0) return false;
  return value.every((bound, i) => Number.isFinite(bound) && bound > (value[i - 1] ?? 0));
});

/** The option `connections` of the modules. */
export const CONNECTIONS = option({
  expected: 'a list of names',
  check: (value, where) => {
    if (!Array.isArray(value)) refuse(where, value, 'a list of names');
    for (const name of value) CONNECTION_NAME.check(name, where);
  },
});

/** An object of another library, by what it can do: an app may have several copies of that library. */
export const objectWith = (expected: string, ...methods: readonly string[]): Option =>
  option(kindOf(expected, (value) => methods.every((name) => typeof value?.[name] === 'function')));

/**
 * Checks the options of `where` and returns a copy of them; `table` has the options other than the buckets.
 * @throws LockConfigurationError
 */
export const checkExporterOptions = <T extends BucketOptions>(
  options: T,
  where: string,
  table: OptionTable<Omit<T, keyof BucketOptions>>,
): T =>
  checkOptions<object>(options, { ...table, acquireBuckets: option(BOUNDS), holdBuckets: option(BOUNDS) }, where) as T;

/**
 * Ensures that a service is measured once into one target, however often it is set up: the run for a service and a target
 * ends when its last user stops it.
 */
export function sharedRuns() {
  const all = new WeakMap<LockEvents, Map<object, { users: number; readonly stop: () => void }>>();
  return (events: LockEvents, target: object, start: () => () => void): (() => void) => {
    const runs = all.get(events) ?? new Map<object, { users: number; readonly stop: () => void }>();
    all.set(events, runs);
    const run = runs.get(target) ?? { users: 0, stop: start() };
    runs.set(target, run);
    run.users += 1;
    let isStopped = false;
    return () => {
      if (isStopped) return;
      isStopped = true;
      run.users -= 1;
      if (run.users > 0) return;
      runs.delete(target);
      run.stop();
    };
  };
}

/** The part of a lock service that is observed. */
export type LockSource = Pick<RedisLockService, 'events' | 'connection'>;

/** Records one measurement: seconds for durations, a change for counts. */
export type RecordMetric = (metric: LockMetric, value: number, labels: MetricLabels, errorType?: string) => void;

type AcquireOutcome = 'acquired' | 'busy' | 'timeout' | 'aborted' | 'error';

type AcquireFailure = LockEventMap['acquireFailed']['reason'];

const OUTCOMES: Record<AcquireFailure, AcquireOutcome> = {
  busy: 'busy',
  claimed: 'busy',
  timeout: 'timeout',
  aborted: 'aborted',
  shutdown: 'aborted',
  error: 'error',
};

type HoldOutcome = 'released' | 'transferred' | 'lost';

export const outcomeOf = ({ reason }: { readonly reason: AcquireFailure }): AcquireOutcome => OUTCOMES[reason];

/** Returns the type of an error (few values): the `code` of a `LockError`, otherwise its name. */
export function errorTypeOf(error: unknown): string {
  if (error instanceof LockError) return error.code;
  // The value for an unknown type in the conventions of OpenTelemetry.
  return partsOf(error)?.name ?? '_OTHER';
}

/**
 * Returns the texts of an error, also of another realm; null when the value is not an error, or throws. Callers can abort with any
 * value, and the default reason of an `AbortSignal` is a `DOMException`.
 */
export function partsOf(value: unknown): Pick<Error, 'name' | 'message' | 'stack'> | null {
  try {
    if (!(value instanceof Error || types.isNativeError(value) || value instanceof DOMException)) return null;
    const { name, message, stack } = value;
    return { name, message, stack };
  } catch {
    return null;
  }
}

/** Returns the key template, never the key: the number of keys is unbounded. */
export const templateOf = ({ template }: Pick<LockEvent, 'template'>): string => template ?? 'other';

export const connectionOf = ({ connection }: Pick<LockSource, 'connection'>): string => connection ?? 'default';

/**
 * Turns the events of a service into measurements. The returned function stops that, and subtracts what was counted as
 * held, led and waiting.
 */
export function measureLocks(locks: LockSource, record: RecordMetric): () => void {
  const connection = connectionOf(locks);
  const byLeader = (event: LockEvent): MetricLabels => ({ connection, key_template: templateOf(event) });
  const byLock = (event: LockEvent): MetricLabels => ({ ...byLeader(event), mode: event.mode });
  // Waiters have no id, and those of one series are alike.
  const seriesOf = (event: LockEvent): string => `${event.mode} ${templateOf(event)}`;
  const [held, waiting, leading] = [
    new Level('held', record),
    new Level('waiting', record),
    new Level('leading', record),
  ];
  const waits = (event: LockEventMap['acquired' | 'acquireFailed']): void => {
    if (event.waited) waiting.remove(seriesOf(event));
  };
  const asked = (event: LockEventMap['acquired' | 'acquireFailed'], outcome: AcquireOutcome, errorType?: string) =>
    record('acquireDuration', event.waitedMs / 1_000, { ...byLock(event), outcome }, errorType);
  const began = (event: LockEventMap['acquired' | 'adopted']): void => held.add(event.attempt, byLock(event));
  const ended = (event: LockEventMap[HoldOutcome], outcome: HoldOutcome): void => {
    // The labels of its begin: a downgrade changes the mode.
    const labels = held.remove(event.attempt) ?? byLock(event);
    record('holdDuration', event.heldMs / 1_000, { ...labels, outcome });
  };
  const listeners = new EventListeners(locks.events)
    .on('waiting', (event) => waiting.add(seriesOf(event), byLock(event)))
    .on('acquired', waits)
    .on('acquireFailed', waits)
    .on('acquired', (event) => asked(event, 'acquired'))
    .on('acquireFailed', (event) => asked(event, outcomeOf(event), errorTypeOf(event.error)))
    .on('acquired', began)
    .on('adopted', began)
    .on('released', (event) => ended(event, 'released'))
    .on('transferred', (event) => ended(event, 'transferred'))
    .on('lost', (event) => ended(event, 'lost'))
    .on('elected', (event) => record('elections', 1, byLeader(event)))
    .on('elected', (event) => leading.add(event.attempt, byLeader(event)))
    .on('demoted', (event) => void leading.remove(event.attempt));
  countRenewals(listeners, (outcome, count = 1) => record('renewals', count, { connection, outcome }));
  return () => {
    listeners.stop();
    for (const level of [held, waiting, leading]) level.clear();
  };
}

/** Each outcome is counted from 0, so that the first loss shows as a rise. */
function countRenewals(
  listeners: EventListeners,
  count: (outcome: 'renewed' | 'unknown' | 'lost', times?: number) => void,
): void {
  for (const outcome of ['renewed', 'unknown', 'lost'] as const) count(outcome, 0);
  listeners
    .on('renewed', () => count('renewed'))
    .on('renewFailed', () => count('unknown'))
    // A hold that exceeded `maxHoldMs` was renewed until then.
    .on('lost', (event) => event.reason !== 'max-hold' && count('lost'));
}

/** Counts only items that began after its creation: the end of earlier ones must not count below 0. */
class Level {
  readonly #counted = new Map<string, { readonly labels: MetricLabels; count: number }>();

  constructor(
    private readonly metric: 'held' | 'waiting' | 'leading',
    private readonly record: RecordMetric,
  ) {}

  add(id: string, labels: MetricLabels): void {
    const counted = this.#counted.get(id) ?? { labels, count: 0 };
    this.#counted.set(id, counted);
    counted.count += 1;
    this.record(this.metric, 1, labels);
  }

  remove(id: string): MetricLabels | undefined {
    const counted = this.#counted.get(id);
    if (!counted) return undefined;
    counted.count -= 1;
    if (counted.count === 0) this.#counted.delete(id);
    this.record(this.metric, -1, counted.labels);
    return counted.labels;
  }

  clear(): void {
    for (const { labels, count } of this.#counted.values()) this.record(this.metric, -count, labels);
    this.#counted.clear();
  }
}
