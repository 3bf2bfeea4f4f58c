import 'reflect-metadata';
import { CronTime } from 'cron';
import * as fc from 'fast-check';
import { LockConfigurationError } from '../../lib/index.js';
import { FireFinder } from '../../lib/schedule/fire-finder.js';
import { followJobs, scheduledMethod, stopJobs } from '../../lib/schedule/scheduler.js';
import { checkIsTyped, fuzz, outcomeOf, part } from './support/area.js';
import { Named, anyValue, named, oneOf } from './support/values.js';

const expressions = ['* * * * * *', '0 3 * * *', '0 0 31 2 *', '', 'x'] as const;

const field = fc.oneof(
  anyValue,
  fc.constantFrom(...expressions).map((text) => new Named(text, () => text)),
);

/** Options as a decorator of the schedule keeps them, or something else. */
const options = fc.oneof(
  anyValue,
  fc
    .dictionary(fc.constantFrom('cronTime', 'name', 'timeZone', 'utcOffset', 'timeout'), field, { maxKeys: 4 })
    .map((fields) => {
      const name = `{ ${Object.entries(fields)
        .map(([key, value]) => `${key}: ${value.name}`)
        .join(', ')} }`;
      return new Named(name, () => Object.fromEntries(Object.entries(fields).map(([key, { make }]) => [key, make()])));
    }),
);

const job = (source: string | Date): object => ({ cronTime: new CronTime(source), fireOnTick: () => undefined });

/** What the registry has as its jobs. */
const JOBS = named({
  'no jobs': () => new Map(),
  'a job': () => new Map([['a', job('* * * * * *')]]),
  'a job of a date': () => new Map([['a', job(new Date(Date.now() + 60_000))]]),
  'a job without a time': () => new Map([['a', { fireOnTick: () => undefined }]]),
  'a job with an odd time': () =>
    new Map([['a', { fireOnTick: () => undefined, cronTime: { source: '* * * * * *' } }]]),
  'a job with no time at all': () => new Map([['a', { fireOnTick: () => undefined, cronTime: null }]]),
  'a job that is null': () => new Map([['a', null]]),
  'a list of jobs': () => [job('* * * * * *')],
});

/** A list of jobs is copied, and one of four billion would take hours. */
const jobs = fc.oneof(
  JOBS,
  anyValue.filter(({ name }) => name !== 'a huge sparse array'),
);

/** A replacement for the registry of the scheduler. */
const registry = fc.oneof(
  jobs.map(
    ({ name, make }) =>
      new Named(`a registry of ${name}`, () => ({
        getCronJobs: make,
        addCronJob: () => undefined,
        deleteCronJob: () => undefined,
        getIntervals: () => [],
        getTimeouts: () => [],
      })),
  ),
  anyValue,
);

interface Case {
  readonly type: Named;
  readonly of: 'CRON' | 'INTERVAL' | 'TIMEOUT';
  readonly options: Named;
  readonly registry: Named | undefined;
}

const oneCase: fc.Arbitrary<Case> = fc.record({
  type: fc.oneof({ weight: 5, arbitrary: oneOf(1, 2, 3) }, anyValue),
  of: fc.constantFrom<Case['of']>('CRON', 'INTERVAL', 'TIMEOUT'),
  options,
  registry: fc.option(registry, { nil: undefined }),
});

class SchedulerRegistry {
  getCronJobs(): void {}
}

const modulesWith = (instance: unknown) => ({
  values: () => [{ providers: new Map([[SchedulerRegistry, { instance }]]) }].values() as never,
});

const whole = (value: unknown, min: number): boolean => Number.isSafeInteger(value) && (value as number) >= min;

async function check(given: Case): Promise<void> {
  const method = (): void => undefined;
  Reflect.defineMetadata('SCHEDULER_TYPE', given.type.make(), method);
  Reflect.defineMetadata(`SCHEDULE_${given.of}_OPTIONS`, given.options.make(), method);
  const modules = modulesWith(given.registry?.make());
  followJobs(modules);
  const finder = new FireFinder(modules, () => Date.now());
  const outcome = await outcomeOf(() => {
    scheduledMethod({ run: method }, 'run');
    return finder.claimOf(method, 'Jobs.run');
  });
  stopJobs(modules);
  if ('error' in outcome) {
    checkIsTyped(outcome.error);
    if (!(outcome.error instanceof LockConfigurationError)) throw new Error('Another error', { cause: outcome.error });
    return;
  }
  const { kind, ms, rememberMs } = outcome.value as { kind: string; ms: number; rememberMs: number };
  const isRight = ['at', 'slot', 'gap'].includes(kind) && whole(ms, kind === 'at' ? 0 : 1) && whole(rememberMs, 60_000);
  if (!isRight) throw new Error(`The fire is ${JSON.stringify(outcome.value)}`);
}

describe('metadata of a schedule of any kind', () => {
  it('names a fire that the scripts can remember, or is refused by a typed error', async () => {
    await fuzz('metadata', [part(2_000, oneCase, check)]);
  }, 600_000);
});
