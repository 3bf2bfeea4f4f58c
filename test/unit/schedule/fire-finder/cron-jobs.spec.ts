import { Cron, ScheduleModule } from '@nestjs/schedule';
import { type App, closeApps, fireAt, startApp } from '../schedule-app.js';

class Jobs {
  @Cron('0 * * * *', { name: 'hourly', disabled: true })
  named() {}

  @Cron('0 * * * *', { disabled: true })
  unnamed() {}

  @Cron(new Date('2031-05-06T07:08:09.000Z'), { name: 'once', disabled: true })
  date() {}

  @Cron(new Date('2032-05-06T07:08:09.000Z'), { disabled: true })
  unnamedDate() {}
}

const NOW = '2026-03-04T05:25:00.000Z';
const start = async () => {
  const app = await startApp(Jobs);
  await app.app.init();
  return app;
};

/** Sets the time of a job, as applications do at run time; the class of the time is that of the job at hand. */
function setTime(app: App, name: string, expression: string): void {
  const job = app.registry().getCronJob(name);
  const CronTime = job.cronTime.constructor as new (source: string) => typeof job.cronTime;
  job.setTime(new CronTime(expression));
}

afterEach(closeApps);

describe('the cron job of a method', () => {
  it('is the one with its name, with its current time', async () => {
    const app = await start();
    expect(fireAt(app, 'named', NOW)).toBe('2026-03-04T05:00:00Z');
    setTime(app, 'hourly', '*/10 * * * *');
    expect(fireAt(app, 'named', NOW)).toBe('2026-03-04T05:20:00Z');
    expect(fireAt(app, 'unnamed', NOW)).toBe('2026-03-04T05:00:00Z');
  });

  it('may have been created for a date', async () => {
    const app = await start();
    expect(app.claimAt('date', NOW)).toMatchObject({ kind: 'at', ms: 0 });
    setTime(app, 'once', '*/10 * * * *');
    expect(fireAt(app, 'date', NOW)).toBe('2026-03-04T05:20:00Z');
  });

  it('is noticed with its new time by an instance that knew the former one', async () => {
    const app = await start();
    const finder = app.newFinder(() => new Date(NOW).getTime());
    const minutes = () => new Date(finder.claimOf(app.methodOf('named'), 'here').ms).getUTCMinutes();
    expect(minutes()).toBe(0);
    setTime(app, 'hourly', '*/10 * * * *');
    expect(minutes()).toBe(20);
  });

  it('is remembered when a shutdown has removed it', async () => {
    const app = await start();
    const finder = app.newFinder(() => new Date(NOW).getTime());
    const fires = () => ['named', 'unnamed'].map((name) => finder.claimOf(app.methodOf(name), 'here').ms);
    const before = fires();
    await app.app.close();
    expect(app.registry().getCronJobs().size).toBe(0);
    expect(fires()).toEqual(before);
  });

  it('is found beside the job of another library', async () => {
    const app = await startApp(Jobs);
    app.registry().addCronJob('foreign', { stop: () => undefined } as never);
    await app.app.init();
    expect(fireAt(app, 'unnamed', NOW)).toBe('2026-03-04T05:00:00Z');
  });

  it('is noticed without a name, too, whether or not an instance knew the former time', async () => {
    const app = await start();
    const finder = app.newFinder(() => new Date(NOW).getTime());
    const minutes = () => new Date(finder.claimOf(app.methodOf('unnamed'), 'here').ms).getUTCMinutes();
    expect(minutes()).toBe(0);
    const [name] = [...app.registry().getCronJobs()].find(([, { name }]) => name === undefined)!;
    setTime(app, name, '*/10 * * * *');
    expect(minutes()).toBe(20);
    expect(fireAt(app, 'unnamed', NOW)).toBe('2026-03-04T05:20:00Z');
  });

  it('is noticed without a name for a date, too', async () => {
    const app = await start();
    expect(app.claimAt('unnamedDate', NOW)).toMatchObject({ kind: 'at', ms: 0 });
    const [name] = [...app.registry().getCronJobs()].find(([, { cronTime, name }]) => cronTime.realDate && !name)!;
    setTime(app, name, '*/10 * * * *');
    expect(fireAt(app, 'unnamedDate', NOW)).toBe('2026-03-04T05:20:00Z');
  });

  it('is the calling one of several that were declared alike', async () => {
    const minutes: number[] = [];
    const asking: (() => void)[] = [];
    class Alike {
      @Cron('0 0 1 1 *')
      first() {}

      @Cron('0 0 1 1 *')
      second() {
        asking[0]!();
      }
    }
    const app = await startApp(Alike);
    await app.app.init();
    const finder = app.newFinder(() => new Date(NOW).getTime());
    const ask = () => new Date(finder.claimOf(app.methodOf('second'), 'here').ms).getUTCMinutes();
    asking.push(() => minutes.push(ask()));
    const [first, second] = [...app.registry().getCronJobs()];
    setTime(app, first![0], '*/10 * * * *');
    setTime(app, second![0], '*/7 * * * *');
    await second![1].fireOnTick();
    expect([...minutes, ask()]).toEqual([21, 21]);
  });

  it('is found among several schedulers', async () => {
    const app = await startApp(Jobs, [ScheduleModule.forRoot({ cronJobs: false }), ScheduleModule.forRoot()]);
    await app.app.init();
    expect(fireAt(app, 'named', NOW)).toBe('2026-03-04T05:00:00Z');
  });
});
