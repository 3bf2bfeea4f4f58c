import 'reflect-metadata';
import { context, type Span, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base';
import { type LockEventMap } from '../../../lib/index.js';
import { instrumentLocks, type InstrumentLocksOptions } from '../../../lib/observability/opentelemetry.js';
import { eventually } from '../../support/waiting/eventually.js';
import { gate } from '../../support/waiting/gate.js';
import { rejection } from '../../support/waiting/rejection.js';
import { closeAll, closeLater, freshKey, type LockApp, startApp } from '../../support/apps/lock-app.js';
import { untilWaiting } from '../../support/waiting/waiters.js';
import { once, Orders, someTime, startCast } from '../../unit/observability/lock-story.js';

const stops: (() => void)[] = [];

beforeAll(() => void context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable()));
afterAll(() => context.disable());
afterEach(async () => {
  for (const stop of stops.splice(0)) stop();
  await closeAll();
});

/** A real SDK, with spans of callers. */
function startTraces() {
  const exporter = new InMemorySpanExporter();
  const tracerProvider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  closeLater({ close: () => tracerProvider.shutdown() });
  /** Runs `work` as the caller whose span this is. */
  const within = async <T>(name: string, work: (span: Span) => Promise<T>): Promise<T> => {
    const span = tracerProvider.getTracer('test').startSpan(name);
    const result = await context.with(trace.setSpan(context.active(), span), () => work(span));
    span.end();
    return result;
  };
  const spans = (): ReadableSpan[] => exporter.getFinishedSpans();
  const locksOf = (): ReadableSpan[] => spans().filter(({ name }) => name.startsWith('lock.'));
  return { tracerProvider, within, spans, locksOf };
}

async function start(options: Omit<InstrumentLocksOptions, 'tracerProvider'> = {}) {
  const traces = startTraces();
  const [app, other] = [await startApp({}, { providers: [Orders] }), await startApp()];
  stops.push(instrumentLocks(app.locks, { ...options, tracerProvider: traces.tracerProvider }));
  return { ...traces, ...app, other, orders: app.app.get(Orders) };
}

/** Waits for a key that another caller holds until that one releases it. */
async function waitFor(key: string, other: LockApp, work: () => Promise<unknown>): Promise<unknown> {
  const held = await other.locks.acquire(key);
  const waiting = work();
  await untilWaiting(other, key);
  await someTime();
  await held.release();
  return waiting;
}

const secondsOf = ([seconds, nanos]: ReadableSpan['duration']): number => seconds + nanos / 1e9;

