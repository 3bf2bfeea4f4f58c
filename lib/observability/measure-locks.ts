import { types } from 'node:util';
import { type AcquireFailure, type LockEvent, type LockEventMap } from '../core/lock.events.js';
import { LockError } from '../core/lock.errors.js';
import type { RedisLockService } from '../redis-lock.service.js';
import { EventListeners } from './event-listeners.js';
import { type LockMetric, type MetricLabels, RENEWAL_OUTCOMES } from './lock-metrics.js';

/** What is asked of a lock service to observe it. */
export type LockSource = Pick<RedisLockService, 'events' | 'connection'>;

/** Takes one measurement: seconds for durations, a change for what is counted. */
export type RecordMetric = (metric: LockMetric, value: number, labels: MetricLabels, errorType?: string) => void;

/** How an acquisition ended, in few words. */
export type AcquireOutcome = 'acquired' | 'busy' | 'timeout' | 'aborted' | 'error';

const OUTCOMES: Record<AcquireFailure, AcquireOutcome> = {
  busy: 'busy',
  claimed: 'busy',
  timeout: 'timeout',
  aborted: 'aborted',
  shutdown: 'aborted',
  error: 'error',
};

/** How a failed acquisition ended. */
export const outcomeOf = ({ reason }: { readonly reason: AcquireFailure }): AcquireOutcome => OUTCOMES[reason];

/** What kind of error it is, in one of few words: the `code` of a `LockError`, else its name. */
export function errorTypeOf(error: unknown): string {
  if (error instanceof LockError) return error.code;
  // As the conventions of OpenTelemetry have it where nothing better is known.
  return partsOf(error)?.name ?? '_OTHER';
}

/** What an error says; null for what is none, or cannot be asked. Callers abort with what they like. */
export function partsOf(value: unknown): Pick<Error, 'name' | 'message' | 'stack'> | null {
  try {
    if (!isError(value)) return null;
    const { name, message, stack } = value;
    return { name, message, stack };
  } catch {
    return null;
  }
}

/** Also an error of another realm, and what `AbortSignal` gives as its reason. */
const isError = (value: unknown): value is Error =>
  value instanceof Error || types.isNativeError(value) || value instanceof DOMException;

/** The key template, never the key: a series for each order would be without bound. */
export const templateOf = ({ template }: Pick<LockEvent, 'template'>): string => template ?? 'other';

/** The name of the connection; of the default one, which has none, `default`. */
export const connectionOf = ({ connection }: Pick<LockSource, 'connection'>): string => connection ?? 'default';

/**
 * Turns the events of a service into measurements, until the function that it gives is called; then what it counted as
 * held and waiting is taken back.
 */
export function measureLocks(locks: LockSource, record: RecordMetric): () => void {
  const gauges = { held: new HeldGauge(record), waiting: new WaitingGauge(record) };
  const measured = { locks, record, ...gauges, listeners: new EventListeners(locks.events) };
  measureAcquisitions(measured);
  measureHolds(measured);
  measureRenewals(measured);
  return () => {
    measured.listeners.stop();
    gauges.held.clear();
    gauges.waiting.clear();
  };
}

interface Measured {
  readonly locks: LockSource;
  readonly record: RecordMetric;
  readonly listeners: EventListeners;
  readonly held: HeldGauge;
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
  const ended = (event: LockEventMap['released' | 'lost'], outcome: 'released' | 'lost'): void => {
    // Under the labels with which it began: a downgrade has changed its mode.
    const labels = held.remove(event.attempt) ?? labelsOf(measured, event);
    record('holdDuration', event.heldMs / 1_000, { ...labels, outcome });
  };
  listeners
    .on('acquired', (event) => held.add(event.attempt, labelsOf(measured, event)))
    .on('released', (event) => ended(event, 'released'))
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
    // A hold that was too long says nothing about renewals.
    .on('lost', (event) => event.reason !== 'max-hold' && renewal('lost'));
}

/** The locks that were acquired since it began; one that was held before is not known, and not missed at its end. */
class HeldGauge {
  readonly #held = new Map<string, MetricLabels>();

  constructor(private readonly record: RecordMetric) {}

  add(attempt: string, labels: MetricLabels): void {
    this.#held.set(attempt, labels);
    this.record('held', 1, labels);
  }

  /** Gives the labels with which it was added. */
  remove(attempt: string): MetricLabels | undefined {
    const labels = this.#held.get(attempt);
    if (this.#held.delete(attempt)) this.record('held', -1, labels!);
    return labels;
  }

  clear(): void {
    for (const attempt of this.#held.keys()) this.remove(attempt);
  }
}

/** The calls that began to wait since it began. Waiters have no name: one that was there before must not count below 0. */
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
