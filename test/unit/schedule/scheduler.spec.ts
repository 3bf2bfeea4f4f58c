import { type ModulesContainer } from '@nestjs/core';
import { SchedulerRegistry } from '@nestjs/schedule';
import { CronJob, CronTime } from 'cron';
import { addedJob, followJobs, tickingJob } from '../../../lib/schedule/scheduler.js';

/** The modules of an app, one of which provides this as its registry. */
function modulesWith(instance: unknown): ModulesContainer {
  const providers = new Map([[SchedulerRegistry, { instance }]]);
  return new Map([['schedule', { providers }]]) as unknown as ModulesContainer;
}

/** A job that is never due by itself. */
const jobOf = (onTick: () => void | Promise<void>): CronJob => new CronJob('0 0 0 1 1 *', onTick);

const follow = (registry: object): void => followJobs(modulesWith(registry));

describe('the tick of a cron job', () => {
  it('is that of the inner job when one job fires another by hand', async () => {
    const registry = new SchedulerRegistry();
    follow(registry);
    const seen: unknown[] = [];
    const inner = jobOf(() => void seen.push(tickingJob()));
    const outer = jobOf(async () => {
      await inner.fireOnTick();
      seen.push(tickingJob());
    });
    registry.addCronJob('inner', inner);
    registry.addCronJob('outer', outer);
    await outer.fireOnTick();
    expect(seen).toEqual([inner, outer]);
  });

  it('keeps its function, its `this`, and the handling of its errors', async () => {
    const registry = new SchedulerRegistry();
    follow(registry);
    const told: unknown[] = [];
    const job = CronJob.from({
      cronTime: '0 0 0 1 1 *',
      onTick(this: unknown) {
        told.push(this);
        throw new Error('of the job');
      },
      errorHandler: (error) => told.push((error as Error).message),
    });
    registry.addCronJob('job', job as CronJob);
    await job.fireOnTick();
    expect(told).toEqual([job, 'of the job']);
  });

  it('is followed once, for any number of module starts and additions of the job', () => {
    const registry = new SchedulerRegistry();
    follow(registry);
    const add = Object.getOwnPropertyDescriptor(registry, 'addCronJob');
    follow(registry);
    expect(Object.getOwnPropertyDescriptor(registry, 'addCronJob')).toEqual(add);
    const job = jobOf(() => undefined);
    registry.addCronJob('job', job);
    const declared = job.cronTime;
    job.setTime(new CronTime('* * * * *'));
    registry.deleteCronJob('job');
    registry.addCronJob('other', job);
    expect(addedJob(job)).toMatchObject({ name: 'job', cronTime: declared });
  });
});

describe('a registry that is followed', () => {
  it('still works with a spy, and refuses what it refused', () => {
    const registry = new SchedulerRegistry();
    const added = jest.spyOn(registry, 'addCronJob');
    follow(registry);
    const job = jobOf(() => undefined);
    registry.addCronJob('job', job);
    expect(jest.isMockFunction(Object.getOwnPropertyDescriptor(registry, 'addCronJob')!.value)).toBe(true);
    expect(added).toHaveBeenCalledWith('job', job);
    expect(added.mock.contexts).toEqual([registry]);
    const other = jobOf(() => undefined);
    expect(() => registry.addCronJob('job', other)).toThrow('job');
    expect(addedJob(other)).toBeUndefined();
  });

  it.each<[string, object]>([
    ['nothing', {}],
    ['jobs that are not jobs', { addCronJob: jest.fn(), getCronJobs: jest.fn() }],
    ['no list of jobs', { addCronJob: jest.fn() }],
    ['no method to add one', { getCronJobs: () => new Map() }],
    ['a method too many', { addCronJob: jest.fn(), getCronJobs: () => new Map([['one', {}]]) }],
    [
      'no patience',
      {
        getCronJobs: jest.fn(() => {
          throw new Error('not expected');
        }),
      },
    ],
  ])('may be a stand-in with %s', (_what, registry) => {
    expect(() => follow(registry)).not.toThrow();
    const { addCronJob } = registry as Partial<SchedulerRegistry>;
    for (const job of [undefined, {}, { fireOnTick: () => 1 }]) addCronJob?.('job', job as never);
  });
});