describe('the span of an acquisition', () => {
  it('has the template in its name, attributes of the lock, and the time from the call to the grant', async () => {
    const { orders, other, locks, locksOf } = await start();
    const told: LockEventMap['acquired'][] = [];
    locks.events.on('acquired', (event) => told.push(event));
    const id = freshKey();
    const before = Date.now();
    await waitFor(`order:${id}`, other, () => orders.charge(id));
    const [span] = locksOf();
    expect(locksOf()).toHaveLength(1);
    expect(span).toMatchObject({ name: 'lock.acquire order:<0>', kind: SpanKind.INTERNAL, events: [] });
    expect(span!.status.code).toBe(SpanStatusCode.UNSET);
    expect(span!.attributes).toEqual({
      'redis_lock.connection': 'default',
      'redis_lock.key_template': 'order:<0>',
      'redis_lock.mode': 'write',
      'redis_lock.outcome': 'acquired',
      'redis_lock.fencing_token': told[0]!.fencingToken,
    });
    expect(secondsOf(span!.duration)).toBeCloseTo(told[0]!.waitedMs / 1_000, 6);
    expect(told[0]!.waitedMs).toBeGreaterThanOrEqual(30);
    // Its wait is rounded to milliseconds.
    expect(secondsOf(span!.startTime) * 1_000).toBeGreaterThanOrEqual(before - 1);
    expect(secondsOf(span!.endTime) * 1_000).toBeLessThanOrEqual(Date.now() + 1);
  });

  it("is a child of the caller's span: granted at once, after a wait, for a method, and when it fails", async () => {
    const { orders, other, locks, locksOf, spans, within } = await start();
    const [at, waited, failed, id] = [freshKey(), freshKey(), freshKey(), freshKey()];
    const held = await other.locks.acquire(failed);
    // Side by side: each has to find its own caller.
    await Promise.all([
      within('at once', () => locks.withLock(at, () => undefined)),
      within('waited', () => waitFor(waited, other, () => locks.withLock(waited, () => undefined))),
      within('method', () => waitFor(`order:${id}`, other, () => orders.charge(id))),
      within('failed', () => rejection(locks.acquire(failed, { waitMs: 40 }))),
      within('busy', () => locks.tryAcquire(failed)),
    ]);
    await locks.withLock(freshKey(), () => undefined);
    await held.release();
    const nameOf = (id: string | undefined) => spans().find((span) => span.spanContext().spanId === id)?.name;
    const children = locksOf().map((span) => [
      nameOf(span.parentSpanContext?.spanId),
      span.attributes['redis_lock.outcome'],
    ]);
    expect(children).toHaveLength(6);
    expect(children).toEqual(
      expect.arrayContaining([
        ['at once', 'acquired'],
        ['waited', 'acquired'],
        ['method', 'acquired'],
        ['failed', 'timeout'],
        ['busy', 'busy'],
        [undefined, 'acquired'],
      ]),
    );
  });

  it('is an error with its exception after a time-out or without Redis, and not when busy or aborted', async () => {
    const { tracerProvider, locksOf } = startTraces();
    const { locks, other, withoutRedis } = await startCast();
    stops.push(instrumentLocks(locks, { tracerProvider, recordKeys: true }));
    const held = await other.locks.acquire(freshKey());
    await locks.tryAcquire(held.key);
    await rejection(locks.acquire(held.key, { signal: AbortSignal.abort() }));
    const timeout = await rejection(locks.acquire(held.key, { waitMs: 20 }));
    const errors = [timeout];
    await withoutRedis(async () => void errors.push(await rejection(locks.acquire(freshKey(), { waitMs: 0 }))));
    await held.release();
    const told = locksOf().map(({ attributes, status, events }) => ({
      type: attributes['error.type'],
      status,
      exceptions: events.map(({ name, attributes }) => [
        name,
        attributes!['exception.type'],
        attributes!['exception.message'],
      ]),
    }));
    const quiet = { status: { code: SpanStatusCode.UNSET }, exceptions: [] };
    const failed = (type: string, { message }: Error) => ({
      type,
      status: { code: SpanStatusCode.ERROR, message },
      exceptions: [['exception', type, message]],
    });
    expect(told).toEqual([
      { type: 'LOCK_BUSY', ...quiet },
      { type: 'AbortError', ...quiet },
      failed('LOCK_WAIT_TIMEOUT', errors[0]!),
      failed('LOCK_STORE', errors[1]!),
    ]);
  });

  it('contains the key only with recordKeys, even where an error names it', async () => {
    for (const recordKeys of [false, true]) {
      const { locks, other, spans, within } = await start({ recordKeys });
      const held = await other.locks.acquire(freshKey('secret'));
      await within('caller', () => rejection(locks.acquire(held.key, { waitMs: 20 })));
      const lost = freshKey('secret');
      await within('holder', async () => {
        const { signal } = await locks.acquire(lost);
        await other.locks.forceRelease(lost);
        await eventually(() => signal.aborted);
      });
      const facts = spans().map(({ name, attributes, status, events }) => ({ name, attributes, status, events }));
      const text = JSON.stringify(facts);
      expect(facts.map(({ name }) => name)).toEqual(expect.arrayContaining(['caller', 'lock.acquire other']));
      expect(facts.flatMap(({ events }) => events)).toHaveLength(2);
      expect([text.includes(held.key), text.includes(lost)]).toEqual([recordKeys, recordKeys]);
      if (recordKeys) expect(facts[0]!.attributes['redis_lock.key']).toBe(held.key);
      await held.release();
    }
  });

  it('is created once when a service is instrumented twice, and not after the end', async () => {
    const { locks, locksOf, tracerProvider } = await start();
    const again = instrumentLocks(locks, { tracerProvider });
    await locks.withLock(freshKey(), () => undefined);
    expect(locksOf()).toHaveLength(1);
    again();
    for (const stop of stops.splice(0)) stop();
    await locks.withLock(freshKey(), () => undefined);
    expect(locksOf()).toHaveLength(1);
  });
});

describe('a loss', () => {
  it('is an event of the span under which the lock was acquired, rather than a span of its own', async () => {
    const { orders, locks, other, within, spans, locksOf } = await start();
    const [id, started] = [freshKey(), gate()];
    const tokens: number[] = [];
    locks.events.on('acquired', ({ fencingToken }) => {
      tokens.push(fencingToken);
      started.open();
    });
    await within('caller', async () => {
      const charged = rejection(orders.charge(id, once(locks, 'lost')));
      await started.opened;
      await other.locks.forceRelease(`order:${id}`);
      await charged;
    });
    const [event] = spans().find(({ name }) => name === 'caller')!.events;
    expect(event).toMatchObject({ name: 'redis_lock.lost' });
    expect(event!.attributes).toEqual({
      'redis_lock.connection': 'default',
      'redis_lock.key_template': 'order:<0>',
      'redis_lock.mode': 'write',
      'redis_lock.outcome': 'lost',
      'redis_lock.lost.reason': 'revoked',
      'redis_lock.fencing_token': tokens[0],
    });
    expect(locksOf()).toHaveLength(1);
  });

  it('is not added to a span that has ended', async () => {
    const { locks, other, within, spans } = await start();
    const lock = await within('caller', () => locks.acquire(freshKey()));
    const { signal } = lock;
    await other.locks.forceRelease(lock.key);
    await eventually(() => signal.aborted);
    expect(spans().flatMap(({ events }) => events)).toEqual([]);
  });
});
