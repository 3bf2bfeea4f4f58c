import { type LockEventMap, LockEvents } from '../../../lib/core/lock.events.js';
import { LockBusyError, LockLostError, type LockLostReason } from '../../../lib/core/lock.errors.js';
import { errorTypeOf, type LockMetric, measureLocks } from '../../../lib/observability/measure-locks.js';
import { FakeReporter } from '../../support/core/fake-store.js';

const LOCK = {
  key: 'order:7',
  keys: ['order:7'],
  template: 'order:<0>',
  where: 'Orders.charge',
  note: undefined,
  mode: 'write',
} as const;
const LABELS = { connection: 'default', key_template: 'order:<0>', mode: 'write' };
type Measured = [metric: LockMetric, value: number, labels: object, errorType?: string];

function setUp({ connection = undefined as string | undefined, broken = undefined as LockMetric | undefined } = {}) {
  const [reporter, measured] = [new FakeReporter(), [] as Measured[]];
  const events = new LockEvents(reporter);
  const stop = measureLocks({ events, connection }, (metric, value, labels, errorType) => {
    if (metric === broken) throw new Error(`${metric} is broken`);
    measured.push(errorType === undefined ? [metric, value, labels] : [metric, value, labels, errorType]);
  });
  const started = measured.splice(0);
  const tell = {
    waiting: (told = {}) => events.emit('waiting', () => ({ ...LOCK, ahead: 0, holder: undefined, ...told })),
    acquired: (attempt: string, told = {}) =>
      events.emit('acquired', () => ({
        ...heldBy(attempt),
        waitedMs: 250,
        waited: false,
        local: false,
        serverTimeMs: 0,
        ...told,
      })),
    failed: (reason: LockEventMap['acquireFailed']['reason'], error: unknown, told = {}) =>
      events.emit('acquireFailed', () => ({ ...LOCK, waitedMs: 5, waited: false, reason, error, ...told })),
    released: (attempt: string, told = {}) =>
      events.emit('released', () => ({ ...heldBy(attempt), heldMs: 1_500, holds: 0, ...told })),
    lost: (attempt: string, reason: LockLostReason) =>
      events.emit('lost', () => ({ ...heldBy(attempt), heldMs: 2_000, reason, error: lostError(reason), earlier: [] })),
    elected: (attempt: string) => events.emit('elected', () => heldBy(attempt)),
    demoted: (attempt: string) => events.emit('demoted', () => ({ ...heldBy(attempt), heldMs: 1, reason: 'resigned' })),
    renewed: () => events.emit('renewed', () => ({ ...heldBy('a'), remainingMs: 1 })),
    renewFailed: () => events.emit('renewFailed', () => ({ ...heldBy('a'), cause: undefined })),
  };
  /** What was measured since the last time. */
  const taken = (metric?: LockMetric) => measured.splice(0).filter(([name]) => !metric || name === metric);
  return { events, stop, started, tell, taken, reporter };
}

const heldBy = (attempt: string): Pick<LockEventMap['renewed'], keyof typeof LOCK | 'attempt' | 'fencingToken'> => ({
  ...LOCK,
  attempt,
  fencingToken: 1,
});
const lostError = (reason: LockLostReason): LockLostError => new LockLostError('lost', { reason });

