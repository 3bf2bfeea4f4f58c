import 'reflect-metadata';
import { Processor } from '@nestjs/bullmq';
import { type OnModuleDestroy } from '@nestjs/common';
import { DelayedError } from 'bullmq';
import { LockShutdownError } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { freshKey } from '../../support/apps/lock-app.js';
import { untilWaiting } from '../../support/waiting/waiters.js';
import { closePlaces, gateOfTest } from '../support/places.js';
import { add, QUEUE, start, Waiting, type WorkerApp, type WorkJob } from '../support/places-bullmq.js';

/** Takes no more jobs once its app cannot lock them, and puts back those that it has; that costs the job no attempt. */
@Processor(QUEUE, { concurrency: 10, drainDelay: 1 })
class PuttingBack extends Waiting {
  override async process(job: WorkJob, token?: string): Promise<string> {
    try {
      return await super.process(job);
    } catch (error) {
      if (!(error instanceof LockShutdownError)) throw error;
      // It could take the same job again and again, before any other worker does.
      await this.worker.pause(true);
      await job.moveToDelayed(Date.now() + PUT_BACK_MS, token);
      throw new DelayedError();
    }
  }
}

/**
 * Takes no more jobs and ends those that it has before the locks admit no more: the hooks of global modules, such as that of
 * the locks, come last. The module of BullMQ itself closes its workers much later.
 */
@Processor(QUEUE, { concurrency: 10, drainDelay: 1 })
class ClosingFirst extends Waiting implements OnModuleDestroy {
  isClosing = false;

  async onModuleDestroy(): Promise<void> {
    const closed = this.worker.close();
    this.isClosing = true;
    await closed;
  }
}

/** When another worker may take a job that was put back. */
const PUT_BACK_MS = 200;

afterEach(closePlaces);

/** An app that shuts down in the midst of a job, which holds its lock until the test says so. */
async function startLeaving(processor: typeof Waiting) {
  const prefix = freshKey('bull');
  const leaving = await start(processor, prefix, { drainMs: 20_000 });
  const until = gateOfTest();
  leaving.work.until = until.opened;
  const held = await add(leaving, { id: '7' });
  await eventually(() => leaving.work.running === 1);
  return { prefix, leaving, until, held };
}

const isRefusing = ({ locks }: WorkerApp): Promise<boolean> =>
  locks.tryAcquire(freshKey()).then(
    async (lock) => {
      await lock?.release();
      return false;
    },
    () => true,
  );

describe('an app that shuts down while a worker holds a lock', () => {
  it('waits for that job, which ends normally', async () => {
    const { prefix, leaving, until, held } = await startLeaving(Waiting);
    const closed = leaving.close();
    const staying = await start(Waiting, prefix);
    expect(leaving.work.running).toBe(1);
    until.open();
    await closed;
    expect(await held.ended(staying)).toMatchObject({ state: 'completed', value: '7 under job:7', attempts: 1 });
  });

  it('leaves jobs that come meanwhile to other apps when its worker closes in onModuleDestroy', async () => {
    const { prefix, leaving, until, held } = await startLeaving(ClosingFirst);
    const closed = leaving.close();
    await eventually(() => leaving.app.get(ClosingFirst).isClosing);
    const late = await add(leaving, { id: '8' });
    const staying = await start(Waiting, prefix);
    expect(await late.ended(staying)).toMatchObject({ state: 'completed', value: '8 under job:8' });
    until.open();
    await closed;
    expect(await held.ended(staying)).toMatchObject({ state: 'completed', value: '7 under job:7', attempts: 1 });
    expect([leaving.work.total, staying.work.total]).toEqual([1, 1]);
  });

  it('leaves waiting and new jobs to other apps when process() puts back what LockShutdownError refused', async () => {
    const { prefix, leaving, until, held } = await startLeaving(PuttingBack);
    const waiting = await add(leaving, { id: '7' });
    await untilWaiting(leaving, 'job:7');
    const closed = leaving.close();
    await eventually(() => isRefusing(leaving));
    const late = await add(leaving, { id: '8' });
    const staying = await start(PuttingBack, prefix);
    expect(await late.ended(staying)).toMatchObject({ state: 'completed', value: '8 under job:8' });
    expect(leaving.work.running).toBe(1);
    until.open();
    await closed;
    expect(await held.ended(staying)).toMatchObject({ state: 'completed', value: '7 under job:7' });
    expect(await waiting.ended(staying)).toMatchObject({ state: 'completed', value: '7 under job:7' });
    expect([leaving.work.total, staying.work.total]).toEqual([1, 2]);
  });
});
