import { LockEvents } from '../../../lib/core/lock.events.js';
import { LockConfigurationError } from '../../../lib/core/lock.errors.js';
import { instrumentLocks, OpenTelemetryLockModule } from '../../../lib/observability/opentelemetry.js';
import { collectLockMetrics, PrometheusLockModule } from '../../../lib/observability/prometheus.js';
import { FakeReporter } from '../../support/core/fake-store.js';

const locks = { events: new LockEvents(new FakeReporter()), connection: undefined };

const setUps: [string, (options: object) => unknown][] = [
  ['collectLockMetrics', (options) => collectLockMetrics(locks, options)],
  ['instrumentLocks', (options) => instrumentLocks(locks, options)],
  ['PrometheusLockModule', (options) => PrometheusLockModule.forRoot(options)],
  ['OpenTelemetryLockModule', (options) => OpenTelemetryLockModule.forRoot(options)],
];

describe.each(setUps)('the options of %s', (name, setUp) => {
  it.each<[string, unknown, RegExp]>([
    ['no object', null, /to be an object, got null/],
    ['one that does not exist', { bucket: [1] }, /Unknown option `bucket` of .*; expected one of .*acquireBuckets/],
    ['no buckets', { acquireBuckets: [] }, /`acquireBuckets` to be a list of rising seconds/],
    ['a bucket at 0', { acquireBuckets: [0, 1] }, /`acquireBuckets`/],
    ['buckets that do not rise', { holdBuckets: [1, 1] }, /`holdBuckets`/],
    ['buckets without end', { holdBuckets: [1, Infinity] }, /`holdBuckets`/],
    ['buckets that are not a list', { holdBuckets: 1 }, /`holdBuckets`/],
  ])('refuses %s', (_what, options, text) => {
    expect(() => setUp(options as object)).toThrow(LockConfigurationError);
    expect(() => setUp(options as object)).toThrow(text);
    if (options === null) expect(() => setUp(options as never)).toThrow(name);
  });
});

describe.each(setUps)('what %s needs of another library', (name, setUp) => {
  const options =
    name.includes('Telemetry') || name === 'instrumentLocks' ? ['meterProvider', 'tracerProvider'] : ['registry'];

  it.each(options)('is refused as `%s` before it is used', (option) => {
    for (const value of [null, {}, 'global']) {
      expect(() => setUp({ [option]: value })).toThrow(LockConfigurationError);
      expect(() => setUp({ [option]: value })).toThrow(`Expected \`${option}\` to be a`);
    }
  });
});

it.each(['false', 0, null])('%j as `recordKeys` is refused: spans with keys may have personal data', (recordKeys) => {
  expect(() => instrumentLocks(locks, { recordKeys: recordKeys as never })).toThrow(
    /^Expected `recordKeys` to be true or false, got /,
  );
});

describe.each(setUps.slice(2))('the connections of %s', (_name, setUp) => {
  it.each<[string, unknown]>([
    ['no list', 'jobs'],
    ['an empty name', ['']],
    ['a name that is not a text', [7]],
  ])('are refused as %s', (_what, connections) => {
    expect(() => setUp({ connections })).toThrow(/`connections`/);
  });

  it('are not an option of a function for one service', () => {
    expect(() => collectLockMetrics(locks, { connections: [] } as object)).toThrow(/`connections`/);
    expect(() => instrumentLocks(locks, { connections: [] } as object)).toThrow(/`connections`/);
  });
});
