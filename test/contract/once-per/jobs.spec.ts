import 'reflect-metadata';
import { Inject, Injectable, Logger, mixin, type Type } from '@nestjs/common';
import { currentLock, LockConfigurationError, Locked } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { gate } from '../../support/waiting/gate.js';
import { rejection } from '../../support/waiting/rejection.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { ownPlace } from '../support/stores.js';
import { untilWaiting, whenAllHeard } from '../../support/waiting/waiters.js';

/** So long that no test sees the end of one. */
const SLOT_MS = 30 * 24 * 3_600_000;

type Task = () => Promise<unknown>;

/** Two jobs that must not run at the same time. */
class Reports {
  @Locked('report:<0>', { oncePer: SLOT_MS })
  async daily(_id: string, task: Task): Promise<unknown> {
    return task();
  }

  @Locked('report:<0>', { oncePer: SLOT_MS, ifBusy: 'wait', waitMs: 25_000 })
  async weekly(_id: string, task: Task): Promise<unknown> {
    return task();
  }
}

/** Each subclass is a job. */
abstract class BaseReports {
  @Locked('report:<0>', { oncePer: SLOT_MS })
  async inherited(_id: string): Promise<string | undefined> {
    return this.constructor.name;
  }
}
class ShopReports extends BaseReports {}
class BankReports extends BaseReports {}

/** An instance in this process; `skipped` are the reasons why it did not run. */
async function start() {
  const { app, locks } = await startApp({ drainMs: 20_000 }, { providers: [Reports, ShopReports, BankReports] });
  const skipped: string[] = [];
  locks.events.on('skipped', ({ reason }) => skipped.push(reason));
  return { reports: app.get(Reports), inheriting: [app.get(ShopReports), app.get(BankReports)], skipped, locks };
}

const run = async (): Promise<string> => 'ran';

describe('two jobs with one key', () => {
  afterEach(closeAll);

  it('each run the same fire once', async () => {
    const [a, b, id] = [await start(), await start(), freshKey()];
    expect(await a.reports.daily(id, run)).toBe('ran');
    expect(await b.reports.weekly(id, run)).toBe('ran');
    for (const { reports } of [a, b]) {
      expect([await reports.daily(id, run), await reports.weekly(id, run)]).toEqual([undefined, undefined]);
    }
    expect([...a.skipped, ...b.skipped]).toEqual(Array.from({ length: 4 }, () => 'claimed'));
  });

  it('include the jobs of two subclasses that inherit one method', async () => {
    const [{ inheriting, locks }, id] = [await start(), freshKey()];
    const answers: unknown[] = [];
    for (const job of [...inheriting, ...inheriting]) answers.push(await job.inherited(id));
    expect(answers).toEqual(['ShopReports', 'BankReports', undefined, undefined]);
    expect(await locks.lastRun(`report:${id}`, 'ShopReports.inherited')).toMatchObject({ outcome: 'done' });
  });

  it('each have a last run, and lastRun() without a job reports the one that began last', async () => {
    const [a, b, id] = [await start(), await start(), freshKey()];
    const key = `report:${id}`;
    expect(await a.locks.lastRun(key, 'Reports.daily')).toBeNull();
    await a.reports.daily(id, run);
    await rejection(a.reports.weekly(id, () => Promise.reject(new Error('of the work'))));
    const told = async (job?: string) => {
      const last = await b.locks.lastRun(key, job);
      return last && [last.job, last.outcome];
    };
    await whenAllHeard(async () => {
      const daily = ['Reports.daily', 'done'];
      const weekly = ['Reports.weekly', 'failed'];
      expect([await told('Reports.daily'), await told('Reports.weekly')]).toEqual([daily, weekly]);
      expect([await told(), await told('Reports.monthly')]).toEqual([weekly, null]);
    });
  });

  it.each(['', 5, null, {}])(
    'need a string as the name of a job: %p is refused before anything is sent',
    async (job) => {
      const place = await ownPlace();
      const { locks } = await startApp(place.options);
      const error = await rejection(locks.lastRun('report', job as string));
      expect(error).toBeInstanceOf(LockConfigurationError);
      expect(error.message).toMatch(/lastRun\("report"\).*such as 'Reports\.noon'/);
      await place.expectNotSent('evalsha');
    },
  );

  it('run one after the other: a call that must not wait is skipped as busy, and its fire can still run', async () => {
    const [a, b, id] = [await start(), await start(), freshKey()];
    const [begun, until] = [gate(), gate()];
    const first = a.reports.daily(id, async () => {
      begun.open();
      return until.opened.then(run);
    });
    await begun.opened;
    let isFirstOver = false;
    const waiting = [a, b].map(({ reports }) => reports.weekly(id, async () => isFirstOver));
    await untilWaiting(a, `report:${id}`, 2);
    isFirstOver = true;
    until.open();
    expect(await first).toBe('ran');
    expect(new Set(await Promise.all(waiting))).toEqual(new Set([true, undefined]));

    const [other, still] = [freshKey(), gate()];
    const weekly = b.reports.weekly(other, () => still.opened.then(run));
    await eventually(() => b.locks.isLocked(`report:${other}`));
    const before = a.skipped.length;
    expect(await a.reports.daily(other, run)).toBeUndefined();
    expect(a.skipped.slice(before)).toEqual(['busy']);
    still.open();
    expect(await weekly).toBe('ran');
    expect(await a.reports.daily(other, run)).toBe('ran');
  });
});

