import 'reflect-metadata';
import { OnWorkerEvent, Processor, WorkerHost } from '@nestjs/bullmq';
import { type JobsOptions } from 'bullmq';
import { currentLock, Locked } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { closePlaces, gateOfTest, SideBySide } from '../support/places.js';
import {
  add,
  type Data,
  QUEUE,
  start,
  startTwo,
  Waiting,
  type WorkerApp,
  type WorkJob,
  Work,
} from '../support/places-bullmq.js';

@Processor(QUEUE)
class WithEvents extends Waiting {
  @OnWorkerEvent('completed')
  @Locked('completed:<0.data.id>')
  async onCompleted(job: WorkJob): Promise<void> {
    this.work.seen.push(`completed ${job.data.id} under ${currentLock().key}`);
  }

  @Locked('failed:<0.data.id>')
  @OnWorkerEvent('failed')
  async onFailed(job: WorkJob, error: Error): Promise<void> {
    this.work.seen.push(`failed ${job.data.id} with ${error.message} under ${currentLock().key}`);
  }
}

@Processor(QUEUE, { concurrency: 10, drainDelay: 1 })
class Throwing extends WorkerHost {
  constructor(readonly work: Work) {
    super();
  }

  @Locked('job:<0.data.id>', { ifBusy: 'throw' })
  override async process(job: WorkJob): Promise<string> {
    return this.work.perform(job);
  }
}

@Processor(QUEUE, { concurrency: 10, drainDelay: 1 })
class Unlocked extends WorkerHost {
  constructor(readonly work: Work) {
    super();
  }

  override async process(job: WorkJob): Promise<string> {
    return this.work.perform(job);
  }
}

const running = (...apps: WorkerApp[]): number => apps.reduce((sum, { work }) => sum + work.running, 0);

afterEach(closePlaces);

describe('a locked WorkerHost.process', () => {
  it('runs under the key of its job, gives the job its value, and its locked worker events are called', async () => {
    const app = await start(WithEvents);
    const [done, failed] = [await add(app, { id: '7' }), await add(app, { id: '8', end: 'fail' })];
    expect(await done.ended()).toMatchObject({ state: 'completed', value: '7 under job:7' });
    expect(await failed.ended()).toMatchObject({ state: 'failed', reason: 'no 8' });
    await eventually(() => app.work.seen.length === 2);
    expect(app.work.seen.toSorted()).toEqual(['completed 7 under completed:7', 'failed 8 with no 8 under failed:8']);
  });

  it('runs jobs of one key one after the other on all instances, and jobs of other keys beside them', async () => {
    const [a, b] = await startTwo(Waiting);
    const until = gateOfTest();
    a.work.until = b.work.until = until.opened;
    const jobs = await Promise.all(['7', '7', '7', '8'].map((id) => add(a, { id })));
    const waiting = () => a.locks.activity.waiting + b.locks.activity.waiting;
    await eventually(() => waiting() === 2 && running(a, b) === 2);
    until.open();
    const values = await Promise.all(jobs.map(async (job) => (await job.ended()).value));
    expect(values).toEqual(['7', '7', '7', '8'].map((id) => `${id} under job:${id}`));
    expect(a.work.total + b.work.total).toBe(4);
  });

  it('never runs two jobs of one key at once, however many come', async () => {
    const [a, b] = await startTwo(Waiting);
    const most = new SideBySide();
    for (const { work } of [a, b]) {
      const perform = work.perform.bind(work);
      work.perform = (job) => most.run(() => perform(job));
    }
    const jobs = await Promise.all(Array.from({ length: 20 }, () => add(a, { id: '7' })));
    for (const job of jobs) expect(await job.ended()).toMatchObject({ state: 'completed' });
    expect([most.most, most.total]).toEqual([1, 20]);
  });

  it.each<[string, Data, JobsOptions, number]>([
    ['an error', { id: '7', end: 'fail' }, {}, 1],
    ['an error, and is tried again as often as the job says', { id: '7', end: 'fail' }, { attempts: 3 }, 3],
    ['an UnrecoverableError, and is not tried again', { id: '7', end: 'never again' }, { attempts: 3 }, 1],
  ])('fails its job as without a lock when it fails with %s', async (_what, data, options, attempts) => {
    const [locked, unlocked] = [await start(Waiting), await start(Unlocked)];
    const ends = [await (await add(locked, data, options)).ended(), await (await add(unlocked, data, options)).ended()];
    expect(ends[0]).toEqual(ends[1]);
    expect(ends[0]).toMatchObject({ state: 'failed', attempts });
    expect(await locked.locks.isLocked('job:7')).toBe(false);
  });

  it('fails its attempt when its key is busy, and the next attempt runs', async () => {
    const app = await start(Throwing);
    const held = await app.locks.acquire('job:7');
    const failed = await add(app, { id: '7' });
    expect(await failed.ended()).toMatchObject({ state: 'failed', reason: expect.stringContaining('job:7') });
    const tried = await add(app, { id: '7' }, { attempts: 1_000, backoff: { type: 'fixed', delay: 20 } });
    await eventually(async () => (await app.queue.getDelayedCount()) + (await app.queue.getActiveCount()) > 0);
    expect(app.work.total).toBe(0);
    await held.release();
    expect(await tried.ended()).toMatchObject({ state: 'completed', value: '7 under job:7' });
    expect(app.work.total).toBe(1);
  });
});
