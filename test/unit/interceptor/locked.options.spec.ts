import { LockConfigurationError, Locked, type LockedOptions } from '../../../lib/index.js';
import { thrownBy } from '../../support/waiting/rejection.js';

/** Defines a class with a locked method `run`. */
function check(options: LockedOptions, className = 'Jobs'): void {
  class Jobs {
    async run(): Promise<void> {}
  }
  Object.defineProperty(Jobs, 'name', { value: className });
  const descriptor = Object.getOwnPropertyDescriptor(Jobs.prototype, 'run')!;
  Locked('k', options)(Jobs.prototype, 'run', descriptor);
}

const refusalOf = (options: LockedOptions): Error => thrownBy(() => check(options));

const ALTERNATIVE = (): string => 'busy';

describe('the options of a job that runs once', () => {
  it.each<[LockedOptions, RegExp]>([
    [{ waitMs: 5 }, /`waitMs: 5` .*with `oncePer`.*leave it out\.$/],
    [{ rerunOnLoss: true, ifBusy: 'throw' }, /`rerunOnLoss`, .*leave `ifBusy: 'throw'` out\.$/],
    [{ rerunOnLoss: true, ifBusy: 'wait' }, /`rerunOnLoss`, .*leave `ifBusy: 'wait'` out\.$/],
    [{ rerunOnLoss: true, ifBusy: 'wait', waitMs: 5 }, /`rerunOnLoss`, .*leave `ifBusy: 'wait'` out\.$/],
    [{ reentrant: true }, /leave `reentrant` out\.$/],
    [{ rerunOnLoss: true, owner: 'nightly' }, /calls with the same `owner` do not; leave one out\.$/],
  ])('are refused with advice when they contradict: %j', (options, text) => {
    for (const oncePer of ['fire', 60_000] as const) {
      const error = refusalOf({ ...options, oncePer });
      expect(error).toBeInstanceOf(LockConfigurationError);
      expect(error.message).toMatch(/^Jobs\.run: /);
      expect(error.message).toMatch(text);
    }
  });

  it.each<LockedOptions>([
    {},
    { waitMs: 5, ifBusy: 'wait' },
    { ifBusy: 'throw' },
    { rerunOnLoss: true },
    { rerunOnLoss: false, ifBusy: 'throw' },
    { reentrant: false },
  ])('are accepted when they are consistent: %j', (options) => {
    for (const oncePer of ['fire', 60_000] as const) check({ ...options, oncePer });
  });

  it.each<LockedOptions>([{ spreadMs: 5 }, { rerunOnLoss: true }, { rerunOnLoss: false }, { job: 'Jobs.run' }])(
    'are refused without `oncePer`: %j',
    (options) => {
      expect(refusalOf(options).message).toMatch(/^Jobs\.run: .*give them an `oncePer`/);
    },
  );
});

describe('the name of a job', () => {
  const named = (className: string, job?: unknown) => check({ oncePer: 'fire', job } as LockedOptions, className);

  it.each(['', 'a', '$t', '80f2b3c4d5e6f708192a3'])(
    'is needed where the class has a generated one: %p',
    (className) => {
      const error = thrownBy(() => named(className));
      expect(error).toBeInstanceOf(LockConfigurationError);
      expect(error.message).toMatch(/each build and process.*mixin\(\).*`job: 'Reports\.noon'`/);
      expect(() => named(className, 'Reports.noon')).not.toThrow();
    },
  );

  it.each(['', 5, null, {}])('is a non-empty string, and not %p', (job) => {
    expect(thrownBy(() => named('Jobs', job)).message).toMatch(/^Jobs\.run: Expected `job` to be .*'Reports\.noon'/);
  });

  it('is not needed for a class whose name was written', () => named('Ads'));
});

describe('the options of a call that waits', () => {
  it.each<LockedOptions>([
    { waitMs: 5 },
    { waitMs: 5, ifBusy: 'wait' },
    { waitMs: 5, ifBusy: 'share' },
    { waitMs: 0, ifBusy: 'skip' },
    { maxWaiters: 5, ifBusy: 'wait' },
    { reentrant: true },
  ])('are accepted: %j', (options) => check(options));

  it.each(['skip', 'throw', ALTERNATIVE] as const)(
    'cannot be combined with `ifBusy` %p, which tries once',
    (ifBusy) => {
      expect(refusalOf({ waitMs: 5, ifBusy }).message).toMatch(
        /`waitMs: 5` .*`ifBusy: .*`, which tries once; leave it out/,
      );
      expect(refusalOf({ maxWaiters: 5, ifBusy }).message).toMatch(/`maxWaiters: 5` .*`ifBusy: .*`, which tries once/);
    },
  );
});

describe('an unknown option of a decorator', () => {
  it('is refused with the list of its options: not `mode`, which the decorator sets', () => {
    const { message } = refusalOf({ timeout: 5 } as LockedOptions);
    expect(message).toContain('Unknown lock option `timeout`; expected one of leaseMs,');
    expect(message).not.toContain('mode');
    expect(refusalOf({ mode: 'read' } as LockedOptions).message).toMatch(
      /^Jobs\.run: .*use @ReadLocked or @WriteLocked/,
    );
  });
});