/** A job whose work can also be run by hand. */
class Papers {
  @Locked('paper:<0>', { oncePer: SLOT_MS })
  async daily(id: string): Promise<string | undefined> {
    return this.print(id);
  }

  @Locked('paper:<0>')
  async print(_id: string): Promise<string> {
    return `printed under ${currentLock().key}`;
  }
}

it('a job may call a plain locked method of its key, which also runs by hand between two fires', async () => {
  const [{ app }, id] = [await startApp({}, { providers: [Papers] }), freshKey()];
  const papers = app.get(Papers);
  const printed = `printed under paper:${id}`;
  expect([await papers.daily(id), await papers.daily(id), await papers.print(id)]).toEqual([
    printed,
    undefined,
    printed,
  ]);
  await closeAll();
});

/** As a Nest library makes a class per configuration: each process gives it another random name. */
function reportsOf(_shop: string): Type<Reports> {
  class MixedReports extends BaseReports {
    @Locked('report:<0>', { oncePer: SLOT_MS })
    async daily(_id: string, task: Task): Promise<unknown> {
      return task();
    }
  }
  return mixin(MixedReports as unknown as Type<Reports>);
}

const KEY = 'report:one';

const jobIn = (name: string, key: string | string[] | (() => string[]) = KEY, job?: string): Type => {
  class Job {
    @Locked(key, { oncePer: SLOT_MS, ...(job === undefined ? {} : { job }) })
    async run(): Promise<string | undefined> {
      return name;
    }
  }
  Object.defineProperty(Job, 'name', { value: name });
  return Job;
};

