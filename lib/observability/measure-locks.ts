import { types } from 'node:util';
import { type AcquireFailure, type LockEvent, type LockEventMap } from '../core/lock.events.js';
import { LockError } from '../core/lock.errors.js';
import type { RedisLockService } from '../redis-lock.service.js';
import { EventListeners } from '../core/event-listeners.js';
import { type LockMetric, type MetricLabels, RENEWAL_OUTCOMES } from './lock-metrics.js';

/** The part of a lock service that is observed. */
export type LockSource = Pick<RedisLockService, 'events' | 'connection'>;

/** Records one measurement: seconds for durations, a change for counts. */
export type RecordMetric = (metric: LockMetric, value: number, labels: MetricLabels, errorType?: string) => void;

/** How an acquisition ended. */
export type AcquireOutcome = 'acquired' | 'busy' | 'timeout' | 'aborted' | 'error';

const OUTCOMES: Record<AcquireFailure, AcquireOutcome> = {
  busy: 'busy',
  claimed: 'busy',
  timeout: 'timeout',
  aborted: 'aborted',
  shutdown: 'aborted',
  error: 'error',
};

/** How a hold ended in this process. */
type HoldOutcome = 'released' | 'transferred' | 'lost';

/** Returns how a failed acquisition ended. */
export const outcomeOf = ({ reason }: { readonly reason: AcquireFailure }): AcquireOutcome => OUTCOMES[reason];

/** Returns the type of an error, of which there are few: the `code` of a `LockError`, else its name. */
export function errorTypeOf(error: unknown): string {
  if (error instanceof LockError) return error.code;
  // The value that the conventions of OpenTelemetry give for an unknown type.
  return partsOf(error)?.name ?? '_OTHER';
}

/** Returns the texts of an error; null when the value is no error, or throws. Callers can abort with any value. */
export function partsOf(value: unknown): Pick<Error, 'name' | 'message' | 'stack'> | null {
  try {
    if (!isError(value)) return null;
    const { name, message, stack } = value;
    return { name, message, stack };
  } catch {
    return null;
  }
}

/** Includes errors of another realm, and the default reason of an `AbortSignal`. */
const isError = (value: unknown): value is Error =>
  value instanceof Error || types.isNativeError(value) || value instanceof DOMException;

/** Returns the key template, never the key: there is no limit to the number of keys. */
export const templateOf = ({ template }: Pick<LockEvent, 'template'>): string => template ?? 'other';

/** Returns the name of the connection, or `default`. */
export const connectionOf = ({ connection }: Pick<LockSource, 'connection'>): string => connection ?? 'default';

/**
 * Turns the events of a service into measurements. The returned function stops that, and subtracts what was counted as
 * held, led and waiting.
 */
export function measureLocks(locks: LockSource, record: RecordMetric): () => void {
  const gauges = {
    held: new HeldGauge(record, 'held'),
    leading: new HeldGauge(record, 'leading'),
    waiting: new WaitingGauge(record),
  };
  const measured = { locks, record, ...gauges, listeners: new EventListeners(locks.events) };
  measureAcquisitions(measured);
  measureHolds(measured);
  measureRenewals(measured);
  measureLeaders(measured);
  return () => {
    measured.listeners.stop();
    gauges.held.clear();
    gauges.leading.clear();
    gauges.waiting.clear();
  };
}

interface Measured {
  readonly locks: LockSource;
  readonly record: RecordMetric;
  readonly listeners: EventListeners;
  readonly held: HeldGauge;
  readonly leading: HeldGauge;
  readonly waiting: WaitingGauge;
}

function labelsOf({ locks }: Measured, event: LockEvent): MetricLabels {
  return { connection: connectionOf(locks), key_template: templateOf(event), mode: event.mode };
}

