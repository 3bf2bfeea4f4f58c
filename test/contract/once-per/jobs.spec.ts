import 'reflect-metadata';
import { LockConfigurationError, Locked } from '../../../lib/index.js';
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