describe('the name of a job', () => {
  afterEach(closeAll);
  afterEach(() => jest.restoreAllMocks());

  it('is the same in each process for a class of mixin(), whether it has the method or inherits it', async () => {
    const apps = [];
    for (let i = 0; i < 3; i += 1) {
      const Mixed = reportsOf('a');
      const Inheriting = mixin(class extends ShopReports {});
      const { app, locks } = await startApp({}, { providers: [Mixed, Inheriting] });
      apps.push({ locks, mixed: app.get<Reports>(Mixed), inheriting: app.get<BaseReports>(Inheriting) });
    }
    const id = freshKey();
    const answers = [];
    for (const { mixed, inheriting } of apps) answers.push(await mixed.daily(id, run), await inheriting.inherited(id));
    expect(answers.filter((answer) => answer !== undefined)).toHaveLength(2);
    for (const job of ['MixedReports.daily', 'ShopReports.inherited']) {
      expect(await apps[0]!.locks.lastRun(`report:${id}`, job)).toMatchObject({ job });
    }
  });

  it.each(['daily report', '-', '%2D'])(
    'is that of the option `job`, which stays when the class is renamed: %s',
    async (job) => {
      const key = freshKey();
      const [Old, New] = [jobIn('Reports', key, job), jobIn('Papers', key, job)];
      const [a, b] = [await startApp({}, { providers: [Old] }), await startApp({}, { providers: [New] })];
      expect([await a.app.get(Old).run(), await b.app.get(New).run()]).toEqual(['Reports', undefined]);
      expect(await b.locks.lastRun(key, job)).toMatchObject({ job, outcome: 'done' });
    },
  );

  class Base {
    @Locked(KEY, { oncePer: SLOT_MS, job: 'base' })
    async run(): Promise<void> {}
  }
  class Twice {
    @Locked(KEY, { oncePer: SLOT_MS, job: 'reports' })
    async daily(): Promise<void> {}

    @Locked(KEY, { oncePer: SLOT_MS, job: 'reports' })
    async weekly(): Promise<void> {}
  }
  class Named {
    @Locked(KEY, { oncePer: SLOT_MS, job: 'reports' })
    async daily(): Promise<void> {}

    @Locked(KEY, { oncePer: SLOT_MS, job: 'reports' })
    async [Symbol('weekly')](): Promise<void> {}
  }
  class BelowAnother {
    @Locked('database')
    @Locked(KEY, { oncePer: SLOT_MS, job: 'reports' })
    async daily(): Promise<void> {}

    @Locked(KEY, { oncePer: SLOT_MS, job: 'reports' })
    async weekly(): Promise<void> {}
  }
  it.each<[string, Type[], string]>([
    ['two classes of one name', [jobIn('Reports'), jobIn('Reports')], 'Reports.run'],
    ['two classes with one `job`', [jobIn('Reports', KEY, 'both'), jobIn('Papers', KEY, 'both')], 'both'],
    ['two methods with one `job`', [Twice], 'reports'],
    ['a method and one named by a symbol', [Named], 'reports'],
    ['a method and one below another lock', [BelowAnother], 'reports'],
    ['two classes, one with its key in a list,', [jobIn('Reports'), jobIn('Reports', [KEY])], 'Reports.run'],
    [
      'two classes with key functions that return lists',
      [1, 2].map(() => jobIn('Reports', () => [KEY])),
      'Reports.run',
    ],
    ['two subclasses of a base with a `job`', [class Shop extends Base {}, class Bank extends Base {}], 'base'],
    ['two classes of mixin()', [mixin(class extends Base {}), mixin(class extends Base {})], 'base'],
  ])('cannot be that of %s with one key in an app', async (_what, providers, name) => {
    const error = await rejection(startApp({}, { providers }));
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toContain(`"${name}"`);
    expect(error.message).toMatch(/`job`.*another key/);
  });

  it('may be that of two classes with two keys, of a subclass, and of objects that one class has, with a warning', async () => {
    const warn = jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
    const warnings = () => warn.mock.calls.map(([line]) => String(line)).filter((line) => line.includes('objects'));
    const Job = jobIn('Reports');
    class Sub extends Job {}
    const alias = { provide: 'alias', useExisting: Job };
    const others = [Sub, jobIn('Reports', 'report:other'), ShopReports, BankReports, reportsOf('a'), reportsOf('b')];
    await startApp({}, { providers: [Job, alias, ...others] });
    expect(warnings()).toEqual([]);
    await startApp({}, { providers: [Job, { provide: 'again', useClass: Job }] });
    expect(warnings()).toEqual([expect.stringMatching(/2 objects.*"Reports\.run".*"report:one"/)]);
  });

  it('is compared with the keys that the objects have when the app starts', async () => {
    @Injectable()
    class Shops {
      shop = '';

      constructor(@Inject('shop') readonly given: string) {}

      async onModuleInit(): Promise<void> {
        this.shop = this.given;
      }

      @Locked(
        function (this: Shops) {
          return `report:${this.shop}`;
        },
        { oncePer: SLOT_MS },
      )
      async run(): Promise<void> {}
    }
    class Again extends Shops {}
    Object.defineProperty(Again, 'name', { value: 'Shops' });
    const start = (first: string, second: string) => {
      const providers = [first, second].map((shop, i) => ({
        provide: `${i}`,
        useFactory: () => new (i === 0 ? Shops : Again)(shop),
      }));
      return startApp({}, { providers });
    };
    await start('a', 'b');
    expect(await rejection(start('a', 'a'))).toBeInstanceOf(LockConfigurationError);
  });
});