function measureAcquisitions(measured: Measured): void {
  const { record, listeners, waiting } = measured;
  const ended = (
    event: LockEventMap['acquired' | 'acquireFailed'],
    outcome: AcquireOutcome,
    errorType?: string,
  ): void => record('acquireDuration', event.waitedMs / 1_000, { ...labelsOf(measured, event), outcome }, errorType);
  const waits = (event: LockEventMap['acquired' | 'acquireFailed']): void => {
    if (event.waited) waiting.remove(labelsOf(measured, event));
  };
  listeners
    .on('waiting', (event) => waiting.add(labelsOf(measured, event)))
    .on('acquired', waits)
    .on('acquireFailed', waits)
    .on('acquired', (event) => ended(event, 'acquired'))
    .on('acquireFailed', (event) => ended(event, outcomeOf(event), errorTypeOf(event.error)));
}

function measureHolds(measured: Measured): void {
  const { record, listeners, held } = measured;
  const ended = (event: LockEventMap[HoldOutcome], outcome: HoldOutcome): void => {
    // With the labels with which it began: a downgrade changes the mode.
    const labels = held.remove(event.attempt) ?? labelsOf(measured, event);
    record('holdDuration', event.heldMs / 1_000, { ...labels, outcome });
  };
  const began = (event: LockEventMap['acquired' | 'adopted']): void =>
    held.add(event.attempt, labelsOf(measured, event));
  listeners
    .on('acquired', began)
    .on('adopted', began)
    .on('released', (event) => ended(event, 'released'))
    .on('transferred', (event) => ended(event, 'transferred'))
    .on('lost', (event) => ended(event, 'lost'));
}

function measureRenewals({ locks, record, listeners }: Measured): void {
  const connection = connectionOf(locks);
  const renewal = (outcome: (typeof RENEWAL_OUTCOMES)[number], count = 1): void =>
    record('renewals', count, { connection, outcome });
  for (const outcome of RENEWAL_OUTCOMES) renewal(outcome, 0);
  listeners
    .on('renewed', () => renewal('renewed'))
    .on('renewFailed', () => renewal('unknown'))
    // A hold that exceeded `maxHoldMs` was renewed until then.
    .on('lost', (event) => event.reason !== 'max-hold' && renewal('lost'));
}

function measureLeaders({ locks, record, listeners, leading }: Measured): void {
  const labelsFor = (event: LockEvent): MetricLabels => ({
    connection: connectionOf(locks),
    key_template: templateOf(event),
  });
  listeners
    .on('elected', (event) => record('elections', 1, labelsFor(event)))
    .on('elected', (event) => leading.add(event.attempt, labelsFor(event)))
    .on('demoted', (event) => void leading.remove(event.attempt));
}

/** Counts the locks acquired, adopted, or led with, since it began; the end of one that was held before is ignored. */
class HeldGauge {
  readonly #held = new Map<string, MetricLabels>();

  constructor(
    private readonly record: RecordMetric,
    private readonly metric: 'held' | 'leading',
  ) {}

  add(attempt: string, labels: MetricLabels): void {
    this.#held.set(attempt, labels);
    this.record(this.metric, 1, labels);
  }

  /** Returns the labels with which the lock was added. */
  remove(attempt: string): MetricLabels | undefined {
    const labels = this.#held.get(attempt);
    if (this.#held.delete(attempt)) this.record(this.metric, -1, labels!);
    return labels;
  }

  clear(): void {
    for (const attempt of this.#held.keys()) this.remove(attempt);
  }
}

/** Counts the calls that began to wait since it began. Waiters have no id: earlier ones must not count below 0. */
class WaitingGauge {
  readonly #series = new Map<string, { readonly labels: MetricLabels; count: number }>();

  constructor(private readonly record: RecordMetric) {}

  add(labels: MetricLabels): void {
    const name = seriesName(labels);
    const series = this.#series.get(name) ?? { labels, count: 0 };
    this.#series.set(name, series);
    series.count += 1;
    this.record('waiting', 1, labels);
  }

  remove(labels: MetricLabels): void {
    const name = seriesName(labels);
    const series = this.#series.get(name);
    if (!series) return;
    series.count -= 1;
    if (series.count === 0) this.#series.delete(name);
    this.record('waiting', -1, labels);
  }

  clear(): void {
    for (const { labels, count } of this.#series.values()) this.record('waiting', -count, labels);
    this.#series.clear();
  }
}

const seriesName = ({ mode, key_template }: MetricLabels): string => `${mode} ${key_template}`;
