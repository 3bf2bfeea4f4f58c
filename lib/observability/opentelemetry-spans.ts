import {
  type Attributes,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
  type Tracer,
  type TracerProvider,
} from '@opentelemetry/api';
import { type HeldLockEvent, type LockEvent, type LockEventMap } from '../core/lock.events.js';
import { messageOf } from '../core/reporter.js';
import { EventListeners } from '../core/event-listeners.js';
import { connectionOf, errorTypeOf, type LockSource, outcomeOf, partsOf, templateOf } from './measure-locks.js';

/** What the spans report. */
export interface SpanOptions {
  /**
   * Whether spans contain the key itself, and the texts of errors, which name it. Keys may hold personal data.
   * @default false
   */
  recordKeys?: boolean;
}

/**
 * Creates a span for every acquisition when it ends, as a child of the caller's span. A loss is an event of the span that
 * was active when the lock was acquired or adopted, if that span has not ended: the work runs under it.
 */
export function traceLocks(locks: LockSource, provider: TracerProvider, options: SpanOptions): () => void {
  const tracing = { locks, tracer: provider.getTracer('nestjs-redis-lock'), recordKeys: options.recordKeys ?? false };
  const listeners = new EventListeners(locks.events)
    .on('acquired', (event) => spanOfGrant(tracing, event))
    .on('acquireFailed', (event) => spanOfFailure(tracing, event));
  const holders = reportLosses(tracing, listeners);
  return () => {
    listeners.stop();
    holders.clear();
  };
}

interface Tracing {
  readonly locks: LockSource;
  readonly tracer: Tracer;
  readonly recordKeys: boolean;
}

function attributesOf({ locks, recordKeys }: Tracing, event: LockEvent, outcome: string): Attributes {
  return {
    'redis_lock.connection': connectionOf(locks),
    'redis_lock.key_template': templateOf(event),
    'redis_lock.mode': event.mode,
    'redis_lock.outcome': outcome,
    ...(recordKeys ? { 'redis_lock.key': event.key } : {}),
  };
}

/** Its parent is the active span, as the event arrives in the context of the caller. */
function startSpan({ tracer }: Tracing, event: LockEvent, startTime: number, attributes: Attributes): Span {
  return tracer.startSpan(`lock.acquire ${templateOf(event)}`, { kind: SpanKind.INTERNAL, startTime, attributes });
}

function spanOfGrant(tracing: Tracing, event: LockEventMap['acquired']): void {
  const now = Date.now();
  const attributes = { ...attributesOf(tracing, event, 'acquired'), 'redis_lock.fencing_token': event.fencingToken };
  startSpan(tracing, event, now - event.waitedMs, attributes).end(now);
}

function spanOfFailure(tracing: Tracing, event: LockEventMap['acquireFailed']): void {
  const [now, outcome, errorType] = [Date.now(), outcomeOf(event), errorTypeOf(event.error)];
  const attributes = { ...attributesOf(tracing, event, outcome), 'error.type': errorType };
  const span = startSpan(tracing, event, now - event.waitedMs, attributes);
  if (outcome === 'timeout' || outcome === 'error') recordError(span, event.error, { ...tracing, errorType, now });
  span.end(now);
}

/** Adds losses to the spans of the holders; returns those spans, by attempt. */
function reportLosses(tracing: Tracing, listeners: EventListeners): Map<string, Span> {
  const holders = new Map<string, Span>();
  const forget = ({ attempt }: HeldLockEvent): void => void holders.delete(attempt);
  const note = ({ attempt }: HeldLockEvent): void => {
    const holder = trace.getActiveSpan();
    if (holder?.isRecording()) holders.set(attempt, holder);
  };
  listeners
    .on('acquired', note)
    .on('adopted', note)
    .on('lost', (event) => {
      const holder = holders.get(event.attempt);
      if (!holder?.isRecording()) return;
      const loss = { 'redis_lock.lost.reason': event.reason, 'redis_lock.fencing_token': event.fencingToken };
      holder.addEvent('redis_lock.lost', { ...attributesOf(tracing, event, 'lost'), ...loss });
    })
    .on('lost', forget)
    .on('released', forget)
    .on('transferred', forget);
  return holders;
}

/** The text of an error names the key, so it is recorded only with `recordKeys`. */
function recordError(
  span: Span,
  error: unknown,
  { errorType, recordKeys, now }: { readonly errorType: string; readonly recordKeys: boolean; readonly now: number },
): void {
  const { name, message, stack } = partsOf(error) ?? new Error(messageOf(error));
  span.recordException(recordKeys ? { code: errorType, name, message, stack } : { code: errorType, name }, now);
  span.setStatus({ code: SpanStatusCode.ERROR, message: recordKeys ? message : errorType });
}