describe('measureLocks', () => {
  it('counts a lock as held no more when it is transferred, and where it is adopted from then on', () => {
    const { events, tell, taken } = setUp();
    tell.acquired('a');
    taken();
    events.emit('transferred', () => ({ ...heldBy('a'), heldMs: 1_500 }));
    expect(taken()).toEqual([
      ['held', -1, LABELS],
      ['holdDuration', 1.5, { ...LABELS, outcome: 'transferred' }],
    ]);
    events.emit('adopted', () => ({ ...heldBy('b'), from: 'a' }));
    expect(taken()).toEqual([['held', 1, LABELS]]);
    tell.released('b');
    expect(taken('held')).toEqual([['held', -1, LABELS]]);
  });

  it.each<[LockEventMap['acquireFailed']['reason'], string]>([
    ['busy', 'busy'],
    ['claimed', 'busy'],
    ['timeout', 'timeout'],
    ['aborted', 'aborted'],
    ['shutdown', 'aborted'],
    ['error', 'error'],
  ])('records a request that failed with %s with the outcome %s', (reason, outcome) => {
    const { tell, taken } = setUp();
    tell.failed(reason, new LockBusyError('busy'));
    expect(taken()).toEqual([['acquireDuration', 0.005, { ...LABELS, outcome }, 'LOCK_BUSY']]);
  });

  it.each<[LockLostReason, number]>([
    ['expired', 1],
    ['taken', 1],
    ['unreachable', 1],
    ['revoked', 1],
    ['shutdown', 1],
    ['dropped', 1],
    ['max-hold', 0],
  ])('records a hold that was lost (%s) as lost, and this many lost renewals: %i', (reason, renewals) => {
    const { tell, taken } = setUp();
    tell.acquired('a');
    taken();
    tell.lost('a', reason);
    expect(taken()).toEqual([
      ['held', -1, LABELS],
      ['holdDuration', 2, { ...LABELS, outcome: 'lost' }],
      ...Array.from({ length: renewals }, () => ['renewals', 1, { connection: 'default', outcome: 'lost' }]),
    ]);
  });
});

describe('the measuring of leaders', () => {
  const labels = { connection: 'default', key_template: LOCK.template };

  it('counts elections, and who leads now', () => {
    const { tell, taken } = setUp();
    tell.elected('a');
    tell.demoted('a');
    expect(taken()).toEqual([
      ['elections', 1, labels],
      ['leading', 1, labels],
      ['leading', -1, labels],
    ]);
  });

  it('subtracts a leader when it stops, and ignores one from before', () => {
    const { tell, taken, stop } = setUp();
    tell.demoted('before');
    tell.elected('a');
    taken();
    stop();
    expect(taken()).toEqual([['leading', -1, labels]]);
  });
});

describe('a hold or wait from before the measuring', () => {
  it('does not count below 0 when it ends', () => {
    const { tell, taken } = setUp();
    tell.released('before');
    tell.acquired('a', { waited: true });
    tell.lost('before too', 'expired');
    expect([taken('held').length, taken('waiting')]).toEqual([1, []]);
  });
});

describe('the end of the measuring', () => {
  it('subtracts held locks and waiters, and removes the listeners', () => {
    const { tell, taken, stop } = setUp();
    tell.acquired('a');
    tell.acquired('b', { mode: 'read' });
    for (let i = 0; i < 3; i += 1) tell.waiting();
    taken();
    stop();
    expect(taken()).toEqual([
      ['held', -1, LABELS],
      ['held', -1, { ...LABELS, mode: 'read' }],
      ['waiting', -3, LABELS],
    ]);
    tell.released('a');
    tell.failed('timeout', undefined, { waited: true });
    tell.renewed();
    expect(taken()).toEqual([]);
  });
});

describe('an exporter that throws', () => {
  it('is logged, and does not prevent other measurements', () => {
    const { tell, taken, reporter } = setUp({ broken: 'acquireDuration' });
    tell.waiting();
    tell.acquired('a', { waited: true });
    tell.released('a');
    expect(taken().map(([metric, change]) => [metric, change])).toEqual([
      ['waiting', 1],
      ['waiting', -1],
      ['held', 1],
      ['held', -1],
      ['holdDuration', 1.5],
    ]);
    expect(reporter.lines.join()).toMatch(/acquireDuration is broken/);
  });
});

describe('the type of an error', () => {
  it.each<[unknown, string]>([
    [new LockBusyError('busy'), 'LOCK_BUSY'],
    [new TypeError('no'), 'TypeError'],
    [AbortSignal.abort().reason, 'AbortError'],
    ['a text', '_OTHER'],
    [undefined, '_OTHER'],
    [{ name: 'Mr. Smith' }, '_OTHER'],
  ])('is, of %p, %s', (error, type) => expect(errorTypeOf(error)).toBe(type));
});
